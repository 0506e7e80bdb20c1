package mutate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every break can still be applied, and every test it names is still there.
func TestMutationTableIsFresh(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	names := map[string]bool{}
	for _, m := range Table() {
		require.NotEmpty(t, m.Edits, m.Name)
		require.NotEmpty(t, m.Breaks, m.Name)
		require.NotEmpty(t, m.Invariant, m.Name)
		require.False(t, names[m.Name], "%s: a name is given twice", m.Name)
		names[m.Name] = true
		for _, e := range m.Edits {
			require.NotEqual(t, e.Old, e.New, m.Name)
		}
		_, err := m.Apply(root)
		assert.NoError(t, err)
		function, _, _ := strings.Cut(m.Test.Name, "/")
		assert.True(t, declares(t, filepath.Join(root, m.Test.Package), function), "%s: there is no %v", m.Name, m.Test)
	}
}

func declares(t *testing.T, dir, function string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+function+"(t *testing.T) {\n") {
			return true
		}
	}
	return false
}
