package mutate

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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

// The README has the one list of guarantees, and its numbers are used everywhere.
func TestNumbersAreThoseOfTheGuarantees(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, list, found := strings.Cut(string(text), "\n## Guarantees\n")
	require.True(t, found)
	list, _, _ = strings.Cut(list, "\n## ")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(\d+)\. \*\*(.+?)\.?\*\*`).FindAllStringSubmatch(list, -1) {
		names = append(names, strings.ToLower(m[2]))
		require.Equal(t, strconv.Itoa(len(names)), m[1])
	}
	require.Equal(t, guarantees[:], names)

	number := regexp.MustCompile(`\d+`)
	for _, m := range Table() {
		for _, n := range number.FindAllString(m.Invariant, -1) {
			i, err := strconv.Atoi(n)
			require.NoError(t, err)
			require.True(t, i >= 1 && i <= len(guarantees), "%s: there is no guarantee %d", m.Name, i)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "README.md"))
	require.NoError(t, err)
	for i, name := range guarantees {
		if i != 3 && i != 8 { // order is compared with the model, the lifecycle has tests by name
			require.Contains(t, string(page), strconv.Itoa(i+1)+" "+name)
		}
	}
}
