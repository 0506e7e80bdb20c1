// Command bench replays a workload through each engine in each mode and prints
// what they do side by side. Without flags it needs nothing beside the checkout
// and ends within a minute; -trace replays a recorded workload instead.
//
// With -scenario, -quick, -json or -html it compares the engines in small closed
// loops instead, and holds what they reach against what is required. With
// -simulate it compares selectors and class settings in virtual time.
//
// It exits with 0 if every request was scheduled and nothing was left behind, 1
// if not or if the trace is bad, 2 if a flag is, and 130 if interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/seed-3c5df8a4/turnstile/bench/micro"
)

const (
	exitFault       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if micro.ServeHTTP() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	os.Exit(run(ctx, os.Args[1:], engines, os.Stdout, os.Stderr, terminal))
}

// run is main without the process. terminal says whether stderr can show
// progress.
func run(ctx context.Context, args []string, engines []namedEngine, stdout, stderr io.Writer, terminal bool) int {
	o, err := parseFlags(args, engines, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && o.micro.on {
		return runMicro(ctx, &o.micro, stdout, stderr, terminal)
	}
	if err == nil && len(o.engines) == 0 {
		err = errors.New("there is no engine to run")
	}
	var p *plan
	if err == nil {
		p, err = newPlan(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		var usage usageError
		switch {
		case errors.As(err, &usage):
			fmt.Fprintln(stderr, "go run ./bench -h tells the flags.")
			return exitUsage
		case ctx.Err() != nil:
			return exitInterrupted
		}
		return exitFault
	}
	if o.simulate.on {
		return runSimulation(ctx, o, p, stdout, stderr, terminal)
	}
	p.describe(stdout)
	var show *progress
	if terminal {
		show = &progress{w: stderr, began: time.Now(), requests: p.summary.Requests, runs: o.runs()}
	}
	c := compare(ctx, p, show)
	if err := c.write(stdout); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFault
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted; the table shows what was done until then")
		return exitInterrupted
	case len(c.faults) > 0:
		fmt.Fprintf(stderr, "bench: %d faults, see the lines marked FAULT\n", len(c.faults))
		return exitFault
	}
	return 0
}
