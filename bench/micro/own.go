package micro

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// The rows in which the sharded scheduler is held against its own floors.

// ownRows returns none if the sharded engine is not to run.
func ownRows(engines []Engine) []Spec {
	for _, e := range engines {
		if e.Name == Turnstile {
			many := &pool{engine: e}
			return []Spec{
				ownRanks(e), ownUncontended(engines), ownClock(), ownBookingBytes(many), ownLive(e, many),
				ownIdle(engines, "own/idle", "", 16<<10), ownIdle(engines, "own/idle-ring", onePrompt, 48<<10),
				ownMany(e), ownWaiting(e), ownRemove(e),
			}
		}
	}
	return nil
}

func kib(x float64) string { return report.Short(math.Round(x/1024*10)/10) + " KiB" }

// ownRanks is the advisory selection in pools of very different size.
func ownRanks(e Engine) Spec {
	spec := Spec{Scenario: "own/ranks", About: "one advisory selection by one caller", Callers: 1, Ranks: 16,
		demands: []demand{ratio(report.TimePerOp, "time per call at 16,384 ranks", key{Turnstile, "16,384 ranks"}, key{Turnstile, "16 ranks"}, report.AtMost(3))}}
	for _, v := range []struct {
		name  string
		ranks int
	}{{"16 ranks", 16}, {"16,384 ranks", 16_384}} {
		kept := &pool{engine: e}
		spec.contenders = append(spec.contenders, contender{
			engine: Turnstile, variant: v.name, ranks: v.ranks, done: kept.finish,
			run: func(ctx context.Context, s Settings) (*outcome, error) {
				ranks := max(16, s.scaled(v.ranks))
				if err := kept.open(ranks, true); err != nil {
					return nil, err
				}
				own, i := prompts(1, ranks, 0)[0], 0
				ctxs, cancel := contexts(1)
				return drive(ctx, &trial{abort: cancel, end: kept.keep, callers: []caller{{timed: func() error {
					i = (i + 1) % len(own)
					_, err := kept.eng.Select(ctxs[0], &own[i])
					return err
				}}}}, s.Duration)
			},
		})
	}
	return spec
}

// pool is an engine that is kept over the rounds, because it takes long to
// prepare.
type pool struct {
	engine Engine
	eng    engine.Engine
	held   []engine.Booking
}

func (p *pool) open(ranks int, load bool) (err error) {
	if p.eng != nil {
		return nil
	}
	if p.eng, err = p.engine.build("", ranks); err == nil && load {
		p.held, err = standing(p.eng, ranks, 0)
	}
	return err
}

func (p *pool) keep() error { return nil }

func (p *pool) finish() error {
	if p.eng == nil {
		return nil
	}
	err := finish(p.eng, p.held)
	p.eng, p.held = nil, nil
	return err
}

// uncontended schedules and releases one request without blocks.
func uncontended(eng engine.Engine) *trial {
	r := &sched.Request{ID: "r", ISL: promptTokens}
	ctxs, cancel := contexts(1)
	return &trial{abort: cancel, end: func() error { return finish(eng, nil) }, callers: []caller{{timed: func() error {
		b, err := eng.Schedule(ctxs[0], r)
		if err != nil {
			return err
		}
		return b.Release()
	}}}}
}

func ownUncontended(engines []Engine) Spec {
	const reclaiming = "leaks reclaimed"
	spec := Spec{Scenario: "own/uncontended", Weight: 2, About: "schedule and release by one caller, no blocks", Callers: 1, Ranks: 16,
		demands: []demand{
			ratio(report.TimePerOp, "time per operation", key{engine: Turnstile}, key{engine: "floor"}, report.AtMost(6)),
			func(r *report.Row) report.Verdict {
				// To the whole, as tests count: the runtime allocates now and then too.
				v := report.AtMost(2).Judge("allocations per operation", math.Round(median(r, key{engine: Turnstile}, report.AllocsPerOp)), report.Short)
				return told(v, r, report.AllocsPerOp, key{engine: Turnstile})
			},
		},
		contenders: compared(engines, nil, func(e Engine, _ Settings) (*trial, error) {
			eng, err := e.build("", 16)
			if err != nil {
				return nil, err
			}
			return uncontended(eng), nil
		}),
	}
	one := func(name, variant string, prepare func() (*trial, error)) {
		spec.contenders = append(spec.contenders, contender{engine: name, variant: variant, run: func(ctx context.Context, s Settings) (*outcome, error) {
			t, err := prepare()
			if err != nil {
				return nil, err
			}
			return drive(ctx, t, s.Duration)
		}})
	}
	loop := func(name string, f func()) {
		one(name, "", func() (*trial, error) {
			return &trial{end: func() error { return nil }, callers: []caller{{timed: func() error { f(); return nil }}}}, nil
		})
	}
	one(Turnstile, reclaiming, func() (*trial, error) {
		eng, err := engine.NewSharded(sched.Config{BlockSize: blockSize, ReclaimLeaked: true})
		if err != nil {
			return nil, err
		}
		return uncontended(eng), eng.SetWorkers(workers(16))
	})
	var mu sync.Mutex
	live := map[string]*record{}
	loop("floor", func() {
		mu.Lock()
		live["r"] = &record{tokens: promptTokens}
		delete(live, "r")
		mu.Unlock()
	})
	m, own := newModel(16, math.MaxInt64), make(chan int, 1)
	loop("mutex", func() { m.release(m.acquire(own)) })
	free := make(chan int, 16)
	for i := range cap(free) {
		free <- i
	}
	loop("channel", func() { free <- <-free })
	sem := semaphore.NewWeighted(16)
	loop("semaphore", func() {
		_ = sem.Acquire(context.Background(), 1) // the context does not end
		sem.Release(1)
	})
	return spec
}

// record is the one allocation of the floor, of the size of a small booking.
type record struct {
	tokens int64
	_      [56]byte
}

// countingClock is the system's clock, and counts how often it is read.
type countingClock struct {
	clock.Clock
	reads atomic.Int64
}

// Now implements clock.Clock.
func (c *countingClock) Now() time.Time {
	c.reads.Add(1)
	return c.Clock.Now()
}

// ownClock counts the readings of the clock on the fast path.
func ownClock() Spec {
	reads := math.NaN()
	return Spec{Scenario: "own/clock", About: "schedule, prefill done and release where no request waits", Callers: 1, Ranks: 16, once: true,
		demands: []demand{func(*report.Row) report.Verdict {
			return report.AtMost(0).Judge("readings of the clock per operation", reads, report.Short)
		}},
		contenders: []contender{{engine: Turnstile, run: func(_ context.Context, _ Settings) (*outcome, error) {
			c := &countingClock{Clock: clock.System()}
			eng, err := engine.NewSharded(sched.Config{BlockSize: blockSize}, sched.WithClock(c))
			if err != nil {
				return nil, err
			}
			if err := eng.SetWorkers(workers(16)); err != nil {
				return nil, err
			}
			const n = 1000
			before := c.reads.Load()
			op := lifecycle(eng, context.Background(), prompts(1, 16, 0)[0])
			for range n {
				if err := op(); err != nil {
					return nil, err
				}
			}
			reads = float64(c.reads.Load()-before) / n
			return &outcome{total: report.NewRound()}, finish(eng, nil)
		}}},
	}
}

const (
	fewLive  = 1000
	manyLive = 1_000_000
)

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "live-" + strconv.Itoa(i)
	}
	return out
}

// book makes bookings whose prefill is done.
func (p *pool) book(ids []string) error {
	for _, id := range ids {
		b, err := p.eng.Schedule(context.Background(), &sched.Request{ID: id, ISL: promptTokens})
		if err != nil {
			return err
		}
		p.held = append(p.held, b)
		if err := b.PrefillDone(); err != nil {
			return err
		}
	}
	return nil
}

// ownLive is the uncontended operation beside few and many live bookings; many
// are those that were weighed before.
func ownLive(e Engine, many *pool) Spec {
	spec := Spec{Scenario: "own/live", Weight: 2, About: "schedule and release by one caller beside live bookings", Callers: 1, Ranks: 16,
		demands: []demand{ratio(report.TimePerOp, "time per operation beside 1,000,000", key{Turnstile, "1,000,000 live"}, key{Turnstile, "1,000 live"}, report.AtMost(1.5))}}
	for _, v := range []struct {
		name string
		live int
		kept *pool
	}{{"1,000 live", fewLive, &pool{engine: e}}, {"1,000,000 live", manyLive, many}} {
		spec.contenders = append(spec.contenders, contender{
			engine: Turnstile, variant: v.name, done: v.kept.finish,
			run: func(ctx context.Context, s Settings) (*outcome, error) {
				if v.kept.eng == nil {
					n := s.scaled(v.live)
					if err := errors.Join(v.kept.open(16, false), v.kept.book(ids(n))); err != nil {
						return nil, err
					}
				}
				t := uncontended(v.kept.eng)
				t.end, t.kept = v.kept.keep, true
				return drive(ctx, t, s.Duration)
			},
		})
	}
	return spec
}

// heap returns the bytes in use once garbage is gone, stacks apart.
func heap() (inUse, stacks uint64) {
	runtime.GC()
	runtime.GC() // what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.StackInuse
}

// ownBookingBytes weighs live bookings, ids and requests being the caller's, and
// leaves them for the next row.
func ownBookingBytes(many *pool) Spec {
	return Spec{Scenario: "own/booking-bytes", Weight: 4, About: "schedule and prefill done; the bytes are those of a live booking, its id apart", Callers: 1, Ranks: 16, once: true,
		demands: []demand{bound(report.BytesPerOp, "bytes per live booking", key{engine: Turnstile}, report.AtMost(400), report.Short)},
		contenders: []contender{{engine: Turnstile, run: func(_ context.Context, s Settings) (*outcome, error) {
			n := s.scaled(manyLive)
			many.held = make([]engine.Booking, 0, n)
			if err := many.open(16, false); err != nil {
				return nil, err
			}
			ids := ids(n)
			before, _ := heap()
			began := time.Now()
			if err := many.book(ids); err != nil {
				return nil, err
			}
			took := time.Since(began)
			after, _ := heap()
			runtime.KeepAlive(ids)
			out := &outcome{total: report.NewRound()}
			out.total[report.OpsPerSecond] = float64(n) / took.Seconds()
			out.total[report.TimePerOp] = float64(took) / float64(n)
			out.total[report.BytesPerOp] = float64(after-before) / float64(n)
			return out, nil
		}}},
	}
}
