package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// repository is a checkout and its modules, those that others of them require
// first.
type repository struct {
	dir     string
	modules []*mod
}

// mod is one module.
type mod struct {
	dir  string // below the checkout, "." for the root
	file *modfile.File
}

func (m *mod) path() string { return m.file.Module.Mod.Path }

// tag returns the name under which a version of the module is tagged.
func (m *mod) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// open finds the modules that go.work lists.
func open(dir string) (*repository, error) {
	name := filepath.Join(dir, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return nil, err
	}
	r := &repository{dir: dir}
	for _, use := range work.Use {
		if strings.HasPrefix(filepath.ToSlash(filepath.Clean(use.Path)), "internal/") {
			continue // ours alone
		}
		name := filepath.Join(dir, use.Path, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return nil, err
		}
		r.modules = append(r.modules, &mod{dir: filepath.ToSlash(filepath.Clean(use.Path)), file: file})
	}
	return r, r.sort()
}

// sort puts each module behind those that it requires.
func (r *repository) sort() error {
	var sorted []*mod
	left := slices.Clone(r.modules)
	for len(left) > 0 {
		at := slices.IndexFunc(left, func(m *mod) bool {
			return !slices.ContainsFunc(r.siblings(m), func(s *mod) bool { return !slices.Contains(sorted, s) })
		})
		if at < 0 {
			return fmt.Errorf("%s: requires itself by way of others", left[0].path())
		}
		sorted, left = append(sorted, left[at]), slices.Delete(left, at, at+1)
	}
	r.modules = sorted
	return nil
}

func (r *repository) find(path string) *mod {
	for _, m := range r.modules {
		if m.path() == path {
			return m
		}
	}
	return nil
}

// siblings returns the modules of this repository that a module requires.
func (r *repository) siblings(m *mod) (found []*mod) {
	for _, need := range m.file.Require {
		if s := r.find(need.Mod.Path); s != nil {
			found = append(found, s)
		}
	}
	return found
}

// released returns the modules that a user can want: not those of tests alone.
func (r *repository) released() []*mod {
	return slices.DeleteFunc(slices.Clone(r.modules), func(m *mod) bool { return !r.hasCode(m) })
}

// hasCode reports whether a module has a package beside its tests.
func (r *repository) hasCode(m *mod) (found bool) {
	root := filepath.Join(r.dir, m.dir)
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root:
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && d.Name() != "doc.go":
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// lacks returns what the modules' files would miss for an importer.
func (r *repository) lacks(version string) (faults []error) {
	for _, m := range r.released() {
		name := filepath.Join(m.dir, "go.mod")
		for _, need := range m.file.Require {
			if s := r.find(need.Mod.Path); s != nil && need.Mod.Version != version {
				faults = append(faults, fmt.Errorf("%s: requires %s, must be %s", name, need.Mod, version))
			}
		}
		for _, to := range m.file.Replace {
			faults = append(faults, fmt.Errorf("%s: replaces %s, which an importer does not see", name, to.Old.Path))
		}
	}
	return faults
}

// untagged returns the tags that the commit at hand lacks.
func (r *repository) untagged(version string) (faults []error) {
	tags, err := r.git("tag", "--points-at", "HEAD")
	if err != nil {
		return []error{err}
	}
	changed, err := r.git("status", "--porcelain")
	if err != nil {
		return []error{err}
	}
	if changed != "" {
		faults = append(faults, errors.New("the checkout has changes that are not committed"))
	}
	for _, m := range r.released() {
		if tag := m.tag(version); !slices.Contains(strings.Fields(tags), tag) {
			faults = append(faults, fmt.Errorf("%s: HEAD has no tag %s", m.path(), tag))
		}
	}
	return faults
}

func (r *repository) git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", r.dir}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
