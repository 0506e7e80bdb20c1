package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/storm"
)

const stormUsage = `Usage: stress [storm] [-for DURATION] [-ops N] [FLAG...]

Lets many callers loose on an engine, with workers, policy and clock changing
under them and faulty code plugged in, and checks all the while what the engine
promises. It ends at its bound, or at an interrupt, with a report; a second
interrupt ends it at once. With -ops it also compares the heap in use after a
tenth of the operations with that after all.

Exit status: 0, or 1 when a promise was broken, or 2 when the command line is
malformed, or 130 when it was interrupted and nothing was broken until then.

Flags:
`

func runStorm(s streams, arguments []string) int {
	flags := newFlags("storm", stormUsage)
	c := storm.Config{}
	flags.DurationVar(&c.For, "for", 0, "end after this `duration` (default 60s, unless -ops is given)")
	flags.Int64Var(&c.Ops, "ops", 0, "end after `N` operations, 0 for no bound")
	flags.IntVar(&c.Callers, "callers", 256, "`number` of callers")
	flags.Uint64Var(&c.Seed, "seed", 0, "`seed` of what everybody does; 0 takes one from the time")
	flags.StringVar(&c.Engine, "engine", engines.Sharded, strings.Join(storm.Engines(), ", ")+": the `NAME` of the engine")
	flags.StringVar(&c.Profile, "profile", storm.ProfileMixed,
		strings.Join(storm.Profiles(), ", ")+": `whether` requests ever wait")
	flags.DurationVar(&c.TTL, "ttl", 0, "end bookings that are not touched for this `duration`; 0 never")
	flags.BoolVar(&c.Exact, "exact", false, "let bookings be prefills only, which makes some checks exact; needs -profile on")
	flags.BoolVar(&c.Lanes, "lanes", false, "have nearly every request wait in a lane of its own")
	flags.DurationVar(&c.Tick, "tick", 0, "let the clock show the time in steps of this `duration`")
	flags.BoolVar(&c.Sources, "sources", false, "let the clock and the random source panic; needs -engine sharded")
	flags.BoolVar(&c.Calm, "calm", false, "leave out churn and faulty plugged-in code")
	if code, ok := parseOnly(s, flags, arguments); !ok {
		return code
	}
	if c.For == 0 && c.Ops == 0 {
		c.For = time.Minute
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	ctx, stop := untilInterrupted()
	defer stop()
	p := newProgress(s.err)
	c.Progress = showStorm(p)
	r, err := storm.Run(ctx, c)
	p.end()
	if err != nil {
		fmt.Fprintf(s.err, "stress storm: %v\n", err)
		return exitUsage
	}
	return conclude(s, r)
}

// conclude prints the report and says how to see the same again.
func conclude(s streams, r *storm.Report) int {
	if err := r.Write(s.out); err != nil {
		fmt.Fprintf(s.err, "stress storm: %v\n", err)
		return exitFailed
	}
	if r.Interrupted {
		fmt.Fprintln(s.err, "stress storm: interrupted; the report shows what was done until then")
	}
	switch {
	case !r.OK():
		fmt.Fprintf(s.err, "stress storm: %d violations; to see them again, try\n  go run ./stress %s\n"+
			"What everybody does is the same then, when it happens is not: try also with -race, and with -tags perturb.\n",
			r.Violations, stormFlags(&r.Config))
		return exitFailed
	case r.Interrupted:
		return exitInterrupted
	}
	return exitOK
}

// stormFlags are the flags that describe a storm.
func stormFlags(c *storm.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-engine %s -profile %s -callers %d -seed %d", c.Engine, c.Profile, c.Callers, c.Seed)
	if c.For > 0 {
		fmt.Fprintf(&b, " -for %v", c.For)
	}
	if c.Ops > 0 {
		fmt.Fprintf(&b, " -ops %d", c.Ops)
	}
	if c.TTL > 0 {
		fmt.Fprintf(&b, " -ttl %v", c.TTL)
	}
	if c.Exact {
		b.WriteString(" -exact")
	}
	if c.Lanes {
		b.WriteString(" -lanes")
	}
	if c.Tick > 0 {
		fmt.Fprintf(&b, " -tick %v", c.Tick)
	}
	if c.Sources {
		b.WriteString(" -sources")
	}
	if c.Calm {
		b.WriteString(" -calm")
	}
	return b.String()
}

// showStorm returns what shows how a storm stands.
func showStorm(p *progress) func(storm.Snapshot) {
	return func(s storm.Snapshot) {
		p.line(func() string {
			return fmt.Sprintf("%6.1fs  %d operations  %d admissions  %d waiting  %d violations  %.1f MB heap  %d goroutines",
				s.Elapsed.Seconds(), s.Ops, s.Admitted, s.Waiting, s.Violations, float64(s.Heap)/1e6, s.Goroutines)
		})
	}
}
