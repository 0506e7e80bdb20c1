package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// prepare changes the checkout to what is to be committed and tagged.
func prepare(r *repository, version string, out io.Writer) error {
	proxy, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer removeAll(proxy)
	if err := r.publish(version, proxy); err != nil {
		return err
	}
	fmt.Fprintf(out, "prepared. Review and commit it, then:\n\n")
	for _, m := range r.released() {
		fmt.Fprintf(out, "  git tag %s\n", m.tag(version))
	}
	fmt.Fprintf(out, "  go run ./internal/release check %s\n  git push --tags\n", version)
	return nil
}

// publish has the modules require each other at a version and, in the order in
// which they need each other, puts them into a directory that serves as a module
// proxy.
func (r *repository) publish(version, proxy string) error {
	sums := map[string][]string{} // by path of a module, the lines of go.sum about it
	for _, m := range r.released() {
		if err := r.settle(m, version, sums); err != nil {
			return fmt.Errorf("%s: %w", m.path(), err)
		}
		lines, err := r.pack(m, version, proxy)
		if err != nil {
			return fmt.Errorf("%s: %w", m.path(), err)
		}
		sums[m.path()] = lines
	}
	return nil
}

// settle writes a module's go.mod and go.sum.
func (r *repository) settle(m *mod, version string, sums map[string][]string) error {
	siblings := r.siblings(m)
	for _, s := range siblings {
		if err := m.file.AddRequire(s.path(), version); err != nil {
			return err
		}
	}
	for _, to := range slices.Clone(m.file.Replace) {
		if err := m.file.DropReplace(to.Old.Path, to.Old.Version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, m.dir)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644); err != nil {
		return err
	}
	// So that it reads alike whether or not there was something to drop.
	if m.file, err = modfile.Parse("go.mod", text, nil); err != nil {
		return err
	}
	if len(siblings) == 0 {
		return nil
	}
	name := filepath.Join(dir, "go.sum")
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(old)), "\n")
	for _, s := range siblings {
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, s.path()+" ") })
		lines = append(lines, sums[s.path()]...)
	}
	slices.Sort(lines)
	return os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// pack adds a module to the proxy and returns the lines of go.sum about it.
func (r *repository) pack(m *mod, version, proxy string) (lines []string, err error) {
	escaped, err := module.EscapePath(m.path())
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	gomod := filepath.Join(r.dir, m.dir, "go.mod")
	text, err := os.ReadFile(gomod)
	if err != nil {
		return nil, err
	}
	zipped := filepath.Join(dir, version+".zip")
	f, err := os.Create(zipped)
	if err != nil {
		return nil, err
	}
	err = zip.CreateFromDir(f, module.Version{Path: m.path(), Version: version}, filepath.Join(r.dir, m.dir))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(text),
		version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	whole, err := dirhash.HashZip(zipped, dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	file, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(gomod) })
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("%s %s %s", m.path(), version, whole),
		fmt.Sprintf("%s %s/go.mod %s", m.path(), version, file),
	}, nil
}
