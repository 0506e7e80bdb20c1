package sched_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

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
