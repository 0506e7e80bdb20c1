// Command bench compares turnstile with an actor: three closed loops say what each
// can do, and the replay of a workload whether they serve alike. Without flags it
// needs nothing beside the checkout and ends within a minute; -trace replays a
// recorded workload instead.
//
// With -scenario or -quick it compares the engines in many closed loops instead,
// and holds what they reach against what is required. With -simulate it compares
// selectors and class settings in virtual time, with -replicas it measures schedulers that
// count each other's load. -json and -html write down what was
// run, whatever that was.
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
	"github.com/seed-3c5df8a4/turnstile/bench/report"
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
	if err == nil && o.replicas > 0 {
		return runReplicas(ctx, o, stdout, stderr, terminal)
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
	return runReplay(ctx, o, p, stdout, stderr, terminal)
}

// runReplay is the verdict and the replay.
func runReplay(ctx context.Context, o *options, p *plan, stdout, stderr io.Writer, terminal bool) int {
	failed := func(err error) int {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitFault
	}
	files, err := o.micro.create()
	defer func() { _ = files.close() }() // what was written is closed before
	if err != nil {
		return failed(err)
	}
	c := report.Comparison{Machine: machine(), Began: time.Now(), Rounds: verdictRounds, About: []string{whatTheyAre}}
	v := &verdict{}
	if o.verdict {
		v = newVerdict(namesOf(o.engines))
	}
	bar := newBar(stderr, terminal, time.Duration((v.seconds()+p.length()/p.replay.Speed*float64(o.runs()))*float64(time.Second)))
	err = errors.Join(files.partly(&c), v.run(ctx, bar.step, func(row *report.Row) error {
		c.Rows, c.Headlines = v.rows, v.headlines
		return errors.Join(files.add(row), files.partly(&c))
	}))
	bar.clear()
	if err = errors.Join(err, v.write(stdout)); err != nil {
		return failed(err)
	}
	fmt.Fprintf(stdout, "%s\n\n", wrap(whatReplayIs))
	p.describe(stdout)
	var show *progress
	if terminal {
		show = &progress{w: stderr, began: time.Now(), requests: p.summary.Requests, runs: o.runs()}
	}
	r := compare(ctx, p, show)
	c.Replay, c.Replayed = r.table, []string{whatReplayIs, "Workload: " + p.workload() + ". Ranks: " + p.ranks() + "."}
	c.Took, c.Partial = time.Since(c.Began), ctx.Err() != nil
	if err := errors.Join(r.write(stdout), files.finish(&c)); err != nil {
		return failed(err)
	}
	faults := len(r.faults) + len(v.faults)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "bench: interrupted; the table shows what was done until then")
		return exitInterrupted
	case faults > 0:
		fmt.Fprintf(stderr, "bench: %d faults, see the lines marked FAULT\n", faults)
		return exitFault
	}
	return 0
}
