package sched_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// What a hostile review has found, made small.

// An arrival that is served must not hide that a race was lost for another: the
// turn is not over then.
func TestArrivalServedLeavesALostRaceToBeRunAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &lateClock{now: time.Now()}
		var s *sched.Scheduler
		stage := 0
		sel := pickFunc(func(in *selector.Input) (selector.Pick, error) {
			rank := in.Candidates[0].Rank.Worker
			switch {
			case stage == 1 && rank == 1: // for the arrival: its race is lost, as the instant passes
				stage = 2
				c.move(200 * time.Millisecond)
			case stage == 2 && rank == 2: // for the one that waits: the rank's version moves
				stage = 3
				if err := s.AddOutputBlock("hold2", 0); err != nil {
					t.Error(err)
				}
			}
			return selector.Pick{}, nil
		})
		s = newScheduler(t, sched.Config{Profile: policyOf(t, queueing), Selector: sel}, sched.WithClock(c))
		addWorkers(t, s, 2)
		d := 10 * time.Second
		schedule(t, s, sched.Request{ID: "hold2", ISL: 10, Allowed: []uint64{2}, ExpectedPrefill: &d})
		got := make(chan error, 1)
		go func() {
			_, err := s.Schedule(withTimeout(t), &sched.Request{ID: "x", ISL: 10, Allowed: []uint64{2}})
			got <- err
		}()
		synctest.Wait()
		c.move(9900 * time.Millisecond)
		stage = 1
		schedule(t, s, sched.Request{ID: "j", ISL: 10, Allowed: []uint64{1}, Priority: 1})
		c.fire()
		require.NoError(t, <-got, "rank 2 is idle since %v", c.Now())
	})
}

// The choice with fresh overlaps takes the rank the booking is on as it would be
// without the booking, in a large pool too.
func TestOverlapRefreshInALargePool(t *testing.T) {
	t.Parallel()
	for _, n := range []int{8, 128} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newScheduler(t, sched.Config{Profile: policyOf(t, `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 50}
`), RefreshAfter: time.Nanosecond},
				sched.WithOverlapRefresher(func(context.Context, []uint64) ([]sched.Overlap, error) { return nil, nil }))
			addWorkers(t, s, n)
			var hold *sched.Booking
			for i := 1; i <= n; i++ {
				b := schedule(t, s, sched.Request{ID: fmt.Sprint("hold", i), ISL: 60, Blocks: []uint64{1}, Pin: &sched.RankID{Worker: uint64(i)}})
				if i == 7 {
					hold = b
				}
			}
			got := make(chan *sched.Booking, 1)
			go func() {
				b, err := s.Schedule(t.Context(), &sched.Request{ID: "w", ISL: 1000, Blocks: []uint64{1}})
				if err != nil {
					t.Error(err)
				}
				got <- b
			}()
			untilQueued(t, s, 1)
			require.NoError(t, hold.PrefillDone())
			b := <-got
			require.EqualValues(t, 7, b.Placement().Rank.Worker, "rank 7 is empty but for this booking, the others hold 60 tokens; attempt %d", b.Attempt())
		})
	}
}

// lateClock moves when told to, and its timers fire only when told to: late.
type lateClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*lateTimer
}

type lateTimer struct {
	clock   *lateClock
	at      time.Time
	run     func()
	stopped bool
}

func (c *lateClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *lateClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &lateTimer{clock: c, at: c.now.Add(max(d, 0)), run: f}
	c.timers = append(c.timers, t)
	return t
}

func (t *lateTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := !t.stopped
	t.stopped = true
	return was
}

func (c *lateClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fire runs the timers that are due and were not stopped.
func (c *lateClock) fire() {
	c.mu.Lock()
	var due []*lateTimer
	for _, t := range c.timers {
		if !t.stopped && !t.at.After(c.now) {
			t.stopped = true
			due = append(due, t)
		}
	}
	c.mu.Unlock()
	for _, t := range due {
		t.run()
	}
}

// A caller whose context ends while it loses races on the fast path stops there.
func TestContextEndsWhileRacesAreLost(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var s *sched.Scheduler
	picks := 0
	s = newScheduler(t, sched.Config{Selector: pickFunc(func(*selector.Input) (selector.Pick, error) {
		if picks++; picks == 3 {
			cancel()
		}
		if picks < 100 {
			if err := s.SetOverloaded(nil); err != nil { // another world: the race is lost
				t.Error(err)
			}
		}
		return selector.Pick{}, nil
	})})
	addWorkers(t, s, 2)
	_, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 10})
	require.ErrorIs(t, err, sched.ErrCanceled)
	require.Equal(t, 3, picks)
	require.EqualValues(t, 3, s.Stats().Retries)
	requireIdle(t, s)
}
