package sched_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

func withManualClock(config sched.Config) (*sched.Scheduler, *clock.Manual) {
	manual := clock.NewManual(time.Unix(0, 0))
	s, err := sched.New(config, sched.WithClock(manual))
	if err != nil {
		panic(err)
	}
	return s, manual
}

// A simulation gives the scheduler its own clock and moves it.
func ExampleWithClock() {
	manual := clock.NewManual(time.Unix(0, 0))
	s, _ := sched.New(sched.Config{BlockSize: 16, BookingTTL: time.Minute}, sched.WithClock(manual))
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	b, _ := s.Schedule(context.Background(), &sched.Request{ID: "silent", ISL: 100})
	manual.Advance(2 * time.Minute)
	<-b.Done()
	fmt.Println(b.Err())
	// Output: expired
}

// With a rate of prefill known, the load of a prompt goes down as time passes,
// before its first token tells. The estimator is told what is to be computed.
func ExampleWithPrefillEstimator() {
	const tokensPerSecond = 10_000
	manual := clock.NewManual(time.Unix(0, 0))
	s, _ := sched.New(sched.Config{BlockSize: 16}, sched.WithClock(manual),
		sched.WithPrefillEstimator(func(w sched.PrefillWork) (time.Duration, bool) {
			return time.Duration(w.Tokens) * time.Second / tokensPerSecond, true
		}))
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	booked(s, &sched.Request{ID: "r", ISL: 5000})
	for range 3 {
		fmt.Println(s.Loads()[0].PrefillTokens)
		manual.Advance(250 * time.Millisecond)
	}
	// Output:
	// 5000
	// 2500
	// 0
}

// A request that waited long has its cache overlap looked up again before its
// owner is told, since the caches have moved on.
func ExampleWithOverlapRefresher() {
	manual := clock.NewManual(time.Unix(0, 0))
	lookUp := func(_ context.Context, blocks []uint64) ([]sched.Overlap, error) {
		return []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: float64(len(blocks))}}, nil
	}
	s, _ := sched.New(
		sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime), RefreshAfter: time.Second},
		sched.WithClock(manual), sched.WithOverlapRefresher(lookUp))
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	running := booked(s, &sched.Request{ID: "running", ISL: 64})

	admitted := make(chan *sched.Booking)
	go func() { admitted <- booked(s, &sched.Request{ID: "r", ISL: 64, Blocks: []uint64{1, 2, 3}}) }()
	untilWaiting(s, 1)
	manual.Advance(2 * time.Second)
	_ = running.Release()
	fmt.Println((<-admitted).Placement().CachedTokens, "tokens cached")
	// Output: 48 tokens cached
}

// TestADeadlinePassesInTheBubble shows how an embedder tests waiting: within
// testing/synctest the system clock and the contexts are the bubble's, so nothing
// takes time and nothing is left to chance.
func TestADeadlinePassesInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime), Ties: selector.TiesLowest})
		require.NoError(t, err)
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
		running, err := s.Schedule(t.Context(), &sched.Request{ID: "running", ISL: 100})
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start := time.Now()
		_, err = s.Schedule(ctx, &sched.Request{ID: "waits", ISL: 100})
		require.ErrorIs(t, err, sched.ErrDeadline)
		require.Equal(t, 30*time.Second, time.Since(start))
		require.Zero(t, s.Stats().Waiting)
		require.NoError(t, running.Release())
	})
}
