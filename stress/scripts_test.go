package main

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// ownScripts are the project's; only these are rewritten by -rewrite.
const ownScripts = "testdata/scripts"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// TestScripts runs every script it can find through every engine. With -rewrite
// the project's own get the outputs of the first engine.
func TestScripts(t *testing.T) {
	all := engines.All()
	if len(all) == 0 {
		t.Skip("no engine is built in")
	}
	if rewriting(t) {
		all = all[:1]
	}
	for _, dir := range scriptDirs(t) {
		for _, path := range findScripts(t, dir) {
			t.Run(path, func(t *testing.T) {
				if rewriting(t) && dir != ownScripts {
					t.Skip("not the project's to rewrite")
				}
				for _, e := range all {
					t.Run(e.Name, func(t *testing.T) {
						t.Parallel()
						runFile(t, path, e.New)
					})
				}
			})
		}
	}
}

// runFile stops at the first command whose output is not as expected and tells
// its file and line, the output expected and the output got.
func runFile(t *testing.T, path string, factory script.Factory) {
	r := script.New(factory)
	defer func() { require.NoError(t, r.Close()) }()
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		output, err := r.Run(d)
		require.NoError(t, err)
		return output
	})
}

func rewriting(t *testing.T) bool {
	f := flag.Lookup("rewrite") // datadriven's
	require.NotNil(t, f)
	return f.Value.String() == "true"
}

// scriptDirs returns the project's own scripts, those shared between projects,
// and those that SCHED_SCRIPTS names.
func scriptDirs(t *testing.T) []string {
	dirs := []string{ownScripts}
	for _, name := range []string{"cases", "cases-beyond"} {
		if shared := filepath.Join("..", "..", "shared", name); isDir(shared) {
			dirs = append(dirs, shared)
		} else {
			t.Run(name, func(t *testing.T) { t.Skipf("there is no ../shared/%s beside the project", name) })
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("SCHED_SCRIPTS")) {
		if dir == "" {
			continue
		}
		if fromRoot := filepath.Join("..", dir); !filepath.IsAbs(dir) && !isDir(dir) && isDir(fromRoot) {
			dir = fromRoot
		}
		require.Truef(t, isDir(dir), "SCHED_SCRIPTS: %s is no directory", dir)
		dirs = append(dirs, dir)
	}
	return dirs
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func findScripts(t *testing.T, dir string) []string {
	dir, err := filepath.EvalSymlinks(dir) // WalkDir follows none
	require.NoError(t, err)
	var paths []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".txt") {
			paths = append(paths, path)
		}
		return err
	})
	require.NoError(t, err)
	require.NotEmptyf(t, paths, "%s holds no scripts", dir)
	return paths
}

// TestOwnScriptsParse holds also while no engine is built in.
func TestOwnScriptsParse(t *testing.T) {
	for _, path := range findScripts(t, ownScripts) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := script.Parse(path, strings.NewReader(string(text)))
		require.NoError(t, err)
		require.NotEmpty(t, f.Steps, path)
		var got strings.Builder
		for i := range f.Steps {
			if i > 0 {
				got.WriteString("\n")
			}
			require.NoError(t, f.Steps[i].Write(&got, f.Steps[i].Data.Expected))
		}
		require.Equal(t, string(text), got.String(), path)
	}
}
