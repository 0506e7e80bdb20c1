package sched_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

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

// The same holds in the turn, for an arrival behind another whose selection changes
// the rules.
func TestRefusalInTheTurnIsByTheRulesOfThatInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := stepped(t, mixed, 3)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 1000, Pin: pin(2)})
		moves := schedule(t, s, sched.Request{ID: "moves", ISL: 1000, Pin: pin(3)})
		require.NoError(t, s.SetSelector(pickFunc(func(in *selector.Input) (selector.Pick, error) {
			if in.ISL != 77 {
				return selector.Pick{}, nil
			}
			require.NoError(t, s.SetProfile(policyOf(t, withoutGates)))
			_, err := moves.Transfer(rank(1))
			require.NoError(t, err)
			return selector.Pick{}, errors.New("no idea")
		})))
		waits := call(t.Context(), s, sched.Request{ID: "waits", ISL: 10, Pin: pin(2)})
		synctest.Wait()
		var changes, r *caller
		sched.WithTurn(s, func() {
			changes = call(t.Context(), s, sched.Request{ID: "changes", ISL: 77})
			synctest.Wait()
			r = call(t.Context(), s, sched.Request{ID: "r", ISL: 10, Allowed: []uint64{1}, DoNotQueue: true})
			synctest.Wait()
		})
		<-changes.done
		require.ErrorIs(t, changes.err, sched.ErrSelector)
		r.release(t)
		waits.release(t)
		require.NoError(t, hold.Release())
		require.NoError(t, moves.Release())
		requireIdle(t, s)
	})
}
