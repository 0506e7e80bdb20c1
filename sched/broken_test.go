package sched_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Foreign code that panics or ends its goroutine in the worst place fails the one
// request it was about, and the line goes on.

// fragile is a random source and a clock that break on demand.
type fragile struct {
	clock.Clock
	inRand, inClock atomic.Pointer[func()]
}

func breakAt(at *atomic.Pointer[func()]) {
	if f := at.Swap(nil); f != nil {
		(*f)()
	}
}

func (f *fragile) Uint64() uint64 { breakAt(&f.inRand); return 7 }

func (f *fragile) Now() time.Time { breakAt(&f.inClock); return f.Clock.Now() }

func panics()        { panic("broken") }
func endsGoroutine() { runtime.Goexit() }

// fragileScheduler draws a random number for each choice.
func fragileScheduler(t *testing.T) (*sched.Scheduler, *fragile) {
	f := &fragile{Clock: clock.System()}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), Selector: selector.Random()},
		sched.WithClock(f), sched.WithRand(f))
	addWorkers(t, s, 2)
	return s, f
}

func TestBrokenRandomSourceInTheTurn(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(){"panics": panics, "ends its goroutine": endsGoroutine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, f := fragileScheduler(t)
				one := schedule(t, s, sched.Request{ID: "one", ISL: 10, Pin: pin(1)})
				two := schedule(t, s, sched.Request{ID: "two", ISL: 10, Pin: pin(2)})
				first := call(t.Context(), s, sched.Request{ID: "first", ISL: 10})
				synctest.Wait()
				second := call(t.Context(), s, sched.Request{ID: "second", ISL: 10})
				synctest.Wait()
				f.inRand.Store(&broken)
				var wg sync.WaitGroup
				for _, b := range []*sched.Booking{one, two} {
					wg.Go(func() { _ = b.Release() }) // its goroutine may be the one that ends
				}
				wg.Wait()
				<-first.done
				<-second.done
				errs := 0
				for _, c := range []*caller{first, second} {
					if c.err != nil {
						require.ErrorIs(t, c.err, sched.ErrInternal)
						errs++
					} else {
						require.NoError(t, c.b.Release())
					}
				}
				require.Equal(t, 1, errs, "the request that it was about fails, and no other")
				require.EqualValues(t, 1, s.Stats().HookPanics)
				require.NoError(t, s.Close())
				requireIdle(t, s)
			})
		})
	}
}

func TestBrokenRandomSourceWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(){"panics": panics, "ends its goroutine": endsGoroutine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f := fragileScheduler(t)
			for _, ask := range []func(*sched.Request) error{
				func(r *sched.Request) error { _, err := s.Schedule(context.Background(), r); return err },
				func(r *sched.Request) error { _, err := s.Query(context.Background(), r); return err },
				func(r *sched.Request) error { _, err := s.Select(context.Background(), r); return err },
			} {
				f.inRand.Store(&broken)
				var wg sync.WaitGroup
				wg.Go(func() { require.ErrorIs(t, ask(&sched.Request{ID: "r", ISL: 10}), sched.ErrInternal) })
				wg.Wait()
				require.Nil(t, f.inRand.Load())
			}
			require.NoError(t, schedule(t, s, sched.Request{ID: "r", ISL: 10}).Release(), "the id is free")
			requireIdle(t, s)
		})
	}
}

// A transfer whose random source panics fails, and the booking stays.
func TestBrokenRandomSourceInATransfer(t *testing.T) {
	t.Parallel()
	s, f := fragileScheduler(t)
	b := schedule(t, s, sched.Request{ID: "r", ISL: 10, Pin: pin(1)})
	broken := panics
	f.inRand.Store(&broken)
	_, err := b.TransferToBest(nil)
	require.ErrorIs(t, err, sched.ErrInternal)
	require.Equal(t, uint64(1), b.Placement().Rank.Worker)
	require.EqualValues(t, 1, s.Stats().HookPanics)
	require.NoError(t, b.Release())
	requireIdle(t, s)
}

// A clock may break under the locks of ranks: its last time stands in for it, and
// nothing fails.
func TestBrokenClockStandsStill(t *testing.T) {
	t.Parallel()
	s, f := fragileScheduler(t)
	broken := panics
	due := time.Now().Add(time.Hour)
	for range 20 {
		f.inClock.Store(&broken)
		b := schedule(t, s, sched.Request{ID: "r", ISL: 10, Due: due})
		f.inClock.Store(&broken)
		require.NoError(t, b.PrefillDone())
		require.NoError(t, b.Release())
	}
	require.Positive(t, s.Stats().HookPanics)
	requireIdle(t, s)
}

// A recheck of more lanes than one epoch can look at comes to an end, whatever
// else is going on.
func TestRecheckOfManyLanesEnds(t *testing.T) {
	t.Parallel()
	s := under(t, queueing, 64)
	var held []*sched.Booking
	for w := range uint64(64) {
		held = append(held, schedule(t, s, sched.Request{ID: fmt.Sprint("held ", w), ISL: 10, Pin: pin(w + 1)}))
	}
	lanes := 2000
	if testing.Short() {
		lanes = 600
	}
	ctx, cancel := context.WithCancel(t.Context())
	var callers []*caller
	for i := range lanes {
		excluded := []uint64{1 + uint64(i%32), 33 + uint64(i/32%32), 100 + uint64(i)}
		callers = append(callers, call(ctx, s, sched.Request{ID: fmt.Sprint(i), ISL: 10, Excluded: excluded}))
	}
	waitFor(t, s, int64(lanes))
	require.NoError(t, s.Recheck(withTimeout(t)))
	cancel()
	for _, c := range callers {
		<-c.done
	}
	for _, b := range held {
		require.NoError(t, b.Release())
	}
	requireIdle(t, s)
}
