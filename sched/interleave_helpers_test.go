package sched_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// The tests in interleave_*_test.go step in at a known point of a decision and have
// something else happen there: between the look at the ranks and the booking, where
// the prefill estimator is asked; in the middle of the look, where the clock is read;
// and wherever a rank's lock is needed. The files are named after what is raced with.

// steps are what happens when a request of that expected output length, which
// stands for its name, is about to be booked. Each happens once.
type steps struct {
	mu sync.Mutex
	at map[int64]func()
}

func (s *steps) on(osl int64, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = make(map[int64]func())
	}
	s.at[osl] = do
}

func (s *steps) estimate(w sched.PrefillWork) (time.Duration, bool) {
	s.mu.Lock()
	do := s.at[w.ExpectedOSL]
	delete(s.at, w.ExpectedOSL)
	s.mu.Unlock()
	if do != nil {
		do()
	}
	return 0, false
}

// stepped returns a scheduler whose ties go to the lowest worker, and its steps.
func stepped(t *testing.T, profile string, workers int, opts ...sched.Option) (*sched.Scheduler, *steps) {
	t.Helper()
	at := new(steps)
	config := sched.Config{Ties: selector.TiesLowest}
	if profile != "" {
		config.Profile = policyOf(t, profile)
	}
	s := newScheduler(t, config, append(opts, sched.WithPrefillEstimator(at.estimate))...)
	addWorkers(t, s, workers)
	return s, at
}

// hookedClock tells when it is read, once, on the goroutine that reads it.
type hookedClock struct {
	clock.Clock
	mu     sync.Mutex
	onRead func()
}

func (c *hookedClock) next(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRead = do
}

func (c *hookedClock) Now() time.Time {
	c.mu.Lock()
	do := c.onRead
	c.onRead = nil
	c.mu.Unlock()
	if do != nil {
		do()
	}
	return c.Clock.Now()
}

// caller is a request on a goroutine of its own.
type caller struct {
	done chan struct{}
	b    *sched.Booking
	err  error
}

func call(ctx context.Context, s *sched.Scheduler, r sched.Request) *caller {
	c := &caller{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.b, c.err = s.Schedule(ctx, &r)
	}()
	return c
}

// worker returns where the caller's request is, 0 if it is not.
func (c *caller) worker() uint64 {
	select {
	case <-c.done:
		if c.b != nil {
			return c.b.Placement().Rank.Worker
		}
	default:
	}
	return 0
}

func (c *caller) release(t *testing.T) {
	t.Helper()
	<-c.done
	require.NoError(t, c.err)
	require.NoError(t, c.b.Release())
}

func pin(worker uint64) *sched.RankID { return &sched.RankID{Worker: worker} }

// withoutGates is mixed without thresholds.
const withoutGates = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000}
  - {name: never, quantum: 500}
`

// blocked gives a goroutine time to come to a lock that the test holds. If it is
// late the test proves nothing, but does not fail.
func blocked() { time.Sleep(20 * time.Millisecond) }
