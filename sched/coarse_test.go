package sched_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// coarseClock shows the time in ticks, while its timers fire on time: before the
// clock shows it.
type coarseClock struct {
	clock.Clock
	tick time.Duration
}

func (c coarseClock) Now() time.Time { return c.Clock.Now().Truncate(c.tick) }

// A timer may fire although it was stopped, when another has been set: nothing is
// left of either when nobody waits and no booking lives.
func TestStoppedTimerThatFiresLeavesNoOther(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		begin func(t *testing.T, s *sched.Scheduler, id string, due time.Time) (end func())
		ttl   time.Duration
	}{
		{
			name: "due time",
			begin: func(t *testing.T, s *sched.Scheduler, id string, due time.Time) func() {
				ctx, cancel := context.WithCancel(t.Context())
				c := call(ctx, s, sched.Request{ID: id, ISL: 10, Due: due})
				synctest.Wait()
				return func() { cancel(); <-c.done }
			},
		},
		{
			name: "ttl", ttl: time.Minute,
			begin: func(t *testing.T, s *sched.Scheduler, id string, _ time.Time) func() {
				b := schedule(t, s, sched.Request{ID: id, ISL: 10})
				return func() { require.NoError(t, b.Release()) }
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := &lateClock{now: time.Now()}
				s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: test.ttl}, sched.WithClock(clock))
				addWorkers(t, s, 1)
				var hold *sched.Booking
				if test.ttl == 0 {
					hold = schedule(t, s, sched.Request{ID: "hold", ISL: 10})
				}
				end := test.begin(t, s, "one", clock.Now().Add(time.Minute))
				require.Len(t, clock.timers, 1)
				end()
				require.NoError(t, s.Settle(t.Context()))
				end = test.begin(t, s, "two", clock.Now().Add(time.Hour))
				require.Len(t, clock.timers, 2)
				clock.timers[0].run()
				end()
				require.NoError(t, s.Settle(t.Context()))
				for i, timer := range clock.timers {
					require.True(t, timer.stopped, i)
				}
				if hold != nil {
					require.NoError(t, hold.Release())
				}
				requireIdle(t, s)
			})
		})
	}
}

// With a clock of 20 ms ticks nothing that time ends is lost, only late: a due time,
// the decay of a prefill, a ttl, and a setting aside come at the tick after their
// instant.
func TestCoarseClockLosesNothing(t *testing.T) {
	t.Parallel()
	const tick, after = 20 * time.Millisecond, 65 * time.Millisecond
	for _, test := range []struct {
		name string
		// what is over once it returns
		over func(t *testing.T, ctx context.Context, s *sched.Scheduler)
	}{
		{"due time", func(t *testing.T, ctx context.Context, s *sched.Scheduler) {
			hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
			r := sched.Request{ID: "r", ISL: 10, Due: time.Now().Add(after)}
			_, err := s.Schedule(ctx, &r)
			require.ErrorIs(t, err, sched.ErrDeadline)
			require.NoError(t, ctx.Err(), "the context has ended, not the due time come")
			require.NoError(t, hold.Release())
		}},
		{"decay", func(t *testing.T, ctx context.Context, s *sched.Scheduler) {
			d := after
			hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10, ExpectedPrefill: &d})
			b, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 10})
			require.NoError(t, err)
			require.NoError(t, b.Release())
			require.NoError(t, hold.Release())
		}},
		{"ttl", func(t *testing.T, ctx context.Context, s *sched.Scheduler) {
			lost := schedule(t, s, sched.Request{ID: "lost", ISL: 10})
			select {
			case <-lost.Done():
				require.ErrorIs(t, lost.Err(), sched.ErrExpired)
			case <-ctx.Done():
				t.Fatal("the booking has not expired")
			}
		}},
		{"ttl of one that was touched", func(t *testing.T, ctx context.Context, s *sched.Scheduler) {
			lost := schedule(t, s, sched.Request{ID: "lost", ISL: 10})
			time.Sleep(after / 2)
			require.NoError(t, lost.Touch())
			select {
			case <-lost.Done():
			case <-ctx.Done():
				t.Fatal("the booking has not expired")
			}
		}},
		{"setting aside", func(t *testing.T, ctx context.Context, s *sched.Scheduler) {
			hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
			r := call(ctx, s, sched.Request{ID: "r", ISL: 10})
			synctest.Wait()
			require.NoError(t, s.SetAside(1, after))
			require.NoError(t, hold.Release())
			<-r.done
			require.NoError(t, r.err)
			require.NoError(t, r.b.Release())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(7 * time.Millisecond) // the instants are not those of ticks
				config := sched.Config{Profile: policyOf(t, queueing)}
				if test.name[:3] == "ttl" {
					config.BookingTTL = after
				}
				s := newScheduler(t, config, sched.WithClock(coarseClock{clock.System(), tick}))
				addWorkers(t, s, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				test.over(t, ctx, s)
				require.LessOrEqual(t, time.Since(begun), 2*after+2*tick)
				requireIdle(t, s)
			})
		})
	}
}
