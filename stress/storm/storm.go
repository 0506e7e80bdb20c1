package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// storm is one engine and all that is going on around it.
type storm struct {
	config   Config
	engine   engine.Engine
	clock    *clock.Manual
	source   *source // what the engine has of the clock
	ctx      context.Context
	profiles []*profile
	classes  []string
	world    atomic.Pointer[world]

	broken violations
	order  *order
	faults *faults
	pauser *pauser

	callers      []*caller
	churner      *churner
	ticker       *ticker
	participants []*participant
	shared       [sharedIDs]sharedID

	stamps              atomic.Uint64
	admitted, leaks     atomic.Int64
	witnessed, looked   atomic.Int64
	rests, lulls        atomic.Int64
	began               time.Time
	baseline            int // goroutines before the storm
	earlyOps, earlyHeap int64
	lateHeap            int64
	interrupted         bool
}

// stamp returns the next instant of the storm's own time, which only orders
// events.
func (s *storm) stamp() uint64 { return s.stamps.Add(1) }

// Run lets a storm rage until its bound is reached or ctx ends, which is no
// fault. The error is one of the config.
func Run(ctx context.Context, config Config) (*Report, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	s := &storm{
		config: config, clock: clock.NewManual(time.Unix(1_700_000_000, 0)), pauser: newPauser(),
		classes: classNames(config.Profile), began: time.Now(), baseline: runtime.NumGoroutine(),
	}
	var err error
	if s.profiles, err = profiles(config.Profile); err != nil {
		return nil, err
	}
	var first *profile
	if len(s.profiles) > 0 {
		first = s.profiles[0]
	}
	s.order = newOrder(&s.broken, config.Exact)
	s.faults = &faults{order: s.order, calm: config.Calm || config.Exact}
	s.source = &source{Clock: s.clock, tick: config.Tick, breaks: func() bool { return config.Sources && s.pauser.get() == goOn }}
	if s.engine, err = newEngine(&config, first, s.faults, s.source); err != nil {
		return nil, err
	}
	w := s.firstWorld(first)
	workers := make([]sched.Worker, len(w.workers))
	for i := range w.workers {
		workers[i] = w.workers[i].Worker
	}
	if err := s.engine.SetWorkers(workers); err != nil {
		return nil, err
	}
	s.world.Store(w)

	// The storm's own context goes on when ctx ends: it must come to rest first.
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var all sync.WaitGroup
	s.start(&all)
	s.conduct(ctx)
	calm := s.inLull(ended)
	if !calm {
		// Callers that still wait for what will never come are told to go.
		cancel()
	}
	all.Wait()
	if calm {
		s.closeUp()
	}
	if err := s.engine.Close(); err != nil {
		s.broken.add(10, "Close: %v", err)
	}
	s.checkGoroutines()
	return s.report(), nil
}

func (s *storm) start(all *sync.WaitGroup) {
	seed := s.config.Seed
	s.churner = &churner{s: s, rnd: rand.New(rand.NewPCG(seed, 1<<40))}
	s.ticker = &ticker{s: s, rnd: rand.New(rand.NewPCG(seed, 1<<41))}
	s.churner.pauser, s.ticker.pauser = s.pauser, s.pauser
	s.participants = append(s.participants, &s.churner.participant, &s.ticker.participant)
	for i := range s.config.Callers {
		c := newCaller(s, i)
		s.callers = append(s.callers, c)
		s.participants = append(s.participants, &c.participant)
	}
	if s.config.Calm {
		s.churner.become(returned)
	} else {
		all.Go(s.churner.run)
	}
	all.Go(s.ticker.run)
	for _, c := range s.callers {
		all.Go(c.run)
	}
}

// Intervals of what goes on beside the storm.
const (
	progressEvery = 200 * time.Millisecond
	restEvery     = 100 * time.Millisecond
	// lullEvery counts rests.
	lullEvery = 8
)

// conduct watches the storm, has it pause, and returns when it is to end.
func (s *storm) conduct(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var end <-chan time.Time
	if s.config.For > 0 {
		timer := time.NewTimer(s.config.For)
		defer timer.Stop()
		end = timer.C
	}
	progress, paused := time.Now(), time.Now()
	for pauses := 1; ; {
		select {
		case <-ctx.Done():
			s.interrupted = true
			return
		case <-end:
			return
		case <-tick.C:
		}
		ops := s.ops()
		if s.config.Ops > 0 && s.earlyHeap == 0 && ops >= s.config.Ops/10 {
			if !s.inLull(lull) {
				return
			}
			s.earlyOps, s.earlyHeap = s.ops(), heapInUse()
			s.pauser.set(goOn)
		}
		if s.config.Ops > 0 && ops >= s.config.Ops {
			if s.inLull(lull) {
				s.lateHeap = heapInUse()
			}
			return
		}
		if now := time.Now(); now.Sub(progress) >= progressEvery && s.config.Progress != nil {
			s.config.Progress(s.snapshot())
			progress = now
		}
		if time.Since(paused) < restEvery {
			continue
		}
		if pauses++; pauses%lullEvery != 0 {
			s.atRest()
		} else if s.inLull(lull) {
			s.pauser.set(goOn)
		} else {
			return
		}
		paused = time.Now()
	}
}

func (s *storm) ops() (n int64) {
	for _, p := range s.participants {
		n += p.ops.Load()
	}
	return n
}

// closeUp has some callers wait, closes the engine while others arrive, and
// checks that all are answered and the lifecycle goes on: invariants 9 and 10.
func (s *storm) closeUp() {
	var held []engine.Booking
	for i, l := range s.engine.Loads() {
		r := &sched.Request{ID: fmt.Sprintf("close:%d", i), ISL: 1000, Class: "f", Pin: &l.Rank}
		if b, err := s.engine.Schedule(s.ctx, r); err == nil {
			held = append(held, b)
		}
	}
	const late = 64
	var wg sync.WaitGroup
	results := make([]error, late)
	for i := range late {
		wg.Go(func() {
			for n := 0; ; n++ {
				b, err := s.engine.Schedule(s.ctx, &sched.Request{ID: fmt.Sprintf("late:%d.%d", i, n), ISL: 10, Class: "f"})
				if errors.Is(err, sched.ErrSelector) {
					continue
				}
				if err != nil {
					results[i] = err
					return
				}
				if err := b.Release(); err != nil {
					s.broken.add(9, "Release while closing: %v", err)
				}
			}
		})
	}
	time.Sleep(2 * time.Millisecond)
	if err := s.engine.Close(); err != nil {
		s.broken.add(10, "Close: %v", err)
	}
	answered := make(chan struct{})
	go func() { wg.Wait(); close(answered) }()
	select {
	case <-answered:
	case <-time.After(s.config.Patience):
		s.broken.add(10, "Close did not answer everyone: %+v", s.engine.Stats())
		return
	}
	for _, err := range results {
		s.checkClosed(err)
	}
	for _, b := range held {
		s.endAfterClose(b)
	}
	if stats := s.engine.Stats(); stats.Live != 0 || stats.Waiting != 0 {
		s.broken.add(7, "after Close and the release of all, %d live and %d wait", stats.Live, stats.Waiting)
	}
	if at, pending := s.clock.Next(); pending {
		s.broken.add(10, "closed, but a timer is set for %v", at)
	}
}

// checkGoroutines: no goroutine of the storm or the engine outlives it.
func (s *storm) checkGoroutines() {
	n := 0
	for range 1000 {
		if n = runtime.NumGoroutine(); n <= s.baseline {
			return
		}
		time.Sleep(time.Millisecond)
	}
	s.broken.add(10, "%d goroutines before the storm, %d after", s.baseline, n)
}

// heapInUse is what lives on the heap after everything dead was collected.
func heapInUse() int64 {
	// Pools let go of what they keep in the second collection, and finalizers
	// and cleanups run after the first.
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// liveHeap is the size of the objects on the heap, dead or alive, at little cost.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
