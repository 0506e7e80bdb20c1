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

// endingClock shows the time in ticks, and ends the goroutine of its nth caller.
type endingClock struct {
	clock.Clock
	tick time.Duration

	mu   sync.Mutex
	left int // calls before it ends a goroutine
}

func (c *endingClock) count() {
	c.mu.Lock()
	c.left--
	ends := c.left == 0
	c.mu.Unlock()
	if ends {
		runtime.Goexit()
	}
}

func (c *endingClock) reached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left <= 0
}

func (c *endingClock) Now() time.Time {
	c.count()
	return c.Clock.Now().Truncate(c.tick)
}

func (c *endingClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.count()
	return c.Clock.AfterFunc(d, f)
}

// Whichever call of the clock's ends its goroutine, also under a rank's lock, while a
// timer is set, or in the turn: everyone is answered but the caller that is ended, its
// request leaves nothing behind, a ttl that has come is not lost, and every decision
// is told.
func TestClockThatEndsAnyGoroutine(t *testing.T) {
	t.Parallel()
	for _, tick := range []time.Duration{1, 20 * time.Millisecond} {
		t.Run(tick.String(), func(t *testing.T) {
			t.Parallel()
			for n, reached := 1, true; reached; n++ {
				synctest.Test(t, func(t *testing.T) { reached = endedAt(t, n, tick) })
			}
		})
	}
}

// endedAt runs a scenario in which the nth call of the clock's ends its goroutine, and
// reports whether there were as many.
func endedAt(t *testing.T, n int, tick time.Duration) (reached bool) {
	const ttl = time.Minute + 5*time.Millisecond // no number of ticks: timers fire early
	time.Sleep(7 * time.Millisecond)             // the instants are not those of ticks
	c := &endingClock{Clock: clock.System(), tick: tick}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: ttl}, sched.WithClock(c),
		sched.WithDecisionHook(func(sched.Decision) {}))
	addWorkers(t, s, 2)
	c.left = n

	// Each step on a goroutine of its own, which may be the one that is ended.
	aside := func(do func()) {
		var wg sync.WaitGroup
		wg.Go(do)
		wg.Wait()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var holds [2]*caller
	for i := range holds {
		holds[i] = call(ctx, s, sched.Request{ID: fmt.Sprint("hold", i), ISL: 10})
		<-holds[i].done
	}
	due := time.Now().Add(time.Second)
	callers := []*caller{
		call(ctx, s, sched.Request{ID: "due", ISL: 10, Pin: pin(1), Due: due}),
		call(ctx, s, sched.Request{ID: "first", ISL: 10}),
	}
	synctest.Wait()
	callers = append(callers, call(ctx, s, sched.Request{ID: "second", ISL: 10}))
	synctest.Wait()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	select {
	case <-callers[0].done: // nobody but the timer has looked
	default:
		t.Fatalf("call %d of the clock: nobody is due any more", n)
	}
	for _, h := range holds {
		if h.b != nil {
			aside(func() { _ = h.b.Release() })
		}
	}
	synctest.Wait()
	time.Sleep(2 * ttl)
	synctest.Wait()
	for _, one := range append(callers, holds[:]...) {
		select {
		case <-one.done:
		default:
			t.Fatalf("call %d of the clock: a caller still waits", n)
		}
	}
	reached = c.reached()
	require.NoError(t, s.Settle(t.Context()), "call %d of the clock", n)
	require.Zero(t, s.Stats().Live, "call %d of the clock", n)
	requireIdle(t, s)
	require.NoError(t, s.Close())
	return reached
}

// A caller whose goroutine is ended by what serves another, or by its own look-up of
// overlaps, gives back what it waits for or has got.
func TestEndedCallerLeavesNothing(t *testing.T) {
	t.Parallel()
	t.Run("in the turn", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ends := false
			late := &lateClock{now: time.Now()}
			s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), Selector: pickFunc(func(*selector.Input) (selector.Pick, error) {
				if ends {
					ends = false
					runtime.Goexit()
				}
				return selector.Pick{}, nil
			})}, sched.WithClock(late))
			addWorkers(t, s, 1)
			d := time.Second
			hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10, ExpectedPrefill: &d})
			first := call(t.Context(), s, sched.Request{ID: "first", ISL: 10, ExpectedPrefill: &d})
			synctest.Wait()
			second := call(t.Context(), s, sched.Request{ID: "second", ISL: 10})
			synctest.Wait()
			ends = true
			late.move(d) // and no timer fires
			ended := call(t.Context(), s, sched.Request{ID: "ended", ISL: 10})
			synctest.Wait()
			<-ended.done
			require.Nil(t, ended.b)
			<-first.done
			require.ErrorIs(t, first.err, sched.ErrInternal)
			second.release(t)
			require.NoError(t, hold.Release())
			requireIdle(t, s)
		})
	})
	t.Run("in its look-up", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newScheduler(
				t, sched.Config{Profile: policyOf(t, queueing), RefreshAfter: time.Nanosecond},
				sched.WithOverlapRefresher(func(context.Context, []uint64) ([]sched.Overlap, error) {
					runtime.Goexit()
					return nil, nil
				}),
			)
			addWorkers(t, s, 1)
			hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
			ended := call(t.Context(), s, sched.Request{ID: "ended", ISL: 10, Blocks: []uint64{1}})
			synctest.Wait()
			time.Sleep(time.Second)
			require.NoError(t, hold.Release())
			<-ended.done
			require.Nil(t, ended.b)
			requireIdle(t, s)
		})
	})
}

// onTimer is a clock that calls back, once, when a timer is set.
type onTimer struct {
	clock.Clock
	do atomic.Pointer[func()]
}

func (c *onTimer) AfterFunc(d time.Duration, f func()) clock.Timer {
	if do := c.do.Swap(nil); do != nil {
		(*do)()
	}
	return c.Clock.AfterFunc(d, f)
}

// The owner leaves while it is decided about, and then the goroutine ends that decides:
// what was booked is undone, and nothing of the request is left.
func TestOwnerLeavesWhileAnEpochBreaks(t *testing.T) {
	t.Parallel()
	for _, booked := range []bool{false, true} {
		t.Run(fmt.Sprint("booked ", booked), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &onTimer{Clock: clock.System()}
				var picking atomic.Pointer[func()]
				s := newScheduler(t, sched.Config{
					Profile: policyOf(t, queueing), BookingTTL: time.Minute,
					Selector: pickFunc(func(*selector.Input) (selector.Pick, error) {
						if do := picking.Swap(nil); do != nil {
							(*do)()
						}
						return selector.Pick{}, nil
					}),
				}, sched.WithClock(c))
				addWorkers(t, s, 2)
				ctx, cancel := context.WithCancel(t.Context())
				var leaves *caller
				leave := func() {
					cancel()
					<-leaves.done
					runtime.Goexit()
				}
				r := sched.Request{ID: "leaves", ISL: 10, Pin: pin(1)}
				hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10, Pin: pin(1)})
				var turn sync.WaitGroup
				if booked {
					leaves = call(ctx, s, r)
					synctest.Wait()
					c.do.Store(&leave) // when the timer of its ttl is set
					turn.Go(func() { _ = hold.Release() })
				} else {
					stays := call(t.Context(), s, sched.Request{ID: "stays", ISL: 10, Pin: pin(1)})
					synctest.Wait()
					r.Pin, r.Allowed = nil, []uint64{2}
					picking.Store(&leave)
					turn.Go(func() {
						sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
							leaves = call(ctx, s, r) // and it has to stand in line
							synctest.Wait()
							run(sched.ArrivalAllowance)
						})
					})
					turn.Wait()
					require.NoError(t, hold.Release())
					stays.release(t)
				}
				turn.Wait()
				require.ErrorIs(t, leaves.err, sched.ErrCanceled)
				require.EqualValues(t, 1, s.Stats().HookPanics)
				requireIdle(t, s)
				var again []*caller // the jobs are those of before
				for i := range 4 {
					again = append(again, call(t.Context(), s, sched.Request{ID: fmt.Sprint(i), ISL: 10}))
				}
				for _, one := range again {
					go func() { one.release(t) }()
				}
				synctest.Wait()
				requireIdle(t, s)
			})
		})
	}
}
