package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-3c5df8a4/turnstile/stress/differ"
	"github.com/seed-3c5df8a4/turnstile/stress/engines"
)

// shrinkTime is what rapid has to shrink a script; reducing does the rest.
const shrinkTime = "5s"

// search looks for a script on which engines differ from the model.
type search struct {
	under  []engines.Engine
	tally  differ.Tally
	failed []differ.Step // the last script that failed
}

func newSearch() *search {
	s := &search{}
	for _, e := range engines.All() {
		if e.Name != engines.Model {
			s.under = append(s.under, e)
		}
	}
	return s
}

// quiet leaves out what rapid logs of each choice.
type quiet struct{ rapid.TB }

func (q quiet) Logf(format string, a ...any) {
	if !strings.HasPrefix(format, "[rapid] draw") && !strings.HasPrefix(format, "[rapid] OK") {
		q.TB.Logf(format, a...)
	}
}

// run tries as many scripts as -rapid.checks says, and fails t on a difference.
func (s *search) run(t rapid.TB) {
	rapid.Check(quiet{t}, func(rt *rapid.T) {
		steps, met, err := differ.Write(rt)
		if err != nil {
			rt.Fatalf("the model cannot run the script: %v", err)
		}
		if s.failed == nil { // rapid shrinks from then on
			s.tally.Add(met)
		}
		if d := differ.Compare(steps, s.under); d != nil {
			s.failed = steps
			rt.Fatalf("%v", d)
		}
	})
}

// failures is where failing scripts are left, beside the sources.
func failures() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata", "failures")
}

// report reduces the script that failed, if one did, prints it and leaves it in
// the directory of failures.
func (s *search) report(t rapid.TB) {
	if s.failed == nil {
		return
	}
	steps, d := differ.Reduce(s.failed, s.under)
	if d == nil {
		t.Logf("the difference does not show again; the script was\n%s", differ.Text(steps))
		return
	}
	text := fmt.Sprintf("# %s gives another output for the last command.\n%s", d.Engine, differ.Text(steps))
	t.Logf("%s\n%v", text, d)
	path, err := save(text)
	if err != nil {
		t.Logf("the script cannot be saved: %v", err)
		return
	}
	t.Logf("saved as %s; run it with: go run ./stress script -engine %s %s", path, d.Engine, path)
}

func save(text string) (string, error) {
	dir := failures()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "differs-*.txt")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(text)
	return f.Name(), errors.Join(err, f.Close())
}

const diffUsage = `Usage: stress diff [-n SCRIPTS] [-seed SEED]

Runs random scripts on every engine and on the sequential model. Where an engine
decides differently the script is reduced, printed and left in
stress/testdata/failures. In the end, or at an interrupt, it tells what the
scripts met.

Exit status: 0, or 1 when an engine differs, or 2 when the command line is wrong,
or 130 when it was interrupted.

Flags:
`

func runDiff(s streams, arguments []string) int {
	flags := newFlags("diff", diffUsage)
	n := flags.Int("n", 20_000, "how many `SCRIPTS` to try")
	seed := flags.Uint64("seed", 0, "the `SEED` of the first script, the next has the next; 0 takes one at random")
	code, ok := parseOnly(s, flags, arguments)
	switch {
	case !ok:
		return code
	case *n < 1:
		return wrong(s, flags, "-n %d: must be at least 1", *n)
	}
	// rapid is told by flags and asks testing for them.
	testing.Init()
	if !flag.Parsed() {
		_ = flag.CommandLine.Parse(nil)
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	ctx, stop := untilInterrupted()
	defer stop()
	p, t, search := newProgress(s.err), &printer{streams: s}, newSearch()
	for i := 0; i < *n && !t.failed && ctx.Err() == nil; i++ {
		if err := tellRapid(map[string]string{
			"checks": "1", "seed": strconv.FormatUint(*seed+uint64(i), 10), "nofailfile": "true", "shrinktime": shrinkTime,
		}); err != nil {
			fmt.Fprintf(s.err, "stress diff: %v\n", err)
			return exitUsage
		}
		t.try(func() { search.run(t) })
		if t.failed {
			p.end()
			search.report(t)
			fmt.Fprintf(s.err, "see it again with: go run ./stress diff -n 1 -seed %d\n", *seed+uint64(i))
		}
		p.line(func() string { return fmt.Sprintf("%d of %d scripts, all alike", i+1, *n) })
	}
	p.end()
	fmt.Fprintf(s.out, "-seed %d: %s", *seed, search.tally.String())
	switch {
	case t.failed:
		return exitFailed
	case ctx.Err() != nil:
		fmt.Fprintln(s.err, "stress diff: interrupted")
		return exitInterrupted
	}
	return exitOK
}

// tellRapid sets flags of rapid.
func tellRapid(values map[string]string) error {
	for name, value := range values {
		if err := flag.Set("rapid."+name, value); err != nil {
			return err
		}
	}
	return nil
}

// rapidHint is how rapid says what to do to see a failure again, in a test.
var rapidHint = regexp.MustCompile(`To (try to )?reproduce, specify -run=.*\n`)

// printer stands in for a test outside of one.
type printer struct {
	streams
	failed bool
}

var _ rapid.TB = (*printer)(nil)

// stop unwinds a search that has failed.
type stop struct{}

func (p *printer) try(f func()) {
	defer func() {
		if r := recover(); r != nil && r != (stop{}) {
			panic(r)
		}
	}()
	f()
}

func (p *printer) Helper()                       {}
func (p *printer) Name() string                  { return "diff" }
func (p *printer) Logf(format string, a ...any)  { fmt.Fprintf(p.err, format+"\n", a...) }
func (p *printer) Log(a ...any)                  { fmt.Fprintln(p.err, a...) }
func (p *printer) Skipf(format string, a ...any) { p.Logf(format, a...); p.SkipNow() }
func (p *printer) Skip(a ...any)                 { p.Log(a...); p.SkipNow() }
func (p *printer) SkipNow()                      { panic(stop{}) }
func (p *printer) Errorf(format string, a ...any) {
	p.Logf("%s", rapidHint.ReplaceAllString(fmt.Sprintf(format, a...), ""))
	p.Fail()
}
func (p *printer) Error(a ...any)                 { p.Log(a...); p.Fail() }
func (p *printer) Fatalf(format string, a ...any) { p.Logf(format, a...); p.FailNow() }
func (p *printer) Fatal(a ...any)                 { p.Log(a...); p.FailNow() }
func (p *printer) FailNow()                       { p.Fail(); panic(stop{}) }
func (p *printer) Fail()                          { p.failed = true }
func (p *printer) Failed() bool                   { return p.failed }
