package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

var noon = time.Date(2025, time.January, 1, 12, 0, 0, 0, time.UTC)

func TestABookingFromBeginningToEnd(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		ctx := testkit.WithTimeout(t)
		var told []sched.Decision
		config.Ties = selector.TiesLowest
		config.OnDecision = func(d sched.Decision) {
			told = append(told, d)
			panic("the hook fails")
		}
		e := start(t, config, "", 2)
		first := &sched.Request{ID: "a", ISL: 64, Blocks: []uint64{1, 2, 3, 4}}
		b, err := e.Schedule(ctx, first)
		require.NoError(t, err)
		p := b.Placement()
		require.Equal(t, sched.RankID{Worker: 1}, p.Rank)
		require.Equal(t, "host-1", p.Endpoint)
		require.EqualValues(t, 1, p.Attempt)

		// Three of its four blocks live on the first rank, and the other is idle.
		second := &sched.Request{ID: "b", ISL: 64, Blocks: []uint64{1, 2, 3, 5}, NoPrefillTracking: true}
		p, err = e.Select(ctx, second)
		require.NoError(t, err)
		require.Equal(t, sched.RankID{Worker: 2}, p.Rank)
		second.Pin = &sched.RankID{Worker: 1}
		p, err = e.Query(ctx, second)
		require.NoError(t, err)
		require.EqualValues(t, 5, p.PotentialDecodeBlocks)
		require.Zero(t, p.Attempt)

		_, err = e.Schedule(ctx, first)
		require.ErrorIs(t, err, sched.ErrDuplicate)
		require.NoError(t, b.PrefillDone())
		require.ErrorIs(t, b.PrefillDone(), sched.ErrUnchanged)
		require.NoError(t, b.AddOutputBlock())
		require.NoError(t, e.AddOutputBlockWithDecay("a", p.Attempt, 0.5))
		require.ErrorIs(t, b.AddOutputBlockWithDecay(2), sched.ErrInvalid)
		p, err = b.Transfer(sched.RankID{Worker: 2})
		require.NoError(t, err)
		require.Equal(t, p, b.Placement())
		require.ErrorIs(t, e.Touch("a", 1), sched.ErrStaleAttempt)
		require.NoError(t, e.Touch("a", p.Attempt))
		require.Equal(t, []sched.RankLoad{
			{Rank: sched.RankID{Worker: 1}}, {Rank: sched.RankID{Worker: 2}, Blocks: 5, Requests: 1},
		}, e.Loads())
		require.NoError(t, b.Release())
		require.ErrorIs(t, b.Release(), sched.ErrUnchanged)
		require.ErrorIs(t, e.Release("a", 0), sched.ErrNotFound)

		b, err = e.Schedule(ctx, first)
		require.NoError(t, err)
		require.NoError(t, e.RemoveWorker(b.Placement().Rank.Worker))
		<-b.Done()
		testkit.RequireIdle(t, e)
		stats := e.Stats()
		require.EqualValues(t, 2, stats.Admitted)
		require.EqualValues(t, 1, stats.Queries)
		require.EqualValues(t, 1, stats.Dropped)
		require.Equal(t, map[string]int64{"duplicate": 1}, stats.Rejected)
		require.Len(t, told, 4)
		require.Equal(t, sched.DecisionRejected, told[2].Kind)
	})
}

func TestLifecycleOutlivesClose(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		ctx := testkit.WithTimeout(t)
		manual := clock.NewManual(noon)
		config.Clock, config.BookingTTL = manual, time.Second
		e := start(t, config, queueing, 2)
		first, err := e.Schedule(ctx, &sched.Request{ID: "a", ISL: 1})
		require.NoError(t, err)
		second, err := e.Schedule(ctx, &sched.Request{ID: "b", ISL: 1})
		require.NoError(t, err)
		failed := make(chan error)
		go func() {
			_, err := e.Schedule(ctx, &sched.Request{ID: "c", ISL: 1})
			failed <- err
		}()
		require.Eventually(t, func() bool { return e.Stats().Classes[0].Pending == 1 }, time.Minute, time.Millisecond)
		require.NoError(t, e.Close())
		require.ErrorIs(t, <-failed, sched.ErrClosed)

		_, err = e.Schedule(ctx, &sched.Request{ID: "d"})
		require.ErrorIs(t, err, sched.ErrClosed)
		_, err = e.Select(ctx, &sched.Request{})
		require.ErrorIs(t, err, sched.ErrClosed)
		require.NoError(t, e.Recheck(ctx))
		require.NoError(t, first.PrefillDone())
		_, err = first.Transfer(second.Placement().Rank)
		require.NoError(t, err)
		manual.Advance(500 * time.Millisecond)
		require.NoError(t, first.Touch())
		manual.Advance(500 * time.Millisecond)
		<-second.Done()
		require.EqualValues(t, 1, e.Stats().Expired)
		require.NoError(t, first.Release())
		_, pending := manual.Next()
		require.False(t, pending)
		testkit.RequireIdle(t, e)
		require.Equal(t, map[string]int64{"closed": 2}, e.Stats().Rejected)
		require.NoError(t, e.Close())
	})
}

// There is a timer only while somebody waits for it.
func TestTimersComeAndGo(t *testing.T) {
	eachForm(t, func(t *testing.T, config actor.Config) {
		ctx := testkit.WithTimeout(t)
		manual := clock.NewManual(noon)
		config.Clock = manual
		e := start(t, config, queueing, 1)
		timer := func() bool {
			require.NoError(t, e.Settle(ctx))
			_, pending := manual.Next()
			return pending
		}
		takes := 10 * time.Second
		first, err := e.Schedule(ctx, &sched.Request{ID: "a", ISL: 10, ExpectedPrefill: &takes})
		require.NoError(t, err)
		require.False(t, timer())

		waiter, leave := context.WithCancel(ctx)
		outcome := make(chan error)
		go func() {
			_, err := e.Schedule(waiter, &sched.Request{ID: "b", ISL: 10})
			outcome <- err
		}()
		require.Eventually(t, timer, time.Minute, time.Millisecond)
		leave()
		require.ErrorIs(t, <-outcome, context.Canceled)
		require.False(t, timer())

		go func() {
			_, err := e.Schedule(ctx, &sched.Request{ID: "b", ISL: 10, Due: noon.Add(time.Second)})
			outcome <- err
		}()
		require.Eventually(t, timer, time.Minute, time.Millisecond)
		manual.Advance(time.Second)
		require.ErrorIs(t, <-outcome, sched.ErrDeadline)

		go func() {
			b, err := e.Schedule(ctx, &sched.Request{ID: "b", ISL: 10})
			if err == nil {
				err = b.Release()
			}
			outcome <- err
		}()
		require.Eventually(t, timer, time.Minute, time.Millisecond)
		manual.Advance(9 * time.Second) // the prefill is taken to be done
		require.NoError(t, <-outcome)
		require.NoError(t, first.Release())
		require.False(t, timer())
		testkit.RequireIdle(t, e)
	})
}

func TestConfigFaults(t *testing.T) {
	good := sched.Config{BlockSize: 1}
	refresh, reclaim := good, good
	refresh.RefreshAfter, reclaim.ReclaimLeaked = time.Second, true
	for _, config := range []actor.Config{
		{}, {Config: refresh}, {Config: reclaim}, {Config: good, Buffer: -1},
	} {
		_, err := actor.New(config)
		require.ErrorIs(t, err, sched.ErrInvalid)
	}
}
