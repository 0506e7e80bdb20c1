package sched_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

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
