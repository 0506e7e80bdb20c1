package sched_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Selection and booking are one step: concurrent callers see each other's
// bookings, so equal ranks get equal shares, every time.
func TestConcurrentLeastLoadedSpreadsEvenly(t *testing.T) {
	t.Parallel()
	spread(t, selector.LeastLoaded(), 16, 1000)
}

// The same by way of the load index of a large pool.
func TestConcurrentSelectionByIndexSpreadsEvenly(t *testing.T) {
	t.Parallel()
	spread(t, selector.LeastLoaded(), 128, 200)
	spread(t, selector.KV(), 128, 200)
}

// spread has four times as many callers as there are ranks come at once.
func spread(t *testing.T, sel selector.Selector, ranks, repetitions int) {
	t.Helper()
	ctx := withTimeout(t)
	if testing.Short() {
		repetitions /= 10
	}
	s := newScheduler(t, sched.Config{Selector: sel})
	addWorkers(t, s, ranks)
	for rep := range repetitions {
		bookings := make([]*sched.Booking, 4*ranks)
		var wg sync.WaitGroup
		for i := range bookings {
			wg.Go(func() {
				var err error
				bookings[i], err = s.Schedule(ctx, &sched.Request{ID: fmt.Sprintf("%d-%d", rep, i), ISL: 100})
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		for _, l := range s.Loads() {
			require.EqualValues(t, 4, l.Requests, "repetition %d, rank %v", rep, l.Rank)
		}
		for _, b := range bookings {
			require.NoError(t, b.Release())
		}
	}
	requireIdle(t, s)
}

// With a threshold of 0 no rank ever gets a second prefill, and everyone runs.
func TestThresholdZeroNeverAdmitsASecondPrefill(t *testing.T) {
	t.Parallel()
	ctx := withTimeout(t)
	s := under(t, queueing, 16)
	var running [17]atomic.Int64
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() {
			b, err := s.Schedule(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: 100})
			if !assert.NoError(t, err) {
				return
			}
			rank := b.Placement().Rank.Worker
			assert.EqualValues(t, 1, running[rank].Add(1), "prefills on worker %d", rank)
			runtime.Gosched()
			running[rank].Add(-1)
			assert.NoError(t, b.Release())
		})
	}
	wg.Wait()
	requireIdle(t, s)
}

// A public peer with a limit of 100 let up to 1,000 of 1,000 concurrent arrivals
// through, because check and booking were two steps.
func TestLimitHoldsUnderABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(withTimeout(t))
		s := under(t, queueing, 100)
		admitted := make(chan *sched.Booking, 1000)
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				b, err := s.Schedule(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: 10})
				if err == nil {
					admitted <- b
				} else {
					assert.ErrorIs(t, err, sched.ErrCanceled)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, 900, inLine(s))
		require.Len(t, admitted, 100)
		require.EqualValues(t, 100, s.Stats().Live)
		cancel()
		wg.Wait()
		for range 100 {
			require.NoError(t, (<-admitted).Release())
		}
		requireIdle(t, s)
	})
}

// A public peer made a live request wait 0.8 s behind 1,000 cancelled ones. Here
// the release that follows grants it, in the releaser's own call.
func TestCancelledWaitersCostTheLiveOneNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		ctx := withTimeout(t)
		hold, err := s.Schedule(ctx, &sched.Request{ID: "hold", ISL: 10})
		require.NoError(t, err)

		doomed, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				_, err := s.Schedule(doomed, &sched.Request{ID: fmt.Sprint(i), ISL: 10})
				assert.ErrorIs(t, err, sched.ErrCanceled)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		live := make(chan *sched.Booking, 1)
		wg.Go(func() {
			b, err := s.Schedule(ctx, &sched.Request{ID: "live", ISL: 10})
			assert.NoError(t, err)
			live <- b
		})
		synctest.Wait()
		require.EqualValues(t, 1001, inLine(s))
		cancel()
		synctest.Wait()
		require.EqualValues(t, 1, s.Stats().Waiting)

		epochs := s.Stats().Epochs
		require.NoError(t, hold.Release())
		require.EqualValues(t, 1, s.Stats().Live, "the live one is booked when Release returns")
		require.LessOrEqual(t, s.Stats().Epochs-epochs, int64(2))
		require.NoError(t, (<-live).Release())
		wg.Wait()
		requireIdle(t, s)
	})
}

// Everything at once: whatever callers do, at the end nothing is left.
func TestStormLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"", queueing, mixed} {
		for _, sel := range []selector.Selector{selector.KV(), selector.RoundRobin(), selector.LeastLoaded(), selector.PowerOfTwo(), selector.Random()} {
			t.Run(fmt.Sprintf("%d bytes of policy/%T", len(profile), sel), func(t *testing.T) {
				t.Parallel()
				storm(t, profile, sel, 64, 300)
			})
		}
	}
}

func storm(t *testing.T, profile string, sel selector.Selector, callers, rounds int) {
	ctx := withTimeout(t)
	if testing.Short() {
		rounds /= 5
	}
	config := sched.Config{Selector: sel, BlockSize: 16}
	if profile != "" {
		config.Profile = policyOf(t, profile)
	}
	s := newScheduler(t, config)
	addWorkers(t, s, 8)
	classes := []string{"f", "never", "open", "half", ""}
	var callersDone sync.WaitGroup
	for c := range callers {
		callersDone.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(c), 1))
			for i := range rounds {
				id := fmt.Sprintf("%d-%d", c, i)
				r := sched.Request{ID: id, ISL: rnd.Int64N(200), Class: classes[rnd.IntN(len(classes))]}
				if rnd.IntN(2) == 0 {
					for b := range rnd.Uint64N(6) {
						r.Blocks = append(r.Blocks, b*uint64(rnd.IntN(2)+1))
					}
					r.Overlaps = []sched.Overlap{{Rank: sched.RankID{Worker: rnd.Uint64N(9)}, Device: 3}}
				}
				if rnd.IntN(8) == 0 {
					r.Pin = &sched.RankID{Worker: 1 + rnd.Uint64N(8)}
				}
				if rnd.IntN(8) == 0 {
					r.Excluded = []uint64{rnd.Uint64N(9)}
				}
				if rnd.IntN(8) == 0 {
					d := time.Duration(rnd.IntN(2_000_000))
					r.ExpectedPrefill = &d
				}
				if rnd.IntN(16) == 0 {
					r.Due = time.Now().Add(time.Duration(rnd.IntN(3_000_000)))
				}
				cctx, cancel := ctx, func() {}
				if rnd.IntN(8) == 0 {
					cctx, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(1_000_000)))
				}
				stormOne(cctx, t, s, &r, rnd)
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	var churnDone sync.WaitGroup
	churnDone.Go(func() {
		rnd := rand.New(rand.NewPCG(7, 7))
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
			id := 1 + rnd.Uint64N(8)
			switch rnd.IntN(6) {
			case 0:
				_ = s.RemoveWorker(id)
			case 1, 2:
				_ = s.UpsertWorker(sched.Worker{ID: id, Ranks: 1})
			case 3:
				_ = s.SetOverloaded([]uint64{id})
			case 4:
				if rnd.IntN(2) == 0 {
					_ = s.DrainWorker(id)
				} else {
					_ = s.UndrainWorker(id)
				}
			case 5:
				_ = s.SetOverloaded(nil)
			}
		}
	})
	callersDone.Wait()
	close(stop)
	churnDone.Wait()
	requireIdle(t, s)
	require.NoError(t, s.Close())
}

func stormOne(ctx context.Context, t *testing.T, s *sched.Scheduler, r *sched.Request, rnd *rand.Rand) {
	switch rnd.IntN(10) {
	case 0:
		_, _ = s.Select(ctx, r)
		return
	case 1:
		_, _ = s.Query(ctx, r)
		return
	}
	b, err := s.Schedule(ctx, r)
	if err != nil {
		var e *sched.Error
		assert.ErrorAs(t, err, &e)
		return
	}
	if rnd.IntN(4) == 0 {
		runtime.Gosched()
	}
	if rnd.IntN(3) == 0 {
		_ = b.PrefillDone()
	}
	if rnd.IntN(4) == 0 {
		_ = b.AddOutputBlock()
		_ = b.AddOutputBlockWithDecay(rnd.Float64())
	}
	if rnd.IntN(6) == 0 {
		_, _ = b.Transfer(sched.RankID{Worker: 1 + rnd.Uint64N(8)})
	}
	if rnd.IntN(6) == 0 {
		_, _ = s.Transfer(r.ID, 0, sched.RankID{Worker: 1 + rnd.Uint64N(8)})
	}
	err = b.Release()
	if errors.Is(err, sched.ErrStaleAttempt) {
		err = s.Release(r.ID, 0)
	}
	if err != nil && !errors.Is(err, sched.ErrUnchanged) && !errors.Is(err, sched.ErrNotFound) {
		assert.NoError(t, err)
	}
}
