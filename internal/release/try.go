package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// try prepares a copy of the checkout, and then uses each module as a user does that has
// nothing but its name.
func try(r *repository, version string, out io.Writer) error {
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer removeAll(tmp)
	copied, err := r.copyTo(filepath.Join(tmp, "copy"))
	if err != nil {
		return err
	}
	proxy := filepath.Join(tmp, "proxy")
	if err := copied.publish(version, proxy); err != nil {
		return err
	}
	t := &trial{version: version, cache: filepath.Join(tmp, "cache"), out: out}
	if t.proxies, err = proxies(proxy); err != nil {
		return err
	}
	faults := copied.lacks(version)
	for i, m := range r.released() {
		t.dir = filepath.Join(tmp, fmt.Sprint("importer", i))
		if err := t.fetch(r, m); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", m.path(), err))
		}
	}
	return errors.Join(faults...)
}

// removeAll also removes a module cache, whose directories cannot be written.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(name, 0o755)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// copyTo copies the files that git knows or would know.
func (r *repository) copyTo(dir string) (*repository, error) {
	files, err := r.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Split(strings.TrimRight(files, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed
		}
		if err != nil {
			return nil, err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return nil, err
		}
	}
	return open(dir)
}

// proxies returns the list of proxies: ours, what was fetched before, and those that
// are set.
func proxies(ours string) (string, error) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return "", err
	}
	set := strings.Fields(string(out))
	if len(set) != 2 {
		return "", fmt.Errorf("go env: %q", out)
	}
	return "file://" + ours + ",file://" + set[0] + "/cache/download," + set[1], nil
}

// trial is a user with an empty directory and an empty cache.
type trial struct {
	version, proxies, cache, dir string
	out                          io.Writer
}

// fetch gets a module by its name, builds all that it has and looks at what came
// with it.
func (t *trial) fetch(r *repository, m *mod) error {
	packages, err := r.packages(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	var program bytes.Buffer
	program.WriteString("package main\n\n")
	for _, p := range packages.libraries {
		fmt.Fprintf(&program, "import _ %q\n", p)
	}
	program.WriteString("\nfunc main() {}\n")
	if m.dir == "." {
		program.Reset()
		program.WriteString(first)
	}
	if err := os.WriteFile(filepath.Join(t.dir, "main.go"), program.Bytes(), 0o644); err != nil {
		return err
	}
	if len(packages.libraries) > 0 {
		for _, args := range [][]string{
			{"mod", "init", "example.com/importer"}, {"get", m.path() + "@" + t.version}, {"mod", "tidy"},
		} {
			if _, err := t.run(args...); err != nil {
				return err
			}
		}
		said, err := t.run("run", ".")
		if err != nil {
			return err
		}
		if m.dir == "." && said != t.version+"\n" {
			return fmt.Errorf("the program says %q instead of %s", said, t.version)
		}
		if err := t.look(m); err != nil {
			return err
		}
	}
	for _, command := range packages.commands {
		if _, err := t.run("install", command+"@"+t.version); err != nil {
			return err
		}
	}
	fmt.Fprintf(t.out, "%-70s %d packages imported, %d commands installed\n", m.path()+"@"+t.version, len(packages.libraries), len(packages.commands))
	return nil
}

// first is a first program, which says the version that it was built with.
const first = `package main

import (
	"context"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

func main() {
	s, err := sched.New(sched.Config{BlockSize: 16})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	if err := s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1}}); err != nil {
		panic(err)
	}
	b, err := s.Schedule(context.Background(), &sched.Request{ID: "first", ISL: 100})
	if err != nil {
		panic(err)
	}
	if err := b.Release(); err != nil {
		panic(err)
	}
	fmt.Println(s.Stats().Version)
}
`

// run calls the go command in the importer's directory.
func (t *trial) run(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY="+t.proxies, "GOMODCACHE="+t.cache, "GOBIN="+filepath.Join(t.dir, "bin"),
		"GONOSUMDB=*", "GOFLAGS=-mod=mod", "PWD="+t.dir)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// look says if the importer got what only tests of the module need: a requirement, or
// more sums than must be. Of what the tests of an imported package
// import, go mod tidy notes the sums, and fetches it for that: see tests.
func (t *trial) look(m *mod) error {
	text, err := os.ReadFile(filepath.Join(t.dir, "go.mod"))
	if err != nil {
		return err
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		return err
	}
	listed, err := t.run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./...")
	if err != nil {
		return err
	}
	compiled := strings.Fields(listed)
	sums, err := os.ReadFile(filepath.Join(t.dir, "go.sum"))
	if err != nil {
		return err
	}
	var faults []error
	for _, need := range m.file.Require {
		path := need.Mod.Path
		if need.Indirect || slices.Contains(compiled, path) {
			continue
		}
		if slices.ContainsFunc(file.Require, func(r *modfile.Require) bool { return r.Mod.Path == path }) {
			faults = append(faults, fmt.Errorf("an importer requires %s, of which nothing is compiled", path))
		}
		if strings.Contains(string(sums), path+" "+need.Mod.Version+" ") && !tests[path] {
			faults = append(faults, fmt.Errorf("an importer fetches %s, of which nothing is compiled", path))
		}
	}
	return errors.Join(faults...)
}

// tests are the modules that tests of importable packages may import: an importer
// compiles nothing of them, but notes their sums.
var tests = map[string]bool{
	"github.com/stretchr/testify": true,
	"go.uber.org/goleak":          true,
	// What the integrations' tests hold them to: the SDK that exports, and a reader
	// of the alerts' expressions.
	"go.opentelemetry.io/otel/sdk":         true,
	"go.opentelemetry.io/otel/sdk/metric":  true,
	"github.com/VictoriaMetrics/metricsql": true,
}

// packages are those of a module that can be imported, and its commands.
type packages struct{ libraries, commands []string }

func (r *repository) packages(m *mod) (p packages, err error) {
	cmd := exec.Command("go", "list", "-f", "{{.Name}} {{.ImportPath}} {{len .GoFiles}}", "./...")
	cmd.Dir = filepath.Join(r.dir, m.dir)
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir)
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("go list: %w", err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		of := strings.Fields(line)
		switch {
		case len(of) != 3 || of[2] == "0" || strings.Contains(of[1]+"/", "/internal/"):
		case of[0] == "main":
			p.commands = append(p.commands, of[1])
		default:
			p.libraries = append(p.libraries, of[1])
		}
	}
	return p, nil
}
