// Package testkit has what the tests of several packages and modules share: policies
// with one purpose each, workers, and what must hold of an engine that is at rest. Only
// tests import it.
//
// It needs nothing that an embedder does not get as well: its functions end a test
// themselves.
package testkit

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// Queueing is a policy of one class whose ranks are busy with any prefill.
const Queueing = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 0}
`

// Mixed has a class that queues, one that never does, one without a threshold and
// one whose gate depends on several ranks.
const Mixed = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 100}
  - {name: never, quantum: 500, prefill_busy_threshold: 300, request_queue_limit_per_worker: 0}
  - {name: open, quantum: 500}
  - {name: half, quantum: 700, prefill_busy_threshold: 0, busy_worker_ratio: 0.5}
`

// Policy reads a policy.
func Policy(t testing.TB, text string) *policy.File {
	t.Helper()
	file, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Profile reads a policy and returns the profile for models without one of their own.
func Profile(t testing.TB, text string) *policy.Profile {
	t.Helper()
	return Policy(t, text).For("")
}

// Workers returns n workers of one rank, numbered from 1.
func Workers(n int) []sched.Worker {
	workers := make([]sched.Worker, n)
	for i := range workers {
		workers[i] = sched.Worker{ID: uint64(i + 1), Ranks: 1, Endpoint: fmt.Sprintf("host-%d", i+1)}
	}
	return workers
}

// Scheduler returns a scheduler before n of these workers.
func Scheduler(t testing.TB, config sched.Config, n int, opts ...sched.Option) *sched.Scheduler {
	t.Helper()
	if config.BlockSize == 0 {
		config.BlockSize = 16
	}
	s, err := sched.New(config, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetWorkers(Workers(n)); err != nil {
		t.Fatal(err)
	}
	return s
}

// WithTimeout bounds a test that would otherwise hang on a lost wake-up.
func WithTimeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// HeapInUse returns how many bytes are in use after a collection.
func HeapInUse() int64 {
	runtime.GC()
	runtime.GC() // the first one ends what was under way
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Engine is a scheduler or what is compared with it.
type Engine interface {
	Settle(ctx context.Context) error
	Stats() sched.Stats
	Loads() []sched.RankLoad
}

// InLine counts the requests that have their place in line. Stats.Waiting may be
// ahead of it.
func InLine(e Engine) (n int64) {
	for _, class := range e.Stats().Classes {
		n += class.Pending
	}
	return n
}

// UntilQueued returns when n requests stand in line, each in its place, and no goroutine
// has the turn.
func UntilQueued(t testing.TB, e Engine, n int64) {
	t.Helper()
	for ctx := WithTimeout(t); InLine(e) != n; {
		if ctx.Err() != nil {
			t.Fatalf("%d requests stand in line, not %d", InLine(e), n)
		}
		time.Sleep(100 * time.Microsecond)
	}
	settle(t, e)
}

// RequireIdle ends the test unless nothing waits and nothing loads a rank.
func RequireIdle(t testing.TB, e Engine) {
	t.Helper()
	settle(t, e)
	stats := e.Stats()
	if stats.Waiting != 0 || stats.Live != 0 {
		t.Fatalf("%d requests wait and %d are live", stats.Waiting, stats.Live)
	}
	for _, c := range stats.Classes {
		if c.Pending != 0 || c.Tokens != 0 || c.Cached != 0 {
			t.Fatalf("%+v", c)
		}
	}
	for _, l := range e.Loads() {
		if l.PrefillTokens != 0 || l.Blocks != 0 || l.Requests != 0 {
			t.Fatalf("%+v", l)
		}
	}
}

func settle(t testing.TB, e Engine) {
	t.Helper()
	if err := e.Settle(WithTimeout(t)); err != nil {
		t.Fatal(err)
	}
}
