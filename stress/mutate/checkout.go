package mutate

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Root returns the root of the checkout that the working directory is in.
func Root() (string, error) {
	out, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("not in a checkout: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// copyTo copies what is needed to build and test from a checkout: files that are
// tracked, and those that are not but are not ignored either.
func copyTo(dir, root string) error {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range bytes.SplitSeq(out, []byte{0}) {
		if !needed(string(name)) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, string(name)))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		if err := write(dir, string(name), text); err != nil {
			return err
		}
	}
	return nil
}

func needed(name string) bool {
	switch filepath.Base(name) {
	case "go.mod", "go.sum", "go.work", "go.work.sum":
		return true
	}
	return strings.HasSuffix(name, ".go") || slices.Contains(strings.Split(name, "/"), "testdata")
}

func write(dir, name string, text []byte) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
