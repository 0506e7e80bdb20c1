package sched_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

const (
	queueing = testkit.Queueing
	mixed    = testkit.Mixed
)

func policyOf(t testing.TB, text string) *policy.Profile {
	t.Helper()
	return testkit.Profile(t, text)
}

func newScheduler(t testing.TB, config sched.Config, opts ...sched.Option) *sched.Scheduler {
	t.Helper()
	return testkit.Scheduler(t, config, 0, opts...)
}

// under returns a scheduler with a policy before so many workers of one rank.
func under(t testing.TB, text string, workers int) *sched.Scheduler {
	t.Helper()
	return testkit.Scheduler(t, sched.Config{Profile: policyOf(t, text)}, workers)
}

func addWorkers(t testing.TB, s *sched.Scheduler, n int) {
	t.Helper()
	require.NoError(t, s.SetWorkers(testkit.Workers(n)))
}

func withTimeout(t testing.TB) context.Context {
	t.Helper()
	return testkit.WithTimeout(t)
}

func untilQueued(t testing.TB, s *sched.Scheduler, n int64) {
	t.Helper()
	testkit.UntilQueued(t, s, n)
}

func requireIdle(t testing.TB, s *sched.Scheduler) {
	t.Helper()
	testkit.RequireIdle(t, s)
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
