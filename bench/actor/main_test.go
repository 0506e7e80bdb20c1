package actor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queueing is a profile of one class whose ranks are busy with any prefill.
const queueing = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 0}
`

// mixed has a class that queues, one that never does, one without a threshold and
// one whose gate depends on several ranks.
const mixed = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 100}
  - {name: never, quantum: 500, prefill_busy_threshold: 300, request_queue_limit_per_worker: 0}
  - {name: open, quantum: 500}
  - {name: half, quantum: 700, prefill_busy_threshold: 0, busy_worker_ratio: 0.5}
`

// eachForm runs a test on both forms, with and without the index.
func eachForm(t *testing.T, test func(t *testing.T, config actor.Config)) {
	for _, form := range []struct {
		name          string
		direct, index bool
	}{
		{"actor", false, false},
		{"actor-index", false, true},
		{"actor-direct", true, false},
		{"actor-direct-index", true, true},
	} {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			test(t, actor.Config{Config: sched.Config{BlockSize: 16}, Direct: form.direct, Index: form.index})
		})
	}
}

// start returns an engine with that many workers of one rank.
func start(t testing.TB, config actor.Config, profile string, workers int) *actor.Engine {
	t.Helper()
	if profile != "" {
		file, err := policy.Parse([]byte(profile))
		require.NoError(t, err)
		config.Policy = file
	}
	e, err := actor.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	list := make([]sched.Worker, workers)
	for i := range list {
		list[i] = sched.Worker{ID: uint64(i + 1), Ranks: 1, Endpoint: fmt.Sprintf("host-%d", i+1)}
	}
	require.NoError(t, e.SetWorkers(list))
	return e
}

// withTimeout bounds a test that would otherwise hang on a lost wake-up.
func withTimeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func requireIdle(t testing.TB, e *actor.Engine) {
	t.Helper()
	require.NoError(t, e.Settle(withTimeout(t)))
	stats := e.Stats()
	require.Zero(t, stats.Waiting)
	require.Zero(t, stats.Live)
	for _, c := range stats.Classes {
		require.Zero(t, c.Pending, c.Name)
		require.Zero(t, c.Tokens, c.Name)
		require.Zero(t, c.Cached, c.Name)
	}
	for _, l := range e.Loads() {
		require.Zero(t, l.PrefillTokens, l.Rank)
		require.Zero(t, l.Blocks, l.Rank)
		require.Zero(t, l.Requests, l.Rank)
	}
}
