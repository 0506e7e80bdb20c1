package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/replay"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

const warmUpTime = 700 * time.Millisecond

// busyShare is the share of late ticks from which on the table says so.
const busyShare = 0.1

const legend = `
Schedule: real time within the call. Without queueing that is what a decision takes; with it, what a request waits for its
turn is part of it. First token: simulated, from the time of arrival, with all waiting, in the scheduler and on the rank.
Prefix hits: prompt tokens found in the cache of their rank. Load balance: computed prompt tokens of the busiest rank to
their mean. CPU: of the whole process, so with the replay itself. Leftovers: requests waiting, live bookings, ranks with a
load, and goroutines, once all has ended.

What an engine costs shows in the CPU per completion beyond the harness's, and in Schedule where no request queues (mode off).
Under a backlog (modes on and mixed) the pool is near its limit, where small differences in timing grow into large ones in
waiting: compare several runs (-seed) before believing any. More, and what is required: go run ./bench -quick.
`

// comparison is the runs of all engines in all modes.
type comparison struct {
	plan     *plan
	table    *report.Table
	harness  time.Duration // CPU per completion of the replay itself, 0 unknown
	late     float64       // share of the harness's run in which its ticks were late
	faults   []string
	progress *progress
}

// compare runs everything, or until ctx ends.
func compare(ctx context.Context, p *plan, show *progress) *comparison {
	c := &comparison{
		plan:     p,
		table:    report.NewTable(modesOf(p.options.modes), namesOf(p.options.engines)),
		progress: show,
	}
	c.warmUp(ctx)
	run := 0
	if p.options.harness {
		c.measureHarness(ctx)
		run++
	}
	for m, mode := range p.options.modes {
		s := setup{BlockSize: p.replay.Rank.Block, ActorIndex: p.options.actorIndex}
		if mode.policy != nil {
			s.PolicyYAML = []byte(mode.policy(p.threshold))
		}
		for e, eng := range p.options.engines {
			if ctx.Err() != nil {
				break
			}
			label := eng.name + ", mode " + mode.name
			show.start(run, label)
			run++
			c.table.Cells[m][e] = c.measure(ctx, label, func() (engine.Engine, error) { return eng.build(s) })
		}
	}
	show.clear()
	return c
}

// runs is how many runs there are.
func (o *options) runs() int {
	n := len(o.engines) * len(o.modes)
	if o.harness {
		n++
	}
	return n
}

func (c *comparison) config() replay.Config {
	cfg := c.plan.replay
	if c.progress != nil {
		cfg.Progress = c.progress.update
	}
	return cfg
}

// warmUp replays a part, so that the first run measured does not pay for pages,
// stacks and caches that the others find.
func (c *comparison) warmUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmUpTime)
	defer cancel()
	if _, err := replay.Run(ctx, func() (engine.Engine, error) { return replay.NewFloor(), nil }, c.plan.replay); err != nil {
		c.fault("warm-up", "%v", err)
	}
}

func (c *comparison) measureHarness(ctx context.Context) {
	c.progress.start(0, "the replay itself")
	cell := c.measure(ctx, "the replay itself", func() (engine.Engine, error) { return replay.NewFloor(), nil })
	if cell.Completed > 0 {
		c.harness = cell.CPU / time.Duration(cell.Completed)
		c.late = float64(cell.Late) / float64(cell.Wall)
	}
}

// measure makes one run, and notes what must not have happened in it.
func (c *comparison) measure(ctx context.Context, label string, build func() (engine.Engine, error)) report.Cell {
	r, err := replay.Run(ctx, build, c.config())
	if err != nil {
		c.fault(label, "%v", err)
		return report.Cell{}
	}
	if r.Unscheduled > 0 || r.Err != nil {
		c.fault(label, "%d requests unscheduled, the first error: %v", r.Unscheduled, r.Err)
	}
	switch {
	case r.Stuck:
		c.fault(label, "callers did not return when cancelled")
	case r.Stalled:
		c.fault(label, "%v", replay.ErrStalled)
	}
	if l := r.Left; l.Total() > 0 {
		c.fault(label, "left over: %d waiting, %d bookings, %d ranks with a load, %d goroutines, error %v",
			l.Waiting, l.Live, l.Loaded, l.Goroutines, l.Err)
	}
	cell := report.Cell{
		Ran: true, Requests: r.Requests, Completed: r.Completed, CutShort: r.CutShort, Unscheduled: r.Unscheduled,
		Wall: r.Wall, CPU: r.CPU, Late: r.Late, MaxWaiting: r.MostWaiting,
		Schedule:   report.PercentilesOf(r.Schedule),
		FirstToken: report.PercentilesOf(r.FirstToken),
		Balance:    r.Balance,
		Leftovers:  r.Left.Total(),
	}
	if r.Prompt > 0 {
		cell.HitShare = float64(r.Cached) / float64(r.Prompt)
	}
	return cell
}

func (c *comparison) fault(label, format string, args ...any) {
	c.faults = append(c.faults, label+": "+fmt.Sprintf(format, args...))
}

// write prints what was measured.
func (c *comparison) write(w io.Writer) error {
	if c.harness > 0 {
		fmt.Fprintf(w, "harness   the replay alone takes %.1f µs CPU per completion (a trivial placement in place of an engine)\n",
			float64(c.harness)/1e3)
	}
	fmt.Fprintln(w)
	if err := c.table.Write(w); err != nil {
		return err
	}
	if c.late > busyShare {
		fmt.Fprintf(w, "note      the machine is busy with something else: the replay alone was late %.0f %% of the time, which blurs\n"+
			"          every latency here; compare on a quiet one\n", 100*c.late)
	}
	for _, f := range c.faults {
		if _, err := fmt.Fprintf(w, "FAULT     %s\n", f); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, legend)
	return err
}
