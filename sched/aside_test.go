package sched_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

func TestSetAside(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Unix(0, 0))
	s := newScheduler(t, sched.Config{}, sched.WithClock(manual))
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 2, Incarnation: "a"}))
	selects := func() error {
		_, err := s.Select(context.Background(), &sched.Request{ISL: 16})
		return err
	}
	require.ErrorIs(t, s.SetAside(2, time.Second), sched.ErrNotFound)
	require.ErrorIs(t, s.SetAside(1, -1), sched.ErrInvalid)
	require.ErrorIs(t, s.SetAsideIncarnation(1, "b", time.Second), sched.ErrStaleIncarnation)
	require.NoError(t, selects())

	require.NoError(t, s.SetAsideIncarnation(1, "a", 5*time.Second))
	require.NoError(t, s.SetAside(1, 2*time.Second)) // the latest end holds
	require.Equal(t, []sched.AsideWorker{{Worker: 1, Incarnation: "a", Until: time.Unix(5, 0)}}, s.Stats().Aside)
	for _, r := range s.Snapshot(0).Ranks {
		require.True(t, r.Overloaded)
		require.Equal(t, time.Unix(5, 0), r.AsideUntil)
		require.Equal(t, "a", r.Incarnation)
	}
	e, err := s.Explain(&sched.Request{ISL: 16})
	require.NoError(t, err)
	require.Equal(t, "set-aside", e.Ranks[0].Against[0].Rule)
	manual.Advance(5*time.Second - 1)
	require.ErrorIs(t, selects(), sched.ErrOverloaded)
	if _, ok := manual.Next(); ok {
		t.Fatal("a timer while nobody waits")
	}
	manual.Advance(1)
	require.NoError(t, selects())
	require.Empty(t, s.Stats().Aside)

	require.NoError(t, s.SetAside(1, time.Hour))
	require.ErrorIs(t, selects(), sched.ErrOverloaded)
	require.NoError(t, s.SetAside(1, 0))
	require.NoError(t, selects())

	// The overloaded set is another matter.
	require.NoError(t, s.SetAside(1, time.Second))
	require.NoError(t, s.SetOverloaded([]uint64{1}))
	manual.Advance(time.Second)
	require.ErrorIs(t, selects(), sched.ErrOverloaded)
	require.NoError(t, s.SetOverloaded(nil))

	// An update of the same process leaves it aside; removal and another process end it.
	require.NoError(t, s.SetAside(1, 1<<62))
	require.NoError(t, s.SetAside(1, 1<<62)) // until the end of time
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
	require.ErrorIs(t, selects(), sched.ErrOverloaded)
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Incarnation: "b"}))
	require.NoError(t, selects())
	require.NoError(t, s.SetAside(1, time.Hour))
	require.ErrorIs(t, s.RemoveIncarnation(1, "a"), sched.ErrStaleIncarnation)
	require.NoError(t, s.RemoveIncarnation(1, "b"))
	require.ErrorIs(t, s.RemoveIncarnation(1, "b"), sched.ErrNotFound)
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
	require.NoError(t, selects())
	requireIdle(t, s)
}

// A request that waits for the end of a setting aside is admitted at that instant,
// and an arrival at the same instant is not admitted before it.
func TestAsideEndsForRequestsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 2)
		blocker, err := s.Schedule(t.Context(), &sched.Request{ID: "blocker", ISL: 100, Pin: &sched.RankID{Worker: 2}})
		require.NoError(t, err)
		require.NoError(t, s.SetAside(1, 3*time.Second))
		began := time.Now()
		waiter := func(id string) func() *sched.Booking {
			done := make(chan *sched.Booking, 1)
			go func() {
				b, err := s.Schedule(t.Context(), &sched.Request{ID: id, ISL: 10})
				assert.NoError(t, err)
				done <- b
			}()
			synctest.Wait()
			return func() *sched.Booking { return <-done }
		}
		first := waiter("first")
		require.EqualValues(t, 1, s.Stats().Waiting)
		// A later end is the end.
		require.NoError(t, s.SetAside(1, 5*time.Second))
		time.Sleep(5*time.Second - 1)
		require.EqualValues(t, 1, s.Stats().Waiting)
		b := first()
		require.Equal(t, 5*time.Second, time.Since(began))
		require.EqualValues(t, 1, b.Placement().Rank.Worker)
		require.NoError(t, b.Release())
		require.NoError(t, blocker.Release())
		requireIdle(t, s)
		require.NoError(t, s.Close())
	})
}

// With the sets that hold from then on, all workers of a pool are replaced without a
// moment that those who wait would not survive.
func TestPoolIsReplacedWhole(t *testing.T) {
	t.Parallel()
	for name, also := range map[string][]sched.PoolSet{
		"with the sets":    {sched.AlsoAvailable([]uint64{2, 3}), sched.AlsoOverloaded(nil), sched.AlsoDraining([]uint64{3, 9}), {}},
		"without the sets": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := under(t, queueing, 1)
				require.NoError(t, s.SetAvailable([]uint64{1}))
				require.NoError(t, s.SetOverloaded([]uint64{2}))
				_, err := s.Schedule(t.Context(), &sched.Request{ID: "old", ISL: 10})
				require.NoError(t, err)
				got := make(chan error, 1)
				go func() {
					b, err := s.Schedule(t.Context(), &sched.Request{ID: "waits", ISL: 10})
					if err == nil {
						assert.EqualValues(t, 2, b.Placement().Rank.Worker)
						err = b.Release()
					}
					got <- err
				}()
				synctest.Wait()
				require.NoError(t, s.SetWorkers([]sched.Worker{{ID: 2, Ranks: 1}, {ID: 3, Ranks: 1}}, also...))
				if err := <-got; also == nil {
					require.ErrorIs(t, err, sched.ErrNoEndpoints)
				} else {
					require.NoError(t, err)
					ranks := s.Snapshot(0).Ranks
					require.False(t, ranks[0].Draining || ranks[0].Overloaded || ranks[0].Unavailable)
					require.True(t, ranks[1].Draining)
				}
				requireIdle(t, s)
				require.NoError(t, s.Close())
			})
		})
	}
}

// A worker that comes back as another process is a new one; a request that waits for
// its rank goes on waiting, and gets it.
func TestAnotherIncarnation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		old, err := s.Schedule(t.Context(), &sched.Request{ID: "old", ISL: 10, Blocks: []uint64{1}})
		require.NoError(t, err)
		// The first name is adopted, and nothing said of it is lost.
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Incarnation: "a"}))
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
		w, err := s.Worker(1)
		require.NoError(t, err)
		require.Equal(t, "a", w.Incarnation)
		require.EqualValues(t, 1, s.Stats().Live)
		require.NoError(t, s.DrainWorker(1))

		require.NoError(t, s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1, Incarnation: "b"}}))
		require.ErrorIs(t, old.Err(), sched.ErrWorkerRemoved)
		require.ErrorIs(t, old.Release(), sched.ErrUnchanged)
		require.Zero(t, s.Loads()[0].Requests)
		require.False(t, s.Snapshot(0).Ranks[0].Draining)

		second, err := s.Schedule(t.Context(), &sched.Request{ID: "second", ISL: 10})
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			_, err := s.Schedule(t.Context(), &sched.Request{ID: "pinned", ISL: 10, Pin: &sched.RankID{Worker: 1}})
			got <- err
		}()
		synctest.Wait()
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Incarnation: "c"}))
		require.NoError(t, <-got)
		<-second.Done()
		require.EqualValues(t, 1, s.Loads()[0].Requests)
		require.NoError(t, s.Release("pinned", 0))
		requireIdle(t, s)
		require.NoError(t, s.Close())
	})
}

// Do teaches the pool: the worker is aside before its rank is given to the next, and
// another process under the same id is left alone.
func TestDoSetsAside(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	manual := clock.NewManual(time.Unix(0, 0))
	s := newScheduler(t, sched.Config{}, sched.WithClock(manual))
	require.NoError(t, s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1, Incarnation: "a"}, {ID: 2, Ranks: 1}}))
	var served []uint64
	call := func(fail func(b *sched.Booking) error) func(context.Context, *sched.Booking) error {
		return func(_ context.Context, b *sched.Booking) error {
			served = append(served, b.Placement().Rank.Worker)
			if b.Placement().Rank.Worker == 1 {
				return fail(b)
			}
			return nil
		}
	}
	r := &sched.Request{ID: "r", ISL: 100, Prefer: &sched.RankID{Worker: 1}}
	aside := call(func(*sched.Booking) error { return sched.RetryElsewhere(refused, sched.AndSetAside(time.Minute), nil) })
	require.NoError(t, s.Do(t.Context(), r, aside))
	require.NoError(t, s.Do(t.Context(), r, aside))
	require.Equal(t, []uint64{1, 2, 2}, served)
	require.Len(t, s.Stats().Aside, 1)
	manual.Advance(time.Minute)

	pinned := &sched.Request{ID: "pinned", ISL: 100, Pin: &sched.RankID{Worker: 1}}
	require.ErrorIs(t, s.Do(t.Context(), pinned, aside), refused)
	require.ErrorIs(t, s.Do(t.Context(), pinned, aside), sched.ErrPinnedOverloaded)
	manual.Advance(time.Minute)

	require.NoError(t, s.Do(t.Context(), r, call(func(*sched.Booking) error {
		assert.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Incarnation: "b"}))
		return sched.RetryElsewhere(refused, sched.AndSetAside(time.Minute))
	})))
	require.Empty(t, s.Stats().Aside)
	require.NoError(t, sched.RetryElsewhere(nil, sched.AndSetAside(time.Minute)))
	requireIdle(t, s)
}

// A request in line for the rank that fails does not get it.
func TestDoSetsAsideFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		began := time.Now()
		waited := make(chan time.Duration, 1)
		r := &sched.Request{ID: "r", ISL: 100}
		err := s.Do(t.Context(), r, func(context.Context, *sched.Booking) error {
			go func() {
				b, err := s.Schedule(t.Context(), &sched.Request{ID: "next", ISL: 100})
				if assert.NoError(t, err) {
					assert.NoError(t, b.Release())
				}
				waited <- time.Since(began)
			}()
			synctest.Wait()
			return sched.RetryElsewhere(errors.New("connection refused"), sched.AndSetAside(time.Minute))
		})
		require.ErrorIs(t, err, sched.ErrNoEndpoints)
		require.Equal(t, time.Minute, <-waited)
		requireIdle(t, s)
		require.NoError(t, s.Close())
	})
}
