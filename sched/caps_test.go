package sched_test

import (
	"context"
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
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// capped has classes that choose from idle ranks with 3 requests on each.
const capped = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, max_requests_per_rank: 3, choose_from: idle}
  - {name: tokens, quantum: 1000, prefill_busy_threshold: 50, max_requests_per_rank: 3, choose_from: idle}
  - {name: half, quantum: 1000, max_requests_per_rank: 3, choose_from: idle, busy_worker_ratio: 0.5}
  - {name: never, quantum: 1000, max_requests_per_rank: 3, choose_from: idle, request_queue_limit_per_worker: 0}
`

// With choose_from: idle and max_requests_per_rank on every class no rank ever has
// more, whatever comes and goes: arrivals of all classes, preferences, caches that
// draw requests to one rank, overlaps that are looked up again, callers that leave.
func TestNoRankEverHasMoreThanTheCap(t *testing.T) {
	t.Parallel()
	const ranks, most, callers = 5, 3, 24
	rounds := hammerRounds() / 2
	s := newScheduler(
		t, sched.Config{Profile: policyOf(t, capped), RefreshAfter: time.Nanosecond},
		sched.WithOverlapRefresher(func(_ context.Context, blocks []uint64) ([]sched.Overlap, error) {
			runtime.Gosched()
			return []sched.Overlap{{Rank: sched.RankID{Worker: blocks[0]%ranks + 1}, Device: 4}}, nil
		}),
	)
	addWorkers(t, s, ranks)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	highest, full := int64(0), 0
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			for _, l := range s.Loads() {
				if highest = max(highest, l.Requests); l.Requests == most {
					full++
				}
			}
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	var moved, refused atomic.Int64
	for caller := range callers {
		rnd := rand.New(rand.NewPCG(uint64(caller), 8))
		wg.Go(func() {
			for round := range rounds {
				r := sched.Request{
					ID: fmt.Sprint(caller, "/", round), ISL: rnd.Int64N(100), Blocks: []uint64{1 + rnd.Uint64N(20)},
					Class:    []string{"f", "tokens", "half", "never"}[rnd.IntN(4)],
					Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 5}},
				}
				if rnd.IntN(3) == 0 {
					r.Prefer = &sched.RankID{Worker: 1 + rnd.Uint64N(ranks)}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rnd.IntN(5))*time.Millisecond)
				b, err := s.Schedule(ctx, &r)
				if err != nil {
					refused.Add(1)
					cancel()
					continue
				}
				if b.Attempt() > 1 {
					moved.Add(1)
				}
				for range rnd.IntN(8) {
					runtime.Gosched()
				}
				if rnd.IntN(2) == 0 {
					_ = b.PrefillDone()
				}
				assert.NoError(t, b.Release())
				cancel()
			}
		})
	}
	wg.Wait()
	close(stop)
	<-watched
	require.LessOrEqual(t, highest, int64(most))
	require.Positive(t, full, "no rank was ever full")
	require.Positive(t, moved.Load(), "no booking was moved")
	require.Positive(t, refused.Load(), "no caller left")
	requireIdle(t, s)
}

// What lowers requests or blocks lets those go on that wait for it.
func TestWhatFreesACap(t *testing.T) {
	t.Parallel()
	const kv = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, kv_busy_threshold_frac: 0.5}
`
	for name, tt := range map[string]struct {
		policy string
		frees  func(t *testing.T, s *sched.Scheduler)
	}{
		"requests, a release":  {capped, func(t *testing.T, s *sched.Scheduler) { require.NoError(t, s.Release("a", 0)) }},
		"requests, a transfer": {capped, moveAway},
		"requests, an expiry":  {capped, func(*testing.T, *sched.Scheduler) { time.Sleep(2 * time.Minute) }},
		"requests, a profile": {capped, func(t *testing.T, s *sched.Scheduler) {
			require.NoError(t, s.SetProfile(policyOf(t, queueing)))
		}},
		"blocks, a release":  {kv, func(t *testing.T, s *sched.Scheduler) { require.NoError(t, s.Release("a", 0)) }},
		"blocks, a transfer": {kv, moveAway},
		"blocks, a decay":    {kv, func(t *testing.T, s *sched.Scheduler) { require.NoError(t, s.AddOutputBlockWithDecay("a", 0, 0)) }},
		"blocks, more of them": {kv, func(t *testing.T, s *sched.Scheduler) {
			require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, TotalKVBlocks: 40}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScheduler(t, sched.Config{Profile: policyOf(t, tt.policy), BookingTTL: time.Minute})
				require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, TotalKVBlocks: 10}))
				for i, id := range []string{"a", "b", "c"} {
					b := schedule(t, s, sched.Request{ID: id, ISL: 10, NoPrefillTracking: true, Blocks: []uint64{10 * uint64(i), 10*uint64(i) + 1}})
					require.NoError(t, b.Touch())
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				done := make(chan error, 1)
				go func() {
					_, err := s.Schedule(ctx, &sched.Request{ID: "waits", ISL: 10, Pin: &sched.RankID{Worker: 1}})
					done <- err
				}()
				synctest.Wait()
				require.EqualValues(t, 1, s.Stats().Waiting)
				tt.frees(t, s)
				synctest.Wait()
				select {
				case err := <-done:
					require.NoError(t, err)
				default:
					t.Fatal("it waits still")
				}
				require.NoError(t, s.Close())
			})
		})
	}
}

func moveAway(t *testing.T, s *sched.Scheduler) {
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1}))
	_, err := s.Transfer("a", 0, sched.RankID{Worker: 2})
	require.NoError(t, err)
}

// Explain says why an eligible rank is not chosen, and with what load a rank is busy.
func TestExplainCaps(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{Profile: policyOf(t, capped)}, sched.WithClock(clock.NewManual(time.Unix(0, 0))))
	addWorkers(t, s, 2)
	for i := range 3 {
		schedule(t, s, sched.Request{ID: fmt.Sprint(i), ISL: 10, Prefer: &sched.RankID{Worker: 1}})
	}
	r := &sched.Request{ID: "r", ISL: 10, Prefer: &sched.RankID{Worker: 1}}
	e, err := s.Explain(r)
	require.NoError(t, err)
	require.Equal(t, sched.OutcomeAdmitted, e.Outcome)
	require.Equal(t, sched.RankID{Worker: 2}, *e.Rank)
	require.True(t, e.Ranks[0].Eligible)
	require.Equal(t, "busy for the class, which chooses from idle ranks", e.Ranks[0].Barred)
	require.Empty(t, e.Ranks[1].Barred)
	require.Contains(t, e.String(), "not chosen: busy for the class")
	require.Equal(t, sched.ClassBusy{Class: "f", Above: sched.NoThreshold, MaxRequests: 3, Busy: true}, e.Ranks[0].Busy[0])
	require.Equal(t, sched.ClassBusy{Class: "tokens", Above: 50, MaxRequests: 3}, e.Ranks[1].Busy[1])
	p, err := s.Select(t.Context(), r)
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Rank.Worker, "advisory selection knows no class")
	q, err := s.Query(t.Context(), r)
	require.NoError(t, err)
	require.EqualValues(t, 2, q.Rank.Worker)
}
