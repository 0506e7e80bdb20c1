package sched_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// guarding has a class that calls a rank busy at less than the other.
const guarding = `
default_policy_family: loose
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: loose, policy_family: loose, cache_bucket: all, quantum: 100, prefill_busy_threshold: 100}
  - {name: strict, quantum: 100, prefill_busy_threshold: 0, guard_after: 5}
  - {name: open, quantum: 100}
`

// later schedules on a goroutine of its own and returns how to wait for the booking.
func later(t *testing.T, s *sched.Scheduler, r sched.Request) func() *sched.Booking {
	done := make(chan *sched.Booking, 1)
	go func() {
		b, err := s.Schedule(t.Context(), &r)
		assert.NoError(t, err)
		done <- b
	}()
	synctest.Wait()
	return func() *sched.Booking { return <-done }
}

// Explain and the overlap refresh see guards without having the turn.
func TestGuardsOutsideTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(
			t, sched.Config{Profile: policyOf(t, guarding), RefreshAfter: time.Nanosecond},
			sched.WithOverlapRefresher(func(context.Context, []uint64) ([]sched.Overlap, error) {
				return []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 100}}, nil
			}),
		)
		addWorkers(t, s, 2)
		one, two := sched.RankID{Worker: 1}, sched.RankID{Worker: 2}
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 200, Pin: &two, Class: "open"})
		on1 := schedule(t, s, sched.Request{ID: "on1", ISL: 90, Pin: &one, Class: "open"})
		strict := later(t, s, sched.Request{ID: "strict", ISL: 10, Pin: &one, Class: "strict"})
		r := &sched.Request{ID: "r", ISL: 10, Prefer: &one}
		e, err := s.Explain(r)
		require.NoError(t, err)
		require.Equal(t, one, *e.Rank)
		require.Empty(t, e.Ranks[0].Barred)
		time.Sleep(5 * time.Second)
		e, err = s.Explain(r)
		require.NoError(t, err)
		require.Equal(t, sched.OutcomeQueued, e.Outcome)
		require.Equal(t, "guarded for class strict", e.Ranks[0].Barred)
		require.Contains(t, e.Why, "guarded for another class")
		// A class without a threshold is not bound, nor is an advisory selection.
		open, err := s.Explain(&sched.Request{ID: "r", ISL: 10, Prefer: &one, Class: "open"})
		require.NoError(t, err)
		require.Equal(t, one, *open.Rank)
		p, err := s.Select(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, one, p.Rank)

		// Rank 1 is guarded and rank 2 busy, so it waits; what is cached on 1 by the time
		// of its grant does not draw it there.
		moves := later(t, s, sched.Request{ID: "moves", ISL: 60, Blocks: []uint64{1}})
		time.Sleep(time.Second)
		require.NoError(t, hold.Release())
		require.Equal(t, two, moves().Placement().Rank)
		require.NoError(t, s.Release("moves", 0))

		require.NoError(t, on1.Release())
		b := strict()
		e, err = s.Explain(r)
		require.NoError(t, err)
		require.Empty(t, e.Ranks[0].Barred, "nobody waits any more")
		require.NoError(t, b.Release())
		requireIdle(t, s)
		require.NoError(t, s.Close())
	})
}

// Who waits for an endpoint is seen, with the instant until which; Shutdown and Close
// end it.
func TestEndpointWaitIsSeenAndEnds(t *testing.T) {
	t.Parallel()
	const patient = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 10, endpoint_wait: 10, request_queue_limit_per_worker: 2}
`
	for name, end := range map[string]func(*testing.T, *sched.Scheduler){
		"close": func(t *testing.T, s *sched.Scheduler) { require.NoError(t, s.Close()) },
		"shutdown": func(t *testing.T, s *sched.Scheduler) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, s.Shutdown(ctx), sched.ErrDeadline)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScheduler(t, sched.Config{Profile: policyOf(t, patient)})
				r := &sched.Request{ID: "waits", ISL: 10}
				e, err := s.Explain(r)
				require.NoError(t, err)
				require.Equal(t, sched.OutcomeQueued, e.Outcome)
				require.Equal(t, time.Now().Add(10*time.Second), e.Line.EndpointUntil)
				got := make(chan error, 2)
				began := time.Now()
				wait := func(r *sched.Request) {
					_, err := s.Schedule(t.Context(), r)
					got <- err
				}
				go wait(r)
				synctest.Wait()
				time.Sleep(4 * time.Second)
				class := s.Snapshot(1).Classes[0]
				require.Equal(t, began.Add(10*time.Second), class.EndpointUntil)
				require.EqualValues(t, 2, class.Limits[0].Bound, "at least one worker counts")
				time.Sleep(6 * time.Second)
				require.ErrorIs(t, <-got, sched.ErrNoEndpoints)
				require.Equal(t, 10*time.Second, time.Since(began))
				require.True(t, s.Snapshot(1).Classes[0].EndpointUntil.IsZero())
				_, err = s.Schedule(t.Context(), &sched.Request{ID: "no-queue", ISL: 10, DoNotQueue: true})
				require.ErrorIs(t, err, sched.ErrNoEndpoints)

				go wait(&sched.Request{ID: "last", ISL: 10})
				synctest.Wait()
				end(t, s)
				require.ErrorIs(t, <-got, sched.ErrClosed)
				requireIdle(t, s)
			})
		})
	}
}

// When the request that guards a rank leaves, those whom it held back go on at once.
func TestGuardEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	for name, pin := range map[string]*sched.RankID{"any rank": nil, "one rank": {Worker: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := under(t, guarding, 1)
				schedule(t, s, sched.Request{ID: "fills", ISL: 90, Class: "open"})
				ctx, leave := context.WithTimeout(t.Context(), 10*time.Second)
				defer leave()
				left := make(chan error, 1)
				go func() {
					_, err := s.Schedule(ctx, &sched.Request{ID: "strict", ISL: 10, Class: "strict", Pin: pin})
					left <- err
				}()
				synctest.Wait()
				time.Sleep(6 * time.Second)
				held := later(t, s, sched.Request{ID: "held", ISL: 5})
				require.EqualValues(t, 2, s.Stats().Waiting)
				b := held()
				require.Equal(t, 4*time.Second, b.Waited())
				require.ErrorIs(t, <-left, sched.ErrDeadline)
				require.NoError(t, s.Close())
			})
		})
	}
}

// Lanes that come of guard age together do so in pieces, by what they name; a change
// of the pool goes through none of them, and neither does a release that serves one.
func TestManyLanesGuardInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ranks, names = 40, 30
		lanes, ended := many(2_000), false
		clock := &lateClock{now: time.Now()}
		s, _ := stepped(t, guarding, ranks, sched.WithClock(clock))
		hold := holdAll(t, s, ranks)
		c := wait(t, s, lanes, func(i int) sched.Request {
			r := sched.Request{ISL: 10, Class: "strict"}
			for n := range names {
				r.Excluded = append(r.Excluded, uint64(1_000+names*i+n))
			}
			return r
		})
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			clock.move(6 * time.Second)
			for before, more := 0, true; more; {
				_, more = run(sched.LifecycleAllowance)
				now := sched.GuardingLanes(s)
				require.LessOrEqual(t, now-before, sched.LifecycleAllowance/(names*queue.CostName)+1)
				require.True(t, more || now == lanes)
				before = now
			}
			overloaded := []uint64{ranks}
			allocs := testing.AllocsPerRun(10, func() {
				require.NoError(t, s.SetOverloaded(overloaded))
				overloaded = overloaded[:1-len(overloaded)]
				run(sched.LifecycleAllowance)
			})
			require.Less(t, allocs, float64(lanes), "a list of ranks is made for each lane")
			require.NoError(t, s.SetOverloaded(nil))
			require.Equal(t, lanes, sched.GuardingLanes(s))
			require.NoError(t, hold[0].Release())
			for more := true; more; {
				_, more = run(sequencer.HelperAllowance)
			}
			require.Equal(t, lanes-1, sched.GuardingLanes(s))
			ended = true
		})
		require.True(t, ended)
		for _, b := range hold[1:] {
			require.NoError(t, b.Release())
		}
		c.leave()
		require.Zero(t, sched.GuardingLanes(s))
	})
}
