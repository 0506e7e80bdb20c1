package doccheck_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/seed-3c5df8a4/turnstile"

// dependencies are all that an embedder gets besides.
var dependencies = []string{"github.com/puzpuzpuz/xsync/v3", "go.uber.org/atomic", "go.yaml.in/yaml/v3"}

// floorOf returns the floor of a package of the root module, by its directory.
func floorOf(dir string) int {
	switch {
	case dir == "internal/parts", dir == "internal/testkit":
		return 2
	case dir == "lifecycle", dir == "capacity", dir == "sched/clock", strings.HasPrefix(dir, "internal/"):
		return 0
	case dir == "sched/internal/journal", dir == "sched/internal/ids", dir == "sched/internal/text", dir == "sched/internal/overlaps":
		return 0
	case dir == "shards":
		return 1
	case dir == "sched/status":
		return 3
	default:
		return 2
	}
}

// TestImportsKeepTheirPromises: packages import only from their own floor and
// those below, and nothing foreign but the dependencies that are promised.
func TestImportsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	files := 0
	for _, top := range []string{"sched", "shards", "capacity", "lifecycle", "internal"} {
		err := fs.WalkDir(root, top, func(file string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				if _, err := fs.Stat(root, path.Join(file, "go.mod")); err == nil {
					return fs.SkipDir // a module of its own
				}
			}
			if err != nil || entry.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
				return err
			}
			dir := path.Dir(file)
			files++
			text, err := fs.ReadFile(root, file)
			require.NoError(t, err)
			parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if own, ok := strings.CutPrefix(imported, module+"/"); ok {
					require.LessOrEqual(t, floorOf(own), floorOf(dir), "%s imports %s, which stands above it", file, own)
				} else if strings.Contains(strings.Split(imported, "/")[0], ".") {
					require.Contains(t, dependencies, imported, file)
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.Greater(t, files, 50, "where are the files?")
}
