package doccheck_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamplesAreListed: docs/README.md names every file of examples of the
// stable packages.
func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/README.md")
	require.NoError(t, err)
	for _, dir := range stable {
		files, err := filepath.Glob(filepath.Join("../..", dir, "example*_test.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		for _, file := range files {
			require.Contains(t, string(page), strings.TrimPrefix(filepath.ToSlash(file), "../"))
		}
	}
}
