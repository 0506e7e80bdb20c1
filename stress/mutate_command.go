package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/stress/mutate"
)

const mutateUsage = `Usage: stress mutate [-run REGEXP] [-jobs N] [-timeout D] [-markdown FILE]

Breaks a copy of the library, one mutation at a time, and runs the test that is
named for it, which must fail.

Exit status: 0, or 1 when a mutation survived, or 2 when the command line is
wrong.

Flags:
`

// runMutate breaks the library on purpose and checks that the tests notice.
func runMutate(s streams, arguments []string) int {
	flags := newFlags("mutate", mutateUsage)
	only := flags.String("run", "", "run only the mutations whose name or test matches this `regexp`")
	jobs := flags.Int("jobs", runtime.NumCPU(), "run so many at once")
	timeout := flags.Duration("timeout", 2*time.Minute, "how long one test may take")
	markdown := flags.String("markdown", "", "write the table to this `file`")
	if code, ok := parseOnly(s, flags, arguments); !ok {
		return code
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return wrong(s, flags, "-run %q: %v", *only, err)
	}
	if err := mutateAll(s, pattern, *jobs, *timeout, *markdown, "go run ./stress mutate "+strings.Join(arguments, " ")); err != nil {
		fmt.Fprintln(s.err, "stress:", err)
		return exitFailed
	}
	return exitOK
}

func mutateAll(s streams, only *regexp.Regexp, jobs int, timeout time.Duration, markdown, command string) error {
	var table []mutate.Mutation
	for _, m := range mutate.Table() {
		if only.MatchString(m.Name) || only.MatchString(m.Test.Name) {
			table = append(table, m)
		}
	}
	root, err := mutate.Root()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	runner := mutate.Runner{Root: root, Jobs: jobs, Timeout: timeout, Out: s.out}
	results, err := runner.Run(ctx, table)
	if err != nil {
		return err
	}
	bad := 0
	for i := range results {
		if results[i].Err != nil || !results[i].Caught {
			bad++
		}
	}
	fmt.Fprintf(s.out, "%d mutations, %d caught\n", len(results), len(results)-bad)
	if markdown != "" {
		file, err := os.Create(markdown)
		if err != nil {
			return err
		}
		if err := errors.Join(mutate.Markdown(file, results, strings.TrimSpace(command), time.Now()), file.Close()); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d mutations were not caught", bad)
	}
	return nil
}
