package sched_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

const halfBusy = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1, prefill_busy_threshold: 0, busy_worker_ratio: 0.5}
`

// Callers that race for the last ranks below the ratio do not each take what the
// others count as idle: as many are admitted as ranks may be busy, and no more.
func TestRatioIsNotOverrun(t *testing.T) {
	t.Parallel()
	const ranks, callers = 40, 8
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		s := under(t, halfBusy, ranks)
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range ranks {
					r := sched.Request{ID: strconv.Itoa(c) + "/" + strconv.Itoa(i), ISL: 100, DoNotQueue: true}
					switch _, err := s.Schedule(t.Context(), &r); {
					case err == nil:
						admitted.Add(1)
					case !errors.Is(err, sched.ErrWouldQueue):
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, ranks/2, admitted.Load())
		require.NoError(t, s.Close())
	}
}

// An admission with a ratio asks for no rank's lock but that of the rank it books on.
func TestRatioLocksNoOtherRank(t *testing.T) {
	t.Parallel()
	s := under(t, halfBusy, 40)
	unlock := sched.LockRank(s, sched.RankID{Worker: 40})
	b, err := s.Schedule(t.Context(), &sched.Request{ID: "a", ISL: 100, Prefer: &sched.RankID{Worker: 7}})
	unlock()
	require.NoError(t, err)
	require.NoError(t, b.Release())
}

// Another profile, and ranks that come, go and are overloaded, are counted.
func TestRatioFollowsThePool(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 20)
	ids := 0
	fill := func() (n int) {
		for range 50 {
			ids++
			_, err := s.Schedule(t.Context(), &sched.Request{ID: strconv.Itoa(ids), ISL: 100, DoNotQueue: true})
			if err != nil {
				require.ErrorIs(t, err, sched.ErrWouldQueue)
				return n
			}
			n++
		}
		return n
	}
	require.Equal(t, 50, fill(), "no ratio, no limit")
	require.NoError(t, s.SetProfile(policyOf(t, halfBusy)))
	require.Zero(t, fill(), "all are busy")
	addWorkers(t, s, 60) // 40 of them idle: 10 more may become busy
	require.Equal(t, 10, fill())
	require.NoError(t, s.SetOverloaded([]uint64{60}))
	require.Zero(t, fill())
	require.NoError(t, s.SetOverloaded(nil))
	for id := uint64(1); id <= 20; id++ {
		require.NoError(t, s.RemoveWorker(id))
	}
	require.Equal(t, 10, fill(), "20 of 40 may be busy, 10 are")
	require.NoError(t, s.SetProfile(policyOf(t, queueing)))
	require.NoError(t, s.Close())
}
