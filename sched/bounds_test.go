package sched_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// What a call does for others is bounded in work, whatever waits. The tests below
// have the turn and run one epoch after another, as one caller after another would.

// many is n, or fewer where time is short.
func many(n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// crowd is a number of callers that wait.
type crowd struct {
	*testing.T
	s    *sched.Scheduler
	all  []*caller
	stop context.CancelFunc
}

// wait has n requests wait; request says what each wants.
func wait(t *testing.T, s *sched.Scheduler, n int, request func(i int) sched.Request) *crowd {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := &crowd{T: t, s: s, stop: stop}
	for i := range n {
		r := request(i)
		r.ID = fmt.Sprint("crowd-", i)
		c.all = append(c.all, call(ctx, s, r))
		if i%500 == 499 {
			synctest.Wait()
		}
	}
	synctest.Wait()
	require.EqualValues(t, n, s.Stats().Waiting)
	return c
}

// leave has everyone leave who waits, and release what he got.
func (c *crowd) leave() {
	c.stop()
	for _, one := range c.all {
		<-one.done
		if one.err == nil {
			_ = one.b.Release()
		}
	}
	requireIdle(c.T, c.s)
}

func holdAll(t *testing.T, s *sched.Scheduler, ranks int) []*sched.Booking {
	t.Helper()
	hold := make([]*sched.Booking, ranks)
	for i := range hold {
		hold[i] = schedule(t, s, sched.Request{ID: fmt.Sprint("hold-", i), ISL: 10, Pin: pin(uint64(i + 1))})
	}
	return hold
}

// One rank is freed for one of 4,000 lanes: each lane before it is asked once, and
// none looks at all its ranks.
func TestReleaseAsksEachLaneOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ranks = 100
		lanes := many(4_000)
		s, _ := stepped(t, queueing, ranks)
		hold := holdAll(t, s, ranks)
		served := lanes * 3 / 4
		c := wait(t, s, lanes, func(i int) sched.Request {
			r := sched.Request{ISL: 10, Priority: uint32(lanes - i), Excluded: []uint64{uint64(2 + i%70), uint64(1000 + i), 1}}
			if i == served {
				r.Excluded = r.Excluded[:2]
			}
			return r
		})
		spent, longest := 0, 0
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			require.NoError(t, hold[0].Release())
			for more := true; more; {
				var left int
				left, more = run(sched.LifecycleAllowance)
				spent += sched.LifecycleAllowance - left
				longest = max(longest, sched.LifecycleAllowance-left)
			}
		})
		synctest.Wait()
		require.EqualValues(t, 1, c.all[served].worker())
		require.LessOrEqual(t, spent, (served+1)*(queue.CostLane+queue.CostRank)+1000)
		require.LessOrEqual(t, longest, sched.LifecycleAllowance+2*queue.CostGrant)
		for _, b := range hold[1:] {
			require.NoError(t, b.Release())
		}
		c.leave()
	})
}

// 64 ranks are idle and very many wait: whoever comes serves a few.
func TestReleaseGrantsAFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ranks = 64
		s, _ := stepped(t, queueing, ranks)
		hold := holdAll(t, s, ranks)
		n := many(20_000)
		c := wait(t, s, n, func(int) sched.Request { return sched.Request{ISL: 10} })
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			for _, b := range hold {
				require.NoError(t, b.Release())
			}
			for before, more := n, true; more; {
				_, more = run(sched.LifecycleAllowance)
				now := sched.QueueLen(s)
				require.LessOrEqual(t, before-now, sched.LifecycleAllowance/queue.CostGrant+1)
				before = now
			}
			require.Equal(t, n-ranks, sched.QueueLen(s))
		})
		c.leave()
	})
}

// An urgent request that comes while a long line is served goes after at most 64
// others, however short the epochs are.
func TestUrgentArrivalGoesAfterAFew(t *testing.T) {
	t.Parallel()
	for _, allowance := range []int{sched.LifecycleAllowance, sequencer.HelperAllowance} {
		synctest.Test(t, func(t *testing.T) {
			const ranks = 300
			s, _ := stepped(t, queueing, ranks)
			hold := holdAll(t, s, ranks)
			c := wait(t, s, ranks, func(int) sched.Request { return sched.Request{ISL: 10} })
			var urgent *caller
			sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
				for _, b := range hold {
					require.NoError(t, b.Release())
				}
				run(sched.LifecycleAllowance)
				urgent = call(t.Context(), s, sched.Request{ID: "urgent", ISL: 10, Priority: 9})
				synctest.Wait()
				before, ended := s.Stats().Waiting, false
				for more := true; more && !ended; {
					_, more = run(allowance)
					synctest.Wait()
					ended = urgent.worker() != 0
				}
				require.True(t, ended)
				// Those who were served with it in its last epoch may have come after it.
				atOnce := int64(allowance / queue.CostGrant)
				require.LessOrEqual(t, before-s.Stats().Waiting, sched.GrantsAtMost+2*atOnce)
			})
			urgent.release(t)
			c.leave()
		})
	}
}

// Of those who leave, those who are due and those who are told of Close, each caller
// takes a few.
func TestManyAreTakenOutInPieces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		most int // in one epoch
		ends func(s *sched.Scheduler, c *crowd, clock *lateClock)
		err  error
	}{
		{
			name: "leavers", most: sched.LifecycleAllowance/(2*queue.CostEntry) + 1, err: sched.ErrCanceled,
			ends: func(_ *sched.Scheduler, c *crowd, _ *lateClock) { c.stop() },
		},
		{
			name: "due", most: sched.LifecycleAllowance/sched.CostReject + 1, err: sched.ErrDeadline,
			ends: func(_ *sched.Scheduler, _ *crowd, clock *lateClock) { clock.move(time.Hour) },
		},
		{
			name: "due while a rank is idle", most: sched.LifecycleAllowance/sched.CostReject + 1, err: sched.ErrDeadline,
			ends: func(_ *sched.Scheduler, _ *crowd, clock *lateClock) { clock.move(time.Hour) },
		},
		{
			name: "closed", most: sched.LifecycleAllowance/sched.CostReject + 1, err: sched.ErrClosed,
			ends: func(s *sched.Scheduler, _ *crowd, _ *lateClock) { go func() { _ = s.Close() }() },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := many(50_000)
				clock := &lateClock{now: time.Now()}
				s, _ := stepped(t, queueing, 1, sched.WithClock(clock))
				hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
				due := clock.Now().Add(time.Hour)
				c := wait(t, s, n, func(int) sched.Request { return sched.Request{ISL: 10, Due: due} })
				sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
					test.ends(s, c, clock)
					synctest.Wait()
					if strings.Contains(test.name, "idle") { // and none of them may have it
						require.NoError(t, hold.Release())
					}
					for before, more := n, true; more; {
						left, again := run(sched.LifecycleAllowance)
						more = again
						require.LessOrEqual(t, -left, 2*sched.CostReject)
						now := sched.QueueLen(s)
						require.LessOrEqual(t, before-now, test.most)
						require.True(t, more || now == 0)
						before = now
					}
				})
				for _, one := range c.all {
					<-one.done
					require.True(t, errors.Is(one.err, test.err), one.err)
				}
				_ = hold.Release()
				time.Sleep(time.Second) // for Close to return
				requireIdle(t, s)
			})
		})
	}
}

// Who is due at one instant is answered before others are decided, in however many
// pieces; of very many, others are decided in between.
func TestOverdueComeFirst(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		due     int
		atLeast int // of the overdue are answered before the next is granted
		atMost  int
	}{
		{name: "few", due: sched.OverdueFirst, atLeast: sched.OverdueFirst, atMost: sched.OverdueFirst},
		{name: "many", due: 1000, atLeast: sched.OverdueFirst, atMost: sched.OverdueFirst + 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := &lateClock{now: time.Now()}
				s, _ := stepped(t, queueing, 1, sched.WithClock(clock))
				hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
				due := clock.Now().Add(time.Hour)
				wait(t, s, test.due, func(int) sched.Request { return sched.Request{ISL: 10, Due: due} })
				next := call(t.Context(), s, sched.Request{ID: "next", ISL: 10, Priority: 1})
				synctest.Wait()
				answered := -1
				sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
					clock.move(time.Hour)
					synctest.Wait()
					require.NoError(t, hold.Release())
					for more := true; more; {
						_, more = run(sched.LifecycleAllowance)
						if answered < 0 && s.Stats().Live > 0 {
							answered = test.due - sched.QueueLen(s)
						}
					}
				})
				require.GreaterOrEqual(t, answered, test.atLeast)
				require.LessOrEqual(t, answered, test.atMost)
				<-next.done
				require.NoError(t, next.err)
				require.NoError(t, next.b.Release())
			})
		})
	}
}

// Callers that are rejected do not go on for all those who come after them.
func TestRejectedCallerServesAFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := many(10_000)
		s, _ := stepped(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		stays := wait(t, s, 1, func(int) sched.Request { return sched.Request{ISL: 10} })
		rejected := make([]*caller, n)
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			for i := range rejected {
				rejected[i] = call(t.Context(), s, sched.Request{ID: fmt.Sprint("r", i), ISL: 10, DoNotQueue: true})
			}
			synctest.Wait()
			for before, more := s.Stats().Waiting, true; more; {
				_, more = run(sched.ArrivalAllowance)
				now := s.Stats().Waiting
				require.LessOrEqual(t, before-now, int64(sched.ArrivalAllowance/sched.CostReject+1))
				before = now
			}
		})
		for _, one := range rejected {
			<-one.done
			require.ErrorIs(t, one.err, sched.ErrWouldQueue)
		}
		require.NoError(t, hold.Release())
		stays.leave()
	})
}

// Bookings that run into their ttl together are ended in pieces, all of them, and
// who waits is served in between.
func TestManyExpireInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ranks = 3
		n := many(20_000)
		clock := &lateClock{now: time.Now()}
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: time.Hour}, sched.WithClock(clock))
		addWorkers(t, s, ranks)
		for i := range n {
			b := schedule(t, s, sched.Request{ID: fmt.Sprint(i), ISL: 10, Class: "f"})
			require.NoError(t, b.PrefillDone())
			b.Detach()
		}
		clock.move(time.Minute)
		young := schedule(t, s, sched.Request{ID: "young", ISL: 10})
		clock.move(time.Hour - time.Minute)
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			for before, more := int64(0), true; more; {
				_, more = run(sched.LifecycleAllowance)
				now := s.Stats().Expired
				require.LessOrEqual(t, now-before, int64(sched.LifecycleAllowance/sched.CostExpiry+1))
				before = now
			}
		})
		require.EqualValues(t, n, s.Stats().Expired)
		require.NoError(t, young.Err())
		clock.move(time.Minute)
		clock.fire()
		require.NoError(t, s.Settle(t.Context()))
		require.EqualValues(t, n+1, s.Stats().Expired)
		requireIdle(t, s)
	})
}

// A walk along the ranks for expired bookings takes several epochs: it goes on from
// where it is however often the ranks change meanwhile, and a booking that is moved to
// a rank that it has passed is not lost.
func TestExpiryWhileRanksChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ranks = 40
		clock := &lateClock{now: time.Now()}
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: time.Hour}, sched.WithClock(clock))
		addWorkers(t, s, ranks)
		book := func(id string, worker uint64) *sched.Booking {
			return schedule(t, s, sched.Request{ID: id, ISL: 10, Pin: pin(worker)})
		}
		first, last := book("first", 1), book("last", ranks)
		clock.move(time.Minute)
		moved := book("moved", ranks-1)
		clock.move(time.Hour - time.Minute)
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			run(1)
			_, err := moved.Transfer(sched.RankID{Worker: 1})
			require.NoError(t, err)
			epochs := 0
			for more := true; more; epochs++ {
				require.NoError(t, s.SetOverloaded([]uint64{uint64(1 + epochs%2)}))
				_, more = run(20)
				require.Less(t, epochs, 2*ranks, "the walk begins anew with each change")
			}
			require.Greater(t, epochs, 2)
		})
		require.ErrorIs(t, first.Err(), sched.ErrExpired)
		require.ErrorIs(t, last.Err(), sched.ErrExpired)
		require.NoError(t, moved.Err())
		clock.move(time.Hour)
		clock.fire()
		require.NoError(t, s.Settle(t.Context()))
		require.ErrorIs(t, moved.Err(), sched.ErrExpired)
		requireIdle(t, s)
	})
}

// Two changes of the profile while a long line is classed anew lose nobody.
func TestProfileChangesWhileOthersAreMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		s, _ := stepped(t, queueing, n)
		hold := holdAll(t, s, n)
		c := wait(t, s, n, func(int) sched.Request { return sched.Request{ISL: 10} })
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			for range 3 {
				require.NoError(t, s.SetProfile(policyOf(t, mixed)))
				run(sched.LifecycleAllowance)
				require.NoError(t, s.SetProfile(policyOf(t, queueing)))
				run(sched.LifecycleAllowance)
			}
			for more := true; more; {
				_, more = run(sequencer.HelperAllowance)
			}
			require.EqualValues(t, n, s.Stats().Classes[0].Pending)
		})
		for _, b := range hold {
			require.NoError(t, b.Release())
		}
		for _, one := range c.all {
			<-one.done
			require.NoError(t, one.err)
		}
		c.leave()
	})
}

// Ranks that are freed together are offered to those who wait in pieces too.
func TestFreedRanksAreOfferedInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ranks = 64
		s, _ := stepped(t, queueing, ranks)
		hold := holdAll(t, s, ranks)
		c := wait(t, s, ranks, func(i int) sched.Request { return sched.Request{ISL: 10, Pin: pin(uint64(i + 1))} })
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			for _, b := range hold {
				require.NoError(t, b.Release())
			}
			pieces := 0
			for more := true; more; pieces++ {
				_, more = run(10 * queue.CostRank)
			}
			require.Zero(t, sched.QueueLen(s))
			require.Greater(t, pieces, ranks/10)
		})
		c.leave()
	})
}

// Those who come while a long line is served are tested against the limits when
// nobody else can run, and not before.
func TestLimitsAreTestedAfterALongLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ranks, backlog, late = 90, 80, 8
		s, at := stepped(t, queueing, 1)
		require.NoError(t, s.SetWorkers([]sched.Worker{{ID: 1, Ranks: ranks}}))
		var hold []*sched.Booking
		for i := range uint32(ranks) {
			hold = append(hold, schedule(t, s, sched.Request{ID: fmt.Sprint("hold-", i), ISL: 10, Pin: &sched.RankID{Worker: 1, Rank: i}}))
		}
		c := wait(t, s, backlog, func(i int) sched.Request { return sched.Request{ISL: 10, ExpectedOSL: int64(i + 1)} })
		limited := strings.Replace(queueing, "prefill_busy_threshold: 0", "prefill_busy_threshold: 0, request_queue_limit_per_worker: 30", 1)
		require.NoError(t, s.SetProfile(policyOf(t, limited)))
		require.NoError(t, s.Settle(t.Context()))
		var came []*caller
		at.on(1, func() { // when the first of them is about to be booked
			for i := range late {
				came = append(came, call(t.Context(), s, sched.Request{ID: fmt.Sprint("late-", i), ISL: 10, Pin: &sched.RankID{Worker: 1}}))
			}
			synctest.Wait()
		})
		sched.EpochByEpoch(s, func(run func(int) (int, bool)) {
			for _, b := range hold[1:] {
				require.NoError(t, b.Release())
			}
			for more := true; more; {
				_, more = run(sequencer.HelperAllowance)
			}
		})
		require.EqualValues(t, late, s.Stats().Waiting)
		require.NoError(t, hold[0].Release())
		var all sync.WaitGroup
		for _, one := range came {
			all.Go(func() { one.release(t) })
		}
		all.Wait()
		c.leave()
	})
}
