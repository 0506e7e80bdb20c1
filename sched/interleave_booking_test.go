package sched_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

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
