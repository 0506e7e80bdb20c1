package sched_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// What storms have found, made small.

// heldAtRefresh returns a scheduler that refreshes the overlaps of what waited a
// second of its clock, closes looking when it does so, and then waits for proceed.
func heldAtRefresh(t *testing.T) (s *sched.Scheduler, manual *clock.Manual, looking, proceed chan struct{}) {
	t.Helper()
	manual = clock.NewManual(time.Unix(1000, 0))
	looking, proceed = make(chan struct{}), make(chan struct{})
	s = newScheduler(t, sched.Config{Profile: policyOf(t, queueing), RefreshAfter: time.Second}, sched.WithClock(manual),
		sched.WithOverlapRefresher(func(context.Context, []uint64) ([]sched.Overlap, error) {
			close(looking)
			<-proceed
			return nil, nil
		}))
	return s, manual, looking, proceed
}

// A booking may be ended by its id before its owner is told of it. The id is then
// free, and may be another's by the time the owner gives up.
func TestGivingUpDoesNotFreeAnIDThatIsAnothersByNow(t *testing.T) {
	t.Parallel()
	s, manual, looking, proceed := heldAtRefresh(t)
	addWorkers(t, s, 2)
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10, Pin: &sched.RankID{Worker: 1}})
	ctx, cancel := context.WithCancel(withTimeout(t))
	gaveUp := make(chan error)
	go func() {
		_, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 10, Blocks: []uint64{1}, Pin: &sched.RankID{Worker: 1}})
		gaveUp <- err
	}()
	untilQueued(t, s, 1)
	manual.Advance(2 * time.Second)
	require.NoError(t, hold.Release())
	<-looking // it is booked, and its owner not told yet
	require.NoError(t, s.Release("r", 0))
	other := schedule(t, s, sched.Request{ID: "r", ISL: 10})
	cancel()
	close(proceed)
	require.ErrorIs(t, <-gaveUp, sched.ErrCanceled)
	_, err := s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10})
	require.ErrorIs(t, err, sched.ErrDuplicate)
	require.NoError(t, s.Release("r", other.Attempt()))
	requireIdle(t, s)
}

// What a grant that comes too late gives back is for those who wait: its owner,
// who finds that its context has ended, dispatches them.
func TestAGrantThatComesTooLateIsPassedOn(t *testing.T) {
	t.Parallel()
	s, manual, looking, proceed := heldAtRefresh(t)
	addWorkers(t, s, 1)
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
	ctx, cancel := context.WithCancel(withTimeout(t))
	late := make(chan error)
	go func() {
		_, err := s.Schedule(ctx, &sched.Request{ID: "late", ISL: 10, Blocks: []uint64{1}})
		late <- err
	}()
	untilQueued(t, s, 1)
	manual.Advance(2 * time.Second)
	next := make(chan *sched.Booking, 1)
	go func() {
		b, err := s.Schedule(withTimeout(t), &sched.Request{ID: "next", ISL: 10})
		assert.NoError(t, err)
		next <- b
	}()
	untilQueued(t, s, 2)
	require.NoError(t, hold.Release())
	<-looking
	cancel()
	close(proceed)
	require.ErrorIs(t, <-late, sched.ErrCanceled)
	b := <-next
	require.NotNil(t, b)
	require.NoError(t, b.Release())
	requireIdle(t, s)
}

// holdTurn is a selector that stops at requests of one length.
type holdTurn struct {
	selector.Selector
	at               int64
	stopped, proceed chan struct{}
}

func (h *holdTurn) Pick(in *selector.Input) (selector.Pick, error) {
	if in.ISL == h.at {
		h.stopped <- struct{}{}
		<-h.proceed
	}
	return h.Selector.Pick(in)
}

// A query that arrives while capacity is being freed does not get the answer that
// was somebody else's turn: it is tested on no newer loads than those before it.
func TestQueryDoesNotPassThoseBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sel := &holdTurn{selector.KV(), 77, make(chan struct{}), make(chan struct{})}
		var answered atomic.Bool
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), Selector: sel},
			sched.WithDecisionHook(func(d sched.Decision) {
				if d.Query && d.Kind == sched.DecisionAdmitted {
					answered.Store(true)
				}
			}))
		addWorkers(t, s, 3)
		ctx := withTimeout(t)
		on := func(worker uint64) *sched.RankID { return &sched.RankID{Worker: worker} }
		one := schedule(t, s, sched.Request{ID: "one", ISL: 10, Pin: on(1)})
		two := schedule(t, s, sched.Request{ID: "two", ISL: 10, Pin: on(2)})
		three := schedule(t, s, sched.Request{ID: "three", ISL: 10, Pin: on(3)})
		begin := func(f func()) { // until it has its ticket, and waits or is stopped
			go f()
			synctest.Wait()
		}
		first, query, third := make(chan *sched.Booking, 1), make(chan error, 1), make(chan *sched.Booking, 2)
		begin(func() {
			b, err := s.Schedule(ctx, &sched.Request{ID: "first", ISL: 10, Allowed: []uint64{1, 2}})
			assert.NoError(t, err)
			first <- b
		})
		require.NoError(t, three.Release())
		holder := func(id string) func() {
			return func() {
				b, err := s.Schedule(ctx, &sched.Request{ID: id, ISL: 77, NoPrefillTracking: true, Allowed: []uint64{3}})
				assert.NoError(t, err)
				third <- b
			}
		}
		begin(holder("has the turn"))
		<-sel.stopped
		begin(holder("has the next turn"))
		begin(func() {
			_, err := s.Query(ctx, &sched.Request{ID: "query", ISL: 10, Pin: on(1)})
			query <- err
		})
		sel.proceed <- struct{}{}
		<-sel.stopped // the query is behind, and the hints were drained
		require.NoError(t, one.Release())
		sel.proceed <- struct{}{}
		b := <-first
		require.EqualValues(t, 1, b.Placement().Rank.Worker)
		require.NoError(t, s.Settle(ctx))
		require.False(t, answered.Load(), "the query was answered with what the first got")
		require.NoError(t, b.Release())
		require.NoError(t, <-query)
		for range 2 {
			require.NoError(t, (<-third).Release())
		}
		require.NoError(t, two.Release())
		requireIdle(t, s)
	})
}

// Whoever looks for a backlog while another profile is adopted finds all of it or
// that it is not known yet; never a part, by which a never-queue request was
// refused or admitted.
func TestBacklogIsClassedAnewInOneStep(t *testing.T) {
	t.Parallel()
	const text = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 0}
  - {name: n, quantum: 1000, prefill_busy_threshold: 0%s}
`
	queues := policyOf(t, fmt.Sprintf(text, ""))
	never := policyOf(t, fmt.Sprintf(text, ", request_queue_limit_per_worker: 0"))
	s := newScheduler(t, sched.Config{Profile: queues})
	addWorkers(t, s, 1)
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
	ctx, cancel := context.WithCancel(t.Context())
	const backlog = 200
	var waiting sync.WaitGroup
	for i := range backlog {
		waiting.Go(func() {
			_, err := s.Schedule(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: 10, Class: "n"})
			assert.ErrorIs(t, err, sched.ErrCanceled)
		})
	}
	require.Eventually(t, func() bool { return s.Stats().Classes[1].Pending == backlog }, time.Minute, time.Millisecond)

	var looking sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// None while the counters still stand for the other profile.
				if n := s.Stats().Classes[1].Pending; n != 0 {
					assert.EqualValues(t, backlog, n)
				}
			}
		})
	}
	for range 100 {
		require.NoError(t, s.SetProfile(never))
		require.NoError(t, s.SetProfile(queues))
	}
	close(stop)
	looking.Wait()
	cancel()
	waiting.Wait()
	require.NoError(t, hold.Release())
	requireIdle(t, s)
}
