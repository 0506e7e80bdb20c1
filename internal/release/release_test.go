package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes a repository of three modules: one requires another, one has but tests.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.work":            "go 1.25\n\nuse (\n\t./tool\n\t.\n\t./tests\n)\n",
		"go.mod":             "module example.com/root\n\ngo 1.25\n",
		"root.go":            "package root\n",
		"LICENSE":            "free\n",
		"CHANGELOG.md":       "# Changelog\n\n## Unreleased\n",
		"tool/go.mod":        "module example.com/root/tool\n\ngo 1.25\n\nrequire example.com/root v0.0.0\n\nreplace example.com/root => ../\n",
		"tool/go.sum":        "example.com/else v1.0.0 h1:x=\n",
		"tool/main.go":       "package main\n\nfunc main() {}\n",
		"tests/go.mod":       "module example.com/root/tests\n\ngo 1.25\n\nrequire example.com/root v0.0.0\n\nreplace example.com/root => ../\n",
		"tests/doc.go":       "// Package tests has no code.\npackage tests\n",
		"tests/some_test.go": "package tests\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"}} {
		git(t, dir, args...)
	}
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
	require.NoError(t, err, string(out))
}

func release(args ...string) (out, errs string, code int) {
	var stdout, stderr bytes.Buffer
	code = run(args, &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// TestRelease: what check misses, prepare, a commit and tags bring.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	_, errs, code := release("check", "v1.2.3", dir)
	require.Equal(t, 1, code)
	for _, want := range []string{
		"tool/go.mod: requires example.com/root@v0.0.0, must be v1.2.3\n",
		"tool/go.mod: replaces example.com/root, which an importer does not see\n",
		"example.com/root: HEAD has no tag v1.2.3\n",
		"example.com/root/tool: HEAD has no tag tool/v1.2.3\n",
		"CHANGELOG.md: no section for v1.2.3\n",
	} {
		require.Contains(t, errs, want)
	}
	require.NotContains(t, errs, "tests")

	out, errs, code := release("prepare", "v1.2.3", dir)
	require.Zero(t, code, errs)
	require.Contains(t, out, "  git tag v1.2.3\n  git tag tool/v1.2.3\n")
	sums, err := os.ReadFile(filepath.Join(dir, "tool", "go.sum"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)^example.com/else v1.0.0 h1:x=\nexample.com/root v1.2.3 h1:\S+=\nexample.com/root v1.2.3/go.mod h1:\S+=\n$`, string(sums))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte("# Changelog\n\n## 1.2.3\n"), 0o644))
	_, errs, _ = release("check", "v1.2.3", dir)
	require.Contains(t, errs, "the checkout has changes that are not committed\n")

	git(t, dir, "add", ".")
	git(t, dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "v1.2.3")
	git(t, dir, "tag", "v1.2.3")
	git(t, dir, "tag", "tool/v1.2.3")
	out, errs, code = release("check", "v1.2.3", dir)
	require.Zero(t, code, errs)
	require.Equal(t, "2 modules can be released as v1.2.3\n", out)
}

func TestCircle(t *testing.T) {
	t.Parallel()
	dir := tree(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/root\n\ngo 1.25\n\nrequire example.com/root/tool v0.0.0\n"), 0o644))
	_, errs, code := release("check", "v1.2.3", dir)
	require.Equal(t, 1, code)
	require.Contains(t, errs, "requires itself by way of others")
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"Usage": {"check"}, `version "1.2": must be like v1.2.3`: {"check", "1.2"}, `command "publish": must be`: {"publish", "v1.2.3"},
	} {
		_, errs, code := release(args...)
		require.Equal(t, 2, code)
		require.Contains(t, errs, want)
	}
	_, errs, code := release("check", "v1.2.3", t.TempDir())
	require.Equal(t, 1, code)
	require.Contains(t, errs, "go.work")
}
