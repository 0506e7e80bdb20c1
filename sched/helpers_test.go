package sched_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// queueing is a profile of one class whose ranks are busy with any prefill.
const queueing = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 0}
`

// mixed has a class that queues, one that never does and one without a threshold.
const mixed = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 100}
  - {name: never, quantum: 500, prefill_busy_threshold: 300, request_queue_limit_per_worker: 0}
  - {name: open, quantum: 500}
  - {name: half, quantum: 700, prefill_busy_threshold: 0, busy_worker_ratio: 0.5}
`

func policyOf(t testing.TB, text string) *policy.Profile {
	t.Helper()
	file, err := policy.Parse([]byte(text))
	require.NoError(t, err)
	return file.For("")
}

func newScheduler(t testing.TB, config sched.Config, opts ...sched.Option) *sched.Scheduler {
	t.Helper()
	if config.BlockSize == 0 {
		config.BlockSize = 16
	}
	s, err := sched.New(config, opts...)
	require.NoError(t, err)
	return s
}

func addWorkers(t testing.TB, s *sched.Scheduler, n int) {
	t.Helper()
	workers := make([]sched.Worker, n)
	for i := range workers {
		workers[i] = sched.Worker{ID: uint64(i + 1), Ranks: 1, Endpoint: fmt.Sprintf("host-%d", i+1)}
	}
	require.NoError(t, s.SetWorkers(workers))
}

// withTimeout bounds a test that would otherwise hang on a lost wake-up.
func withTimeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// untilQueued returns when n requests stand in line, each in its place, and
// nobody has the turn.
func untilQueued(t testing.TB, s *sched.Scheduler, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return inLine(s) == n }, time.Minute, time.Millisecond)
	require.NoError(t, s.Settle(withTimeout(t)))
}

func requireIdle(t testing.TB, s *sched.Scheduler) {
	t.Helper()
	require.NoError(t, s.Settle(withTimeout(t)))
	stats := s.Stats()
	require.Zero(t, stats.Waiting)
	require.Zero(t, stats.Live)
	for _, c := range stats.Classes {
		require.Zero(t, c.Pending, c.Name)
		require.Zero(t, c.Tokens, c.Name)
		require.Zero(t, c.Cached, c.Name)
	}
	for _, l := range s.Loads() {
		require.Zero(t, l.PrefillTokens, l.Rank)
		require.Zero(t, l.Blocks, l.Rank)
		require.Zero(t, l.Requests, l.Rank)
	}
	require.NoError(t, sched.CheckConsistency(s))
}

// countingClock counts how often it is read; for one goroutine.
type countingClock struct {
	clock.Clock
	reads int
}

func (c *countingClock) Now() time.Time {
	c.reads++
	return time.Now()
}
