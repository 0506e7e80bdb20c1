package doccheck_test

import (
	"os"
	"path/filepath"
	"regexp"
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

// TestEveryModuleHasItsTags: what is said of releases is said of each module.
func TestEveryModuleHasItsTags(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## How to release\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	work, err := os.ReadFile("../../go.work")
	require.NoError(t, err)
	modules := regexp.MustCompile(`(?m)^\t\./(\S+)$`).FindAllStringSubmatch(string(work), -1)
	require.NotEmpty(t, modules)
	for _, m := range modules {
		require.Regexp(t, "(?m)^\\|.*`"+regexp.QuoteMeta(m[1])+"`.*\\|", section)
	}
}
