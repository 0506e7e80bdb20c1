package micro

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/internal/cputime"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// hold gathers single calls: how long each took, and the CPU time that its own
// thread used in it. The latter is what a call works, for itself and for others,
// and does not depend on what else runs on the machine.
type hold struct {
	mu     sync.Mutex
	walls  []float64 // ns; guarded by mu
	cpus   []float64 // ns; guarded by mu
	others []float64 // guarded by mu
}

// mark is the beginning of a call.
type mark struct {
	at  time.Time
	cpu time.Duration
}

// begin ties the goroutine to its thread until the end.
func begin() mark {
	runtime.LockOSThread()
	m := mark{at: time.Now()}
	m.cpu, _ = threadTime()
	return m
}

// end notes the call that began at m.
func (h *hold) end(m mark) (cpu time.Duration) {
	now, known := threadTime()
	wall := time.Since(m.at)
	runtime.UnlockOSThread()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.walls = append(h.walls, float64(wall))
	if known {
		h.cpus = append(h.cpus, float64(now-m.cpu))
	}
	return now - m.cpu
}

// call measures a call.
func (h *hold) call(f func() error) error {
	m := begin()
	err := f()
	h.end(m)
	return err
}

// other notes how many of something else went on meanwhile.
func (h *hold) other(n float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.others = append(h.others, n)
}

// round is what was gathered: the median call and the longest.
func (h *hold) round() report.Round {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := report.NewRound()
	if len(h.walls) > 0 {
		slices.Sort(h.walls)
		r[report.P50] = report.Median(h.walls)
		r[report.P90] = h.walls[len(h.walls)*9/10]
		r[report.P99] = h.walls[len(h.walls)*99/100]
		r[report.Max] = slices.Max(h.walls)
	}
	if len(h.cpus) > 0 {
		r[report.CallCPU] = slices.Max(h.cpus)
	}
	if len(h.others) > 0 {
		r[report.Others] = slices.Max(h.others)
	}
	return r
}

// beside makes a call over and over on a goroutine of its own while something
// else goes on, and gathers how long each was held up.
type beside struct {
	hold  hold
	calls atomic.Int64
	stop  atomic.Bool
	done  chan error
}

// run begins. f is told how many calls were made before.
func (b *beside) run(f func(n int64) error) {
	b.done = make(chan error, 1)
	go func() {
		for !b.stop.Load() {
			n := b.calls.Load()
			if err := b.hold.call(func() error { return f(n) }); err != nil {
				b.done <- err
				return
			}
			b.calls.Add(1)
		}
		b.done <- nil
	}()
}

func (b *beside) end() error {
	b.stop.Store(true)
	return <-b.done
}

// leapClock is the system's clock, which can be put forward. What falls due by
// that is run as the system would, each on a goroutine of its own, and is measured
// there.
type leapClock struct {
	hold    *hold
	forward atomic.Int64

	mu     sync.Mutex
	timers map[*leapTimer]struct{} // guarded by mu
}

type leapTimer struct {
	clock *leapClock
	at    time.Time
	run   func()
	timer *time.Timer // guarded by clock.mu
}

func newLeapClock(h *hold) *leapClock { return &leapClock{hold: h, timers: map[*leapTimer]struct{}{}} }

// Now implements clock.Clock.
func (c *leapClock) Now() time.Time { return time.Now().Add(time.Duration(c.forward.Load())) }

// AfterFunc implements clock.Clock.
func (c *leapClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &leapTimer{clock: c, at: c.Now().Add(d)}
	t.run = func() {
		c.mu.Lock()
		delete(c.timers, t)
		c.mu.Unlock()
		m := begin()
		f()
		c.hold.end(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers[t] = struct{}{}
	t.timer = time.AfterFunc(d, t.run)
	return t
}

// leap puts the clock forward.
func (c *leapClock) leap(d time.Duration) {
	c.forward.Add(int64(d))
	now := c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.timers {
		if !t.at.After(now) && t.timer.Stop() {
			t.timer = time.AfterFunc(0, t.run)
		}
	}
}

// Stop implements clock.Timer.
func (t *leapTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	delete(t.clock.timers, t)
	return t.timer.Stop()
}

// heldRow makes a row of held: in each round prepare sets up what the row is
// about and measures.
type heldRow struct {
	name, about    string
	callers, ranks int
	weight         float64
	// rounds bounds the rounds; 0 is as many as asked for.
	rounds  int
	groups  []string
	demands []demand
}

func (h heldRow) spec(contenders ...contender) Spec {
	return Spec{
		Scenario: "held/" + h.name, About: h.about, Callers: h.callers, Ranks: h.ranks,
		Weight: h.weight, most: h.rounds, longest: heldTime, setup: h.weight, demands: h.demands, contenders: contenders,
	}
}

// contender is an engine in the row. Groups have a hold each.
func (h heldRow) contender(engine, variant string, run func(context.Context, Settings, *heldRound) error) contender {
	return contender{engine: engine, variant: variant, groups: h.groups, run: func(ctx context.Context, s Settings) (*outcome, error) {
		r := &heldRound{groups: make([]*hold, len(h.groups))}
		for i := range r.groups {
			r.groups[i] = &hold{}
		}
		runtime.GC()
		if err := errors.Join(run(ctx, s, r), ctx.Err()); err != nil {
			return nil, err
		}
		out := &outcome{total: r.calls.round(), notes: r.notes}
		if r.ops > 0 {
			out.total[report.CPUPerOp] = known(float64(r.cpu)) / float64(r.ops)
		}
		if r.cut > 0 {
			for _, m := range []report.Metric{report.P50, report.P90, report.P99, report.Max, report.CallCPU, report.CPUPerOp} {
				out.total[m] /= r.cut
			}
		}
		for _, g := range r.groups {
			out.groups = append(out.groups, g.round())
		}
		return out, nil
	}}
}

// heldRound is what is measured in one round.
type heldRound struct {
	calls  hold
	groups []*hold
	cpu    time.Duration // of the process
	ops    int64         // in that time; 0: not taken
	cut    float64       // what share of a call was done before it was cut off; 0: all
	notes  []string
}

// whole measures the CPU of the process until f returns.
func (r *heldRound) whole(ops int64, f func() error) error {
	before := cputime.Now()
	err := f()
	r.cpu += cputime.Now() - before
	r.ops += ops
	return err
}

// after says that a call of many parts was cut off. Its times are then told as if
// the rest took as long.
func (r *heldRound) after(limit time.Duration, done, all int) {
	r.cut = float64(done) / float64(all)
	r.notes = append(r.notes, fmt.Sprintf("> %v for %d of %d; the figures are for all, if the others take as long", limit, done, all))
}

// atMostCPU demands of the longest call of the sharded engine.
func atMostCPU(what string, limit time.Duration) demand {
	return bound(report.CallCPU, what, key{engine: Turnstile}, report.AtMost(float64(limit)), report.Nanos)
}

// eventually waits until f is true.
func eventually(ctx context.Context, what string, f func() bool) error {
	for deadline := time.Now().Add(patience); !f(); time.Sleep(100 * time.Microsecond) {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("%s: not within %v", what, patience)
		}
	}
	return nil
}
