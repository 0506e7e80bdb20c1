package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/linear"
)

const linearUsage = `Usage: stress linear [-n HISTORIES] [-seed SEED] [-engine NAME]

Takes concurrent histories of an engine and has porcupine decide whether some
sequential order explains each of them. If none does, the history is printed and
drawn, as a page for a browser. An interrupt ends it with the tally so far.

A seed decides what the clients of a history do, but not how they meet: to see a
failure again, run that seed many times, and build with -tags perturb.

Exit status: 0, or 1 when a history cannot be explained, or 2 when the command
line is wrong, or 130 when it was interrupted.

Flags:
`

func runLinear(s streams, arguments []string) int {
	flags := newFlags("linear", linearUsage)
	n := flags.Int("n", 10_000, "how many `HISTORIES` to take")
	seed := flags.Uint64("seed", 0, "the `SEED` of the first history, the next has the next; 0 takes one at random")
	name := flags.String("engine", engines.Sharded, "the `NAME` of the engine: "+strings.Join(targetNames(), ", "))
	code, ok := parseOnly(s, flags, arguments)
	switch {
	case !ok:
		return code
	case *n < 1:
		return wrong(s, flags, "-n %d: must be at least 1", *n)
	}
	var target linear.Target
	for _, t := range linear.Targets() {
		if t.Name == *name {
			target = t
		}
	}
	if target.New == nil {
		return wrong(s, flags, "-engine %q: must be one of %s", *name, strings.Join(targetNames(), ", "))
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	ctx, stop := untilInterrupted()
	defer stop()
	p := newProgress(s.err)
	tally, err := linear.Run(ctx, target, *seed, *n, func(t *linear.Tally) {
		p.line(func() string {
			return fmt.Sprintf("%d of %d histories  %d steps  %d undecided", t.Histories, *n, t.Steps, t.Undecided)
		})
	})
	p.end()
	fmt.Fprintf(s.out, "-seed %d: %v\n", *seed, tally)
	switch {
	case err != nil:
		fmt.Fprintf(s.err, "stress linear: %v\n", err)
		return exitFailed
	case ctx.Err() != nil:
		fmt.Fprintln(s.err, "stress linear: interrupted")
		return exitInterrupted
	}
	return exitOK
}

func targetNames() (names []string) {
	for _, t := range linear.Targets() {
		names = append(names, t.Name)
	}
	return names
}
