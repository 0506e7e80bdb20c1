package mutate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// hangs is how long a test that is expected to hang is given.
const hangs = 15 * time.Second

// Runner runs mutations.
type Runner struct {
	Root    string        // of the checkout
	Jobs    int           // how many at once, each in a copy of its own
	Timeout time.Duration // of one test; a build has ten times as long
	Out     io.Writer

	mu sync.Mutex // on Out
}

// Result is what became of a mutation.
type Result struct {
	*Mutation
	Caught bool
	Took   time.Duration // build and test
	Err    error         // nothing is known then
}

// Verdict returns the result in a word or two.
func (r *Result) Verdict() string {
	switch {
	case r.Err != nil:
		return "ERROR"
	case r.Caught:
		return fmt.Sprintf("caught in %.1f s", r.Took.Seconds())
	default:
		return "SURVIVED"
	}
}

// Run runs the table. The results are in its order; the error says what kept it
// from being run at all.
func (r *Runner) Run(ctx context.Context, table []Mutation) ([]Result, error) {
	for i := range table {
		if _, err := table[i].Apply(r.Root); err != nil {
			return nil, err
		}
	}
	dirs := make([]string, min(max(r.Jobs, 1), len(table)))
	for i := range dirs {
		dir, err := os.MkdirTemp("", "mutate-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if err := copyTo(dir, r.Root); err != nil {
			return nil, err
		}
		dirs[i] = dir
	}
	if err := r.sound(ctx, dirs, table); err != nil {
		return nil, err
	}
	results := make([]Result, len(table))
	spread(dirs, len(table), func(dir string, i int) {
		results[i] = r.one(ctx, dir, &table[i])
		r.tell(&results[i])
	})
	return results, ctx.Err()
}

// spread does the tasks, one at a time in each directory.
func spread(dirs []string, tasks int, do func(dir string, i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for _, dir := range dirs {
		wg.Go(func() {
			for i := range next {
				do(dir, i)
			}
		})
	}
	for i := range tasks {
		next <- i
	}
	close(next)
	wg.Wait()
}

// sound runs every test without a mutation: each must pass.
func (r *Runner) sound(ctx context.Context, dirs []string, table []Mutation) error {
	// Tests that are built alike share a binary.
	type build struct {
		pkg, tags string
		race      bool
	}
	tests := make(map[build][]Test)
	var builds []build
	seen := make(map[Test]bool)
	for i := range table {
		t := table[i].Test
		if seen[t] {
			continue
		}
		seen[t] = true
		b := build{t.Package, t.Tags, t.Race}
		if tests[b] == nil {
			builds = append(builds, b)
		}
		tests[b] = append(tests[b], t)
	}
	fmt.Fprintf(r.Out, "%d tests must pass without a mutation\n", len(seen))
	errs := make([]error, len(builds))
	spread(dirs, len(builds), func(dir string, i int) {
		all := tests[builds[i]]
		binary, err := r.build(ctx, dir, all[0])
		if err != nil {
			errs[i] = err
			return
		}
		for _, t := range all {
			failed, _, output, err := r.test(ctx, dir, binary, t, r.Timeout)
			switch {
			case err != nil:
				errs[i] = errors.Join(errs[i], fmt.Errorf("%v: %w", t, err))
			case failed || !strings.Contains(output, "--- PASS: "+t.Name+" "):
				errs[i] = errors.Join(errs[i], fmt.Errorf("%v: does not pass without a mutation:\n%s", t, tail(output)))
			}
		}
	})
	return errors.Join(errs...)
}

// one applies a mutation, runs its test and restores the copy.
func (r *Runner) one(ctx context.Context, dir string, m *Mutation) (result Result) {
	result.Mutation = m
	changed, err := m.Apply(dir)
	if err != nil {
		result.Err = err
		return result
	}
	for file, text := range changed {
		original, err := os.ReadFile(filepath.Join(dir, file))
		if err == nil {
			err = write(dir, file, []byte(text))
		}
		if err != nil {
			result.Err = err
			return result
		}
		defer func() {
			if err := write(dir, file, original); err != nil {
				result.Err = errors.Join(result.Err, err)
			}
		}()
	}
	begun := time.Now()
	binary, err := r.build(ctx, dir, m.Test)
	if err != nil {
		result.Err = err
		return result
	}
	timeout := r.Timeout
	if m.Hangs {
		timeout = min(timeout, hangs)
	}
	failed, hung, output, err := r.test(ctx, dir, binary, m.Test, timeout)
	result.Took, result.Caught = time.Since(begun), failed
	switch {
	case err != nil:
		result.Err = err
	case hung && !m.Hangs:
		result.Err = fmt.Errorf("the test hung, which was not expected:\n%s", tail(output))
	}
	return result
}

// build builds the binary of a test's package.
func (r *Runner) build(ctx context.Context, dir string, t Test) (binary string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*r.Timeout)
	defer cancel()
	binary = filepath.Join(dir, "mutate.test")
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if t.Race {
		args = append(args, "-race")
	}
	if t.Tags != "" {
		args = append(args, "-tags", t.Tags)
	}
	c := exec.CommandContext(ctx, "go", append(args, "./"+t.Package)...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not build: %w\n%s", t.Package, err, tail(string(out)))
	}
	return binary, nil
}

// test runs a test that was built.
func (r *Runner) test(ctx context.Context, dir, binary string, t Test, timeout time.Duration) (failed, hung bool, output string, err error) {
	deadline, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(deadline, binary, "-test.v", "-test.run="+t.Pattern(),
		fmt.Sprintf("-test.count=%d", max(t.Count, 1)), "-test.timeout=0")
	c.Dir = filepath.Join(dir, t.Package)
	c.WaitDelay = time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err = c.Run()
	output = out.String()
	var exit *exec.ExitError
	switch {
	case err == nil:
		if !strings.Contains(output, "=== RUN   "+t.Name+"\n") {
			return false, false, output, fmt.Errorf("%v: no such test", t)
		}
		return false, false, output, nil
	case ctx.Err() != nil:
		return false, false, output, ctx.Err()
	case deadline.Err() != nil:
		return true, true, output, nil
	case errors.As(err, &exit):
		return true, false, output, nil
	default:
		return false, false, output, err
	}
}

// tell prints one row as it is known.
func (r *Runner) tell(result *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.Out, "%-18s %-58s %-26s %-28s %s\n", result.Verdict(), result.Name,
		strings.Join(result.Files(), " "), result.Invariant, result.Test.Short())
	if result.Err != nil {
		fmt.Fprintf(r.Out, "    %v\n", result.Err)
	}
}

// tail keeps the end of an output, where the reason is.
func tail(output string) string {
	const most = 2000
	if len(output) > most {
		return "…" + output[len(output)-most:]
	}
	return output
}
