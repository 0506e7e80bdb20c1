package storm

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/stress/engines"
)

const blockSize = 16

// refreshAfter is short against the clock's jumps, so that many waits are long.
const refreshAfter = time.Millisecond

var errInjected = errors.New("injected")

// faults is the code given to the engine, which misbehaves now and then.
type faults struct {
	order *order
	calm  bool
	told  atomic.Uint64
}

// hook is the observer.
func (f *faults) hook(d sched.Decision) {
	f.order.told(&d)
	if f.calm {
		return
	}
	switch n := f.told.Add(1); {
	case n%4096 == 1:
		time.Sleep(200 * time.Microsecond)
	case n%1024 == 3:
		panic(errInjected)
	}
}

// estimated reports whether the estimator says how long a prefill takes.
func estimated(isl int64) bool { return isl%16 == 1 }

func (f *faults) estimate(w sched.PrefillWork) (time.Duration, bool) {
	switch {
	case f.calm:
		return 0, false
	case estimated(w.ISL):
		return time.Duration(w.ISL) * time.Microsecond, true
	case w.ISL%16 == 2:
		panic(errInjected)
	case w.ISL%16 == 3:
		return -1, true
	}
	return 0, false
}

func (f *faults) refresh(ctx context.Context, _ []uint64) ([]sched.Overlap, error) {
	if f.calm {
		return nil, errInjected
	}
	switch n := rand.IntN(8); n {
	case 0:
		panic(errInjected)
	case 1:
		return nil, errInjected
	case 2:
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Microsecond):
		}
		fallthrough
	default:
		rank := sched.RankID{Worker: 1 + rand.Uint64N(8), Rank: rand.Uint32N(2)}
		return []sched.Overlap{{Rank: rank, Device: float64(n)}}, nil
	}
}

// moody is an embedder's selector: mostly like KV, sometimes slow, wrong or dead.
type moody struct {
	selector.Selector
}

func (m moody) Pick(in *selector.Input) (selector.Pick, error) {
	switch n := rand.IntN(1024); {
	case n < 4:
		panic(errInjected)
	case n < 8:
		return selector.Pick{}, errInjected
	case n < 10:
		return selector.Pick{Index: len(in.Candidates)}, nil
	case n < 12:
		time.Sleep(50 * time.Microsecond)
	}
	return m.Selector.Pick(in)
}

// selectors are swapped in turn by the churner.
func selectors() []selector.Selector {
	return []selector.Selector{
		selector.KV(), moody{selector.KV()}, selector.LeastLoaded(), selector.RoundRobin(),
		moody{selector.LeastLoaded()}, selector.PowerOfTwo(), selector.Random(),
	}
}

// source is the clock and the random source given to the engine: the clock may be
// coarse, and both may panic unless everybody stands still.
type source struct {
	clock.Clock
	tick   time.Duration
	breaks func() bool
}

func (s *source) Now() time.Time {
	if s.breaks() && rand.IntN(4096) == 0 {
		panic(errInjected)
	}
	return s.Clock.Now().Truncate(s.tick)
}

// Uint64 implements rand.Source.
func (s *source) Uint64() uint64 {
	if s.breaks() && rand.IntN(256) == 0 {
		panic(errInjected)
	}
	return rand.Uint64()
}

// newEngine makes the engine of a storm.
func newEngine(c *Config, p *profile, f *faults, now *source) (engine.Engine, error) {
	config := sched.Config{BlockSize: blockSize, BookingTTL: c.TTL}
	if p != nil {
		config.Profile = p.parsed
	}
	switch {
	case c.Exact:
		config.Selector = selector.LeastLoaded()
	case !c.Calm && !c.sharded():
		config.Selector = moody{selector.KV()}
	}
	if c.sharded() {
		config.ReclaimLeaked = !c.Exact
		config.RefreshAfter = refreshAfter
		options := []sched.Option{
			sched.WithClock(now), sched.WithDecisionHook(f.hook),
			sched.WithPrefillEstimator(f.estimate), sched.WithOverlapRefresher(f.refresh),
		}
		if c.Sources {
			options = append(options, sched.WithRand(now))
		}
		return engine.NewSharded(config, options...)
	}
	direct := c.Engine == engines.ActorDirect
	return actor.New(actor.Config{Config: config, Direct: direct, Index: direct, Clock: now, OnDecision: f.hook})
}
