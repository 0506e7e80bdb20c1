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

// With a clock of 20 ms ticks nothing that time ends is lost, only late: a due time,
// the decay of a prefill, a ttl, and a setting aside come at the tick after their
// instant.
func TestCoarseClockLosesNothing(t *testing.T) {
	t.Parallel()
	const tick, after = 20 * time.Millisecond, 50 * time.Millisecond
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
