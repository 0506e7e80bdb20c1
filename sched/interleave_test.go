package sched_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// The tests below step in at a known point of a decision and have something else
// happen there: between the look at the ranks and the booking, where the prefill
// estimator is asked; in the middle of the look, where the clock is read; and
// wherever a rank's lock is needed.

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

// A decision made in one world does not stand in another.
func TestWorldThatChangesBeforeTheBooking(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*sched.Scheduler) error
		want   error
	}{
		{"overloaded", func(s *sched.Scheduler) error { return s.SetOverloaded([]uint64{1}) }, nil},
		{"not available", func(s *sched.Scheduler) error { return s.SetAvailable([]uint64{2}) }, nil},
		{"removed", func(s *sched.Scheduler) error { return s.RemoveWorker(1) }, nil},
		{"another selector", func(s *sched.Scheduler) error {
			return s.SetSelector(pickFunc(func(*selector.Input) (selector.Pick, error) { return selector.Pick{Index: 1}, nil }))
		}, nil},
		{"closed", (*sched.Scheduler).Close, sched.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, at := stepped(t, queueing, 2)
			at.on(1, func() { require.NoError(t, tt.change(s)) })
			b, err := s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10, ExpectedOSL: 1})
			require.ErrorIs(t, err, tt.want)
			if tt.want == nil {
				require.EqualValues(t, 2, b.Placement().Rank.Worker)
				require.NoError(t, b.Err())
				require.NoError(t, b.Release())
			}
			requireIdle(t, s)
		})
	}
}

// The gate has a witness under its own lock, whatever the look saw.
func TestWitnessIsGoneBeforeTheBooking(t *testing.T) {
	t.Parallel()
	t.Run("the chosen rank", func(t *testing.T) {
		t.Parallel()
		s, at := stepped(t, queueing, 1)
		var other *sched.Booking
		at.on(1, func() { other = schedule(t, s, sched.Request{ID: "other", ISL: 10}) })
		_, err := s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10, ExpectedOSL: 1, DoNotQueue: true})
		require.ErrorIs(t, err, sched.ErrWouldQueue)
		require.NoError(t, other.Release())
		requireIdle(t, s)
	})
	t.Run("another rank", func(t *testing.T) {
		t.Parallel()
		s, at := stepped(t, queueing, 2)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10, Pin: pin(1)})
		var other *sched.Booking
		at.on(1, func() { other = schedule(t, s, sched.Request{ID: "other", ISL: 10, Pin: pin(2)}) })
		_, err := s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10, ExpectedOSL: 1, Prefer: pin(1), DoNotQueue: true})
		require.ErrorIs(t, err, sched.ErrWouldQueue)
		require.NoError(t, other.Release())
		require.NoError(t, hold.Release())
		requireIdle(t, s)
	})
}

// With a ratio the gate depends on all ranks, and is looked at under all locks.
func TestRatioIsLookedAtUnderAllLocks(t *testing.T) {
	t.Parallel()
	s, at := stepped(t, mixed, 2)
	var other *sched.Booking
	at.on(1, func() { other = schedule(t, s, sched.Request{ID: "other", ISL: 10, Class: "open", Pin: pin(2)}) })
	_, err := s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10, ExpectedOSL: 1, Class: "half", DoNotQueue: true})
	require.ErrorIs(t, err, sched.ErrWouldQueue)
	require.NoError(t, other.Release())
	requireIdle(t, s)
}

// A rank that became dearer than the next is not booked.
func TestChoiceThatBecameDearerBeforeTheBooking(t *testing.T) {
	t.Parallel()
	s, at := stepped(t, "", 2)
	var other *sched.Booking
	at.on(1, func() { other = schedule(t, s, sched.Request{ID: "other", ISL: 100, Pin: pin(1)}) })
	b := schedule(t, s, sched.Request{ID: "r", ISL: 10, ExpectedOSL: 1})
	require.EqualValues(t, 2, b.Placement().Rank.Worker)
	require.NoError(t, b.Release())
	require.NoError(t, other.Release())
	requireIdle(t, s)
}

// A caller that pauses between look and booking does not take what was freed
// meanwhile for somebody who came to wait.
func TestNewcomerDoesNotTakeWhatWasFreedForWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, at := stepped(t, queueing, 2)
		newcomerMay, holderMay := make(chan struct{}), make(chan struct{})
		at.on(1, func() { <-newcomerMay })
		at.on(2, func() { <-holderMay })
		hold2 := schedule(t, s, sched.Request{ID: "hold-2", ISL: 10, Pin: pin(2)})
		newcomer := call(t.Context(), s, sched.Request{ID: "newcomer", ISL: 10, ExpectedOSL: 1, Pin: pin(1)})
		synctest.Wait()
		hold1 := schedule(t, s, sched.Request{ID: "hold-1", ISL: 10, Pin: pin(1)})
		waits := call(t.Context(), s, sched.Request{ID: "waits", ISL: 10, Pin: pin(1)})
		holder := call(t.Context(), s, sched.Request{ID: "holder", ISL: 10, ExpectedOSL: 2, Pin: pin(2)})
		synctest.Wait()
		go func() { _ = hold2.Release() }() // has the turn from here on
		synctest.Wait()
		require.NoError(t, hold1.Release())
		close(newcomerMay)
		synctest.Wait()
		require.Zero(t, newcomer.worker())
		close(holderMay)
		synctest.Wait()
		require.EqualValues(t, 1, waits.worker())
		require.Zero(t, newcomer.worker())
		waits.release(t)
		newcomer.release(t)
		holder.release(t)
		requireIdle(t, s)
	})
}

// Who came later takes no rank about which a hint is under way: it was freed for
// those before him, whose lanes are not tested yet.
func TestGrantTakesNoRankWithAHintUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, at := stepped(t, queueing, 4)
		hold := make([]*sched.Booking, 5)
		for i := uint64(1); i <= 4; i++ {
			hold[i] = schedule(t, s, sched.Request{ID: "hold-" + pin(i).String(), ISL: 10, Pin: pin(i)})
		}
		firstMay, nextMay := make(chan struct{}), make(chan struct{})
		at.on(4, func() { <-firstMay })
		at.on(3, func() { <-nextMay })
		all := []*caller{}
		for _, r := range []sched.Request{
			{ID: "first", ExpectedOSL: 4, Pin: pin(4)}, {ID: "next", ExpectedOSL: 3, Pin: pin(3)},
			{ID: "pinned", Pin: pin(1)}, {ID: "later", Allowed: []uint64{1, 2}},
		} {
			r.ISL = 10
			all = append(all, call(t.Context(), s, r))
			synctest.Wait()
		}
		go func() { _ = hold[4].Release() }()
		synctest.Wait()
		require.NoError(t, hold[2].Release())
		require.NoError(t, hold[3].Release())
		close(firstMay)
		synctest.Wait()
		// The hints about 2 and 3 are drained; now one about 1 comes.
		require.NoError(t, hold[1].Release())
		close(nextMay)
		synctest.Wait()
		for i, want := range []uint64{4, 3, 1, 2} {
			require.Equal(t, want, all[i].worker(), "request %d", i)
			all[i].release(t)
		}
		requireIdle(t, s)
	})
}

// Nobody is granted past an instant at which time alone frees somebody before him,
// though the timer is late.
func TestGrantGoesNotPastAnInstantThatHasCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		manual := clock.NewManual(time.Unix(1000, 0))
		var order []string
		s, at := stepped(t, queueing, 4, sched.WithClock(manual), sched.WithDecisionHook(func(d sched.Decision) {
			if d.Kind == sched.DecisionAdmitted {
				order = append(order, d.Request)
			}
		}))
		hold := make([]*sched.Booking, 5)
		ten := 10 * time.Second
		for i := uint64(1); i <= 4; i++ {
			r := sched.Request{ID: "hold-" + pin(i).String(), ISL: 10, Pin: pin(i)}
			if i == 1 {
				r.ExpectedPrefill = &ten
			}
			hold[i] = schedule(t, s, r)
		}
		firstMay := make(chan struct{})
		at.on(4, func() { <-firstMay })
		at.on(3, func() { manual.Advance(20 * time.Second) })
		all := []*caller{}
		for _, r := range []sched.Request{
			{ID: "first", ExpectedOSL: 4, Pin: pin(4)}, {ID: "next", ExpectedOSL: 3, Pin: pin(3)},
			{ID: "decays", Pin: pin(1)}, {ID: "later", Pin: pin(2)},
		} {
			r.ISL = 10
			all = append(all, call(t.Context(), s, r))
			synctest.Wait()
		}
		order = nil
		go func() { _ = hold[4].Release() }()
		synctest.Wait()
		require.NoError(t, hold[2].Release())
		require.NoError(t, hold[3].Release())
		close(firstMay)
		synctest.Wait()
		require.Equal(t, []string{"first", "next", "decays", "later"}, order)
		for _, c := range all {
			c.release(t)
		}
		require.NoError(t, hold[1].Release())
		requireIdle(t, s)
	})
}

// A grant whose owner leaves while it is made is undone, and nobody else's: not
// even that of the next request with its id.
func TestGrantWhoseOwnerLeavesIsUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		admitted := map[string]int{}
		s, at := stepped(t, queueing, 1, sched.WithDecisionHook(func(d sched.Decision) {
			if d.Kind == sched.DecisionAdmitted {
				admitted[d.Request]++
			}
		}))
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		ctx, cancel := context.WithCancel(t.Context())
		leaves := call(ctx, s, sched.Request{ID: "r", ISL: 10, ExpectedOSL: 1})
		synctest.Wait()
		var again *caller
		at.on(1, func() {
			cancel()
			<-leaves.done // it waits for nobody's turn
			again = call(t.Context(), s, sched.Request{ID: "r", ISL: 20})
		})
		require.NoError(t, hold.Release())
		require.ErrorIs(t, leaves.err, sched.ErrCanceled)
		synctest.Wait()
		require.EqualValues(t, 1, again.worker())
		require.EqualValues(t, 20, s.Loads()[0].PrefillTokens)
		again.release(t)
		requireIdle(t, s)
		require.Equal(t, map[string]int{"hold": 1, "r": 1}, admitted)
	})
}

// The context that ends during the look-up of fresh overlaps ends the request.
func TestOwnerLeavesDuringTheRefresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), RefreshAfter: time.Second},
			sched.WithOverlapRefresher(func(context.Context, []uint64) ([]sched.Overlap, error) {
				cancel()
				return nil, nil
			}))
		addWorkers(t, s, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		leaves := call(ctx, s, sched.Request{ID: "r", ISL: 16, Blocks: []uint64{1}})
		time.Sleep(2 * time.Second)
		require.NoError(t, hold.Release())
		<-leaves.done
		require.ErrorIs(t, leaves.err, sched.ErrCanceled)
		requireIdle(t, s)
	})
}

// A leaver is unlinked at once, though nothing else happens.
func TestLeaverIsUnlinkedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := stepped(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		ctx, cancel := context.WithCancel(t.Context())
		leaves := call(ctx, s, sched.Request{ID: "r", ISL: 10})
		synctest.Wait()
		cancel()
		<-leaves.done
		soon, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.NoError(t, s.Settle(soon))
		require.Zero(t, s.Stats().Waiting)
		require.Zero(t, s.Stats().Classes[0].Pending)
		require.NoError(t, sched.CheckConsistency(s))
		require.NoError(t, hold.Release())
		requireIdle(t, s)
	})
}

// Load that moves from one rank to the other between two looks makes both look
// busy though never both were: that is no reason to refuse.
func TestRefusalAtTheDoorWasTrueAtOneInstant(t *testing.T) {
	t.Parallel()
	hooked := &hookedClock{Clock: clock.NewManual(time.Unix(1000, 0))}
	s, _ := stepped(t, mixed, 2, sched.WithClock(hooked))
	long := time.Hour
	moves := schedule(t, s, sched.Request{ID: "moves", ISL: 1000, ExpectedPrefill: &long, Pin: pin(1)})
	hooked.next(func() { // rank 1 has been read, rank 2 has not
		_, err := moves.Transfer(rank(2))
		require.NoError(t, err)
	})
	b := schedule(t, s, sched.Request{ID: "r", Class: "never", ISL: 10})
	require.EqualValues(t, 1, b.Placement().Rank.Worker)
	require.NoError(t, b.Release())
	require.NoError(t, moves.Release())
	requireIdle(t, s)
}

// Nor does it make both look idle to a query of a class that needs more than one.
func TestQueryWasServedAtOneInstant(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Unix(1000, 0))
	hooked := &hookedClock{Clock: manual}
	s, _ := stepped(t, mixed, 2, sched.WithClock(hooked))
	second := time.Second
	done := schedule(t, s, sched.Request{ID: "done", ISL: 10, ExpectedPrefill: &second, Pin: pin(1)})
	manual.Advance(2 * second) // rank 1 is idle, but the clock must be read to know
	moves := schedule(t, s, sched.Request{ID: "moves", ISL: 10, Pin: pin(2)})
	hooked.next(func() { // rank 1 has been read, rank 2 has not
		_, err := moves.Transfer(rank(1))
		require.NoError(t, err)
	})
	_, err := s.Query(t.Context(), &sched.Request{ID: "q", Class: "half", ISL: 10, DoNotQueue: true})
	require.ErrorIs(t, err, sched.ErrWouldQueue)
	require.NoError(t, moves.Release())
	require.NoError(t, done.Release())
	requireIdle(t, s)
}

// withoutGates is mixed without thresholds.
const withoutGates = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000}
  - {name: never, quantum: 500}
`

// Nor is it one that the ranks look busy by rules that were replaced before they
// were.
func TestRefusalAtTheDoorIsByTheRulesOfThatInstant(t *testing.T) {
	t.Parallel()
	hooked := &hookedClock{Clock: clock.NewManual(time.Unix(1000, 0))}
	s, _ := stepped(t, mixed, 2, sched.WithClock(hooked))
	long := time.Hour
	busy := schedule(t, s, sched.Request{ID: "busy", ISL: 1000, ExpectedPrefill: &long, Pin: pin(1)})
	var late *sched.Booking
	hooked.next(func() { // rank 1 has been read, rank 2 has not
		require.NoError(t, s.SetProfile(policyOf(t, withoutGates)))
		late = schedule(t, s, sched.Request{ID: "late", ISL: 1000, Pin: pin(2)})
	})
	b := schedule(t, s, sched.Request{ID: "r", Class: "never", ISL: 10})
	for _, b := range []*sched.Booking{b, busy, late} {
		require.NoError(t, b.Release())
	}
	requireIdle(t, s)
}

// The same holds in the turn, where the clock is read after the rules.
func TestRefusalInTheTurnIsByTheRulesOfThatInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hooked := &hookedClock{Clock: clock.NewManual(time.Unix(1000, 0))}
		s, _ := stepped(t, mixed, 3, sched.WithClock(hooked))
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 1000, Pin: pin(2)})
		moves := schedule(t, s, sched.Request{ID: "moves", ISL: 1000, Pin: pin(3)})
		waits := call(t.Context(), s, sched.Request{ID: "waits", ISL: 10, Pin: pin(2)})
		synctest.Wait()
		var r *caller
		sched.WithTurn(s, func() {
			r = call(t.Context(), s, sched.Request{ID: "r", ISL: 10, Allowed: []uint64{1}, DoNotQueue: true})
			synctest.Wait()
			hooked.next(func() { // after r was detached and the profile read
				require.NoError(t, s.SetProfile(policyOf(t, withoutGates)))
				_, err := moves.Transfer(rank(1))
				require.NoError(t, err)
			})
		})
		r.release(t)
		waits.release(t)
		require.NoError(t, hold.Release())
		require.NoError(t, moves.Release())
		requireIdle(t, s)
	})
}

// Who looked before Close and arrives after it is answered too.
func TestCloseAnswersWhoIsOnTheWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hooked := &hookedClock{Clock: clock.System()}
		s, _ := stepped(t, queueing, 1, sched.WithClock(hooked))
		long := time.Hour
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 1000, ExpectedPrefill: &long})
		hooked.next(func() { require.NoError(t, s.Close()) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 10})
		require.ErrorIs(t, err, sched.ErrClosed)
		require.NoError(t, hold.Release())
		requireIdle(t, s)
	})
}

// A leaver takes the timer along that only it waited for.
func TestNoTimerIsLeftByALeaver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		manual := clock.NewManual(time.Unix(1000, 0))
		s, _ := stepped(t, queueing, 1, sched.WithClock(manual))
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		ctx, cancel := context.WithCancel(t.Context())
		leaves := call(ctx, s, sched.Request{ID: "r", ISL: 10, Due: time.Unix(1005, 0)})
		synctest.Wait()
		at, _ := manual.Next()
		require.Equal(t, time.Unix(1005, 0), at)
		cancel()
		<-leaves.done
		require.NoError(t, s.Settle(t.Context()))
		_, pending := manual.Next()
		require.False(t, pending)
		require.NoError(t, hold.Release())
		requireIdle(t, s)
	})
}

// What ends a prefill serves who waits for it.
func TestPrefillDoneServesWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := stepped(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		waits := call(t.Context(), s, sched.Request{ID: "waits", ISL: 10})
		synctest.Wait()
		require.NoError(t, hold.PrefillDone())
		synctest.Wait()
		require.EqualValues(t, 1, waits.worker())
		waits.release(t)
		require.NoError(t, hold.Release())
		requireIdle(t, s)
	})
}

// More ranks are freed during one epoch than the ring has room for.
func TestMoreHintsThanTheRingHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ranks = 300
		s, at := stepped(t, queueing, ranks)
		var hold []*sched.Booking
		for i := range uint64(ranks) {
			hold = append(hold, schedule(t, s, sched.Request{ID: "hold-" + pin(i).String(), ISL: 10, Pin: pin(i + 1)}))
		}
		holderMay := make(chan struct{})
		at.on(1, func() { <-holderMay })
		all := []*caller{call(t.Context(), s, sched.Request{ID: "holder", ISL: 10, ExpectedOSL: 1, Pin: pin(1)})}
		for i := uint64(2); i <= ranks; i++ {
			all = append(all, call(t.Context(), s, sched.Request{ID: pin(i).String(), ISL: 10, Pin: pin(i)}))
		}
		synctest.Wait()
		go func() { _ = hold[0].Release() }()
		synctest.Wait()
		for _, b := range hold[1:] {
			require.NoError(t, b.Release())
		}
		close(holderMay)
		synctest.Wait()
		for i, c := range all {
			require.EqualValues(t, i+1, c.worker())
			c.release(t)
		}
		require.NotZero(t, s.Stats().HintOverflows)
		requireIdle(t, s)
	})
}

// A full recheck needs no hint.
func TestRecheckTestsEveryLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := stepped(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		waits := call(t.Context(), s, sched.Request{ID: "waits", ISL: 10})
		synctest.Wait()
		sched.ReleaseUnheard(s, hold)
		synctest.Wait()
		require.Zero(t, waits.worker())
		require.NoError(t, s.Recheck(t.Context()))
		synctest.Wait()
		require.EqualValues(t, 1, waits.worker())
		waits.release(t)
		requireIdle(t, s)
	})
}

// blocked gives a goroutine time to come to a lock that the test holds. If it is
// late the test proves nothing, but does not fail.
func blocked() { time.Sleep(20 * time.Millisecond) }

// A booking that is touched while the sweep is on its way lives on.
func TestTouchDuringTheSweep(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Unix(1000, 0))
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: time.Minute}, sched.WithClock(manual))
	addWorkers(t, s, 2)
	b := schedule(t, s, sched.Request{ID: "r", ISL: 10, Pin: pin(1)})
	unlock := sched.LockRank(s, rank(2))
	var wg sync.WaitGroup
	start := manual.Now()
	wg.Go(func() { manual.Advance(time.Minute) }) // notes that r is due, and comes to rank 2
	for manual.Now().Equal(start) {               // or r is touched a minute too early
		runtime.Gosched()
	}
	blocked()
	require.NoError(t, b.Touch())
	unlock()
	wg.Wait()
	require.NoError(t, b.Err())
	require.NoError(t, b.Release())
	requireIdle(t, s)
	require.Zero(t, s.Stats().Expired)
}

// A booking that is touched goes behind those that are not, in the order in which
// they expire.
func TestTouchedBookingHidesNoOther(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Unix(1000, 0))
	s := newScheduler(t, sched.Config{BookingTTL: time.Minute}, sched.WithClock(manual))
	addWorkers(t, s, 1)
	touched := schedule(t, s, sched.Request{ID: "touched", ISL: 10})
	manual.Advance(time.Second)
	lost := schedule(t, s, sched.Request{ID: "lost", ISL: 10})
	manual.Advance(30 * time.Second)
	require.NoError(t, touched.Touch())
	manual.Advance(30 * time.Second)
	require.ErrorIs(t, lost.Err(), sched.ErrExpired)
	require.NoError(t, touched.Err())
	require.NoError(t, touched.Release())
	requireIdle(t, s)
}

// A booking is not moved to a rank that was removed meanwhile.
func TestTransferToARankThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 2)
	b := schedule(t, s, sched.Request{ID: "r", ISL: 10, Pin: pin(1)})
	unlock := sched.LockRank(s, rank(1))
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { _, err = b.Transfer(rank(2)) })
	blocked()
	sched.RemoveAtOnce(s, 2)
	unlock()
	wg.Wait()
	require.ErrorIs(t, err, sched.ErrNoEndpoints)
	require.NoError(t, b.Release())
	requireIdle(t, s)
}

// A call that waits for the rank on which the booking was finds the one on which
// it is.
func TestLifecycleFollowsATransfer(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 2)
	schedule(t, s, sched.Request{ID: "r", ISL: 10, Pin: pin(1)})
	unlock := sched.LockRank(s, rank(1))
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.Transfer("r", 0, rank(2)) })
	blocked()
	wg.Go(func() { _ = s.AddOutputBlock("r", 0) })
	blocked()
	unlock()
	wg.Wait()
	loads := s.Loads()
	require.EqualValues(t, 0, loads[0].Requests)
	require.EqualValues(t, 1, loads[1].Blocks)
	require.NoError(t, s.Release("r", 0))
	requireIdle(t, s)
}

// While those who wait are served, nobody is added.
func TestShutdownAdmitsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := stepped(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		waits := call(t.Context(), s, sched.Request{ID: "waits", ISL: 10})
		synctest.Wait()
		var err error
		shut := make(chan struct{})
		go func() {
			defer close(shut)
			err = s.Shutdown(t.Context())
		}()
		time.Sleep(time.Second)
		for _, class := range []string{"", "other"} {
			_, err := s.Schedule(t.Context(), &sched.Request{ID: "new", ISL: 10, Class: class, DoNotQueue: true})
			require.ErrorIs(t, err, sched.ErrClosed)
		}
		require.NoError(t, hold.Release())
		waits.release(t)
		<-shut
		require.NoError(t, err)
		requireIdle(t, s)
	})
}

// A pin that failed is not scheduled again, so nothing else went wrong.
func TestDoTriesAPinOnce(t *testing.T) {
	t.Parallel()
	s, _ := stepped(t, "", 2)
	refused := errors.New("connection refused")
	err := s.Do(t.Context(), &sched.Request{ID: "r", Pin: pin(2)}, func(context.Context, *sched.Booking) error {
		return sched.RetryElsewhere(refused)
	})
	require.ErrorIs(t, err, refused)
	require.NotErrorIs(t, err, sched.ErrNoEndpoints)
	require.Empty(t, s.Stats().Rejected)
	requireIdle(t, s)
}

// A booking left to its id lives on while others, whose handles are as lost, are
// reclaimed.
func TestDetachedBookingIsNotReclaimed(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{ReclaimLeaked: true})
	addWorkers(t, s, 1)
	schedule(t, s, sched.Request{ID: "detached", ISL: 10}).Detach()
	for i := range int64(3) {
		schedule(t, s, sched.Request{ID: "leaked", ISL: 10})
		require.Eventually(t, func() bool {
			runtime.GC()
			return s.Stats().Leaked > i
		}, time.Minute, time.Millisecond)
	}
	require.EqualValues(t, 3, s.Stats().Leaked)
	require.NoError(t, s.Release("detached", 0))
	requireIdle(t, s)
}

// What a release has freed goes to whose turn it was when it returned, whatever
// comes after it and before anybody has the turn.
func TestReleaseIsForThoseWhoWaitedBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := stepped(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		waits := call(t.Context(), s, sched.Request{ID: "waits", ISL: 10})
		synctest.Wait()
		var late *caller
		sched.WithTurn(s, func() {
			require.NoError(t, hold.Release())
			late = call(t.Context(), s, sched.Request{ID: "late", ISL: 10, Priority: 9})
			synctest.Wait()
		})
		synctest.Wait()
		require.EqualValues(t, 1, waits.worker())
		require.Zero(t, late.worker())
		waits.release(t)
		late.release(t)
		requireIdle(t, s)
	})
}
