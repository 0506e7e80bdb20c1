package sched_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

func schedule(t *testing.T, s *sched.Scheduler, r sched.Request) *sched.Booking {
	t.Helper()
	b, err := s.Schedule(t.Context(), &r)
	require.NoError(t, err)
	return b
}

// All waiting works on the bubble's clock.
func TestWaitingInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})

		var due, late, waited error
		var granted *sched.Booking
		go func() {
			_, due = s.Schedule(t.Context(), &sched.Request{ID: "due", ISL: 10, Due: time.Now().Add(2 * time.Second)})
		}()
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, late = s.Schedule(ctx, &sched.Request{ID: "late", ISL: 10})
		}()
		go func() {
			granted, waited = s.Schedule(t.Context(), &sched.Request{ID: "waits", ISL: 10})
		}()
		synctest.Wait()
		require.EqualValues(t, 3, s.Stats().Waiting)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.ErrorIs(t, due, sched.ErrDeadline)
		require.EqualValues(t, 2, s.Stats().Waiting)
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, late, sched.ErrDeadline)
		require.ErrorIs(t, late, context.DeadlineExceeded)
		require.Nil(t, granted)
		require.NoError(t, hold.Release())
		synctest.Wait()
		require.NoError(t, waited)
		require.NoError(t, granted.Release())
		requireIdle(t, s)
	})
}

// A booking knows the class it was admitted in, by name whatever it asked for.
func TestBookingTellsItsClass(t *testing.T) {
	t.Parallel()
	const profile = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 100, bucket: long}]
policy_classes:
  - {name: chat-short, policy_family: chat, cache_bucket: short, quantum: 1, prefill_busy_threshold: 0}
  - {name: chat-long, policy_family: chat, cache_bucket: long, quantum: 1, prefill_busy_threshold: 0}
  - {name: batch, quantum: 1}
`
	synctest.Test(t, func(t *testing.T) {
		s := under(t, profile, 1)
		for i, c := range []struct {
			asked string
			isl   int64
			want  string
		}{{"", 99, "chat-short"}, {"chat", 100, "chat-long"}, {"bogus", 1, "chat-short"}, {"batch", 1, "batch"}} {
			b := schedule(t, s, sched.Request{ID: fmt.Sprint(i), Class: c.asked, ISL: c.isl})
			require.Equal(t, c.want, b.Class())
			require.NoError(t, b.Release())
			require.Equal(t, c.want, b.Class(), "after the end too")
		}
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 1})
		granted := make(chan *sched.Booking, 1)
		go func() {
			b, err := s.Schedule(t.Context(), &sched.Request{ID: "waits", ISL: 1, Class: "chat"})
			assert.NoError(t, err)
			granted <- b
		}()
		synctest.Wait()
		require.NoError(t, s.SetProfile(policyOf(t, strings.ReplaceAll(profile, "short", "brief"))))
		require.Equal(t, "chat-short", hold.Class())
		require.NoError(t, hold.Release())
		b := <-granted
		require.Equal(t, "chat-brief", b.Class(), "classed anew while it waited")
		require.NoError(t, b.Release())
		requireIdle(t, s)
	})
}

// Prefill decay frees a rank at a known instant, and is acted on at that instant.
func TestDecayIsActedOnAtItsInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, mixed, 1)
		ten := 10 * time.Second
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 200, ExpectedPrefill: &ten})
		start := time.Now()
		// 200 tokens over 10 s fall to 100 after 5 s.
		next := schedule(t, s, sched.Request{ID: "next", ISL: 10})
		assert.Equal(t, 5*time.Second, time.Since(start))
		require.NoError(t, hold.Release())
		require.NoError(t, next.Release())
		requireIdle(t, s)
	})
}

func TestBookingTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: time.Minute})
		addWorkers(t, s, 1)
		lost := schedule(t, s, sched.Request{ID: "lost", ISL: 10})
		start := time.Now()
		time.Sleep(30 * time.Second)
		require.NoError(t, lost.Touch())
		next := schedule(t, s, sched.Request{ID: "next", ISL: 10})
		assert.Equal(t, 90*time.Second, time.Since(start))
		<-lost.Done()
		require.ErrorIs(t, lost.Err(), sched.ErrExpired)
		require.ErrorIs(t, lost.Release(), sched.ErrUnchanged)
		require.ErrorIs(t, s.Release("lost", 0), sched.ErrNotFound)
		require.NoError(t, next.Err())
		require.NoError(t, next.Release())
		requireIdle(t, s)
		require.EqualValues(t, 1, s.Stats().Expired)
	})
}

// A timer exists only while somebody waits for it, or a booking with a ttl lives.
func TestNoTimerWhileIdle(t *testing.T) {
	t.Parallel()
	manual := clock.NewManual(time.Unix(1000, 0))
	requireNoTimer := func(what string) {
		t.Helper()
		_, pending := manual.Next()
		require.False(t, pending, what)
	}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), BookingTTL: time.Minute}, sched.WithClock(manual))
	addWorkers(t, s, 1)
	requireNoTimer("new")
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
	at, _ := manual.Next()
	require.Equal(t, time.Unix(1060, 0), at)

	left := make(chan error)
	go func() {
		_, err := s.Schedule(t.Context(), &sched.Request{ID: "due", ISL: 10, Due: time.Unix(1005, 0)})
		left <- err
	}()
	untilQueued(t, s, 1)
	at, _ = manual.Next()
	require.Equal(t, time.Unix(1005, 0), at)
	manual.Advance(5 * time.Second)
	require.ErrorIs(t, <-left, sched.ErrDeadline)
	require.NoError(t, hold.Release())
	requireNoTimer("after the last booking")
	require.NoError(t, s.Close())
}

func TestCloseAndShutdown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*sched.Scheduler) error
		want error
	}{
		{"close", (*sched.Scheduler).Close, nil},
		{"shutdown cut short", func(s *sched.Scheduler) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return s.Shutdown(ctx)
		}, sched.ErrDeadline},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := under(t, queueing, 1)
				hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
				var waited error
				go func() { _, waited = s.Schedule(t.Context(), &sched.Request{ID: "waits", ISL: 10}) }()
				synctest.Wait()
				require.ErrorIs(t, tt.end(s), tt.want)
				synctest.Wait()
				require.ErrorIs(t, waited, sched.ErrClosed)
				_, err := s.Schedule(t.Context(), &sched.Request{ID: "new", ISL: 10})
				require.ErrorIs(t, err, sched.ErrClosed)
				_, err = s.Select(t.Context(), &sched.Request{ISL: 10})
				require.ErrorIs(t, err, sched.ErrClosed)
				// The lifecycle goes on.
				require.NoError(t, hold.AddOutputBlock())
				require.NoError(t, hold.PrefillDone())
				require.NoError(t, hold.Release())
				require.NoError(t, s.Close())
				requireIdle(t, s)
			})
		})
	}
}

// Shutdown lets those who wait go on.
func TestShutdownServesThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		var waited, shut error
		go func() {
			b, err := s.Schedule(t.Context(), &sched.Request{ID: "waits", ISL: 10})
			waited = err
			if err == nil {
				waited = b.Release()
			}
		}()
		synctest.Wait()
		ended := false
		go func() { shut = s.Shutdown(t.Context()); ended = true }()
		time.Sleep(time.Second)
		require.False(t, ended)
		_, err := s.Schedule(t.Context(), &sched.Request{ID: "new", ISL: 10})
		require.ErrorIs(t, err, sched.ErrClosed)
		require.NoError(t, hold.Release())
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, ended)
		require.NoError(t, shut)
		require.NoError(t, waited)
		requireIdle(t, s)
	})
}

// A grant that raced with the end of the context is undone, whoever won.
func TestGrantRacesWithCancel(t *testing.T) {
	t.Parallel()
	s := under(t, queueing, 1)
	for range 2000 {
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			b, err := s.Schedule(ctx, &sched.Request{ID: "races", ISL: 10})
			if err == nil {
				err = b.Release()
			}
			result <- err
		}()
		for inLine(s) == 0 && len(result) == 0 {
			runtime.Gosched()
		}
		go cancel()
		require.NoError(t, hold.Release())
		if err := <-result; err != nil {
			require.ErrorIs(t, err, sched.ErrCanceled)
		}
		cancel()
	}
	requireIdle(t, s)
}

func TestRecheckReturns(t *testing.T) {
	t.Parallel()
	idle := newScheduler(t, sched.Config{})
	require.NoError(t, idle.Recheck(t.Context()))
	s := under(t, queueing, 1)
	require.NoError(t, s.Recheck(t.Context()))
	require.NoError(t, s.Close())
	require.NoError(t, s.Recheck(t.Context()))
}

// The overlap of a request that waited long is looked up again, by the one who
// waited; nobody else waits for that.
func TestOverlapRefresh(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		look   sched.OverlapRefresher
		worker uint64
		cached int64
	}{
		{"moves to the rank that has it now", func(context.Context, []uint64) ([]sched.Overlap, error) {
			return []sched.Overlap{{Rank: sched.RankID{Worker: 2}, Device: 4}}, nil
		}, 2, 64},
		{"corrects the tokens", func(context.Context, []uint64) ([]sched.Overlap, error) {
			return []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 2}}, nil
		}, 1, 32},
		{"keeps the old scores if it fails", func(context.Context, []uint64) ([]sched.Overlap, error) {
			return nil, errors.New("index is down")
		}, 1, 16},
		{"keeps the old scores if it panics", func(context.Context, []uint64) ([]sched.Overlap, error) {
			panic("index is broken")
		}, 1, 16},
		{"keeps the old scores if it is nonsense", func(context.Context, []uint64) ([]sched.Overlap, error) {
			return []sched.Overlap{{Device: -1}}, nil
		}, 1, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), RefreshAfter: time.Second},
					sched.WithOverlapRefresher(tt.look))
				addWorkers(t, s, 2)
				hold := []*sched.Booking{
					schedule(t, s, sched.Request{ID: "h1", ISL: 10}), schedule(t, s, sched.Request{ID: "h2", ISL: 10}),
				}
				var b *sched.Booking
				go func() {
					b = schedule(t, s, sched.Request{
						ID: "waits", ISL: 64, Blocks: []uint64{1, 2, 3, 4},
						Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 1}},
					})
				}()
				synctest.Wait()
				time.Sleep(2 * time.Second)
				for _, h := range hold {
					if h.Placement().Rank.Worker == 1 {
						require.NoError(t, h.Release())
					}
				}
				synctest.Wait()
				p := b.Placement()
				assert.Equal(t, tt.worker, p.Rank.Worker)
				assert.Equal(t, tt.cached, p.CachedTokens)
				for _, l := range s.Loads() {
					if l.Rank == p.Rank {
						own := int64(0)
						if p.Rank.Worker == 2 {
							own = 10 // h2 is still there
						}
						assert.Equal(t, 64-tt.cached+own, l.PrefillTokens)
					}
				}
				require.NoError(t, b.Release())
				for _, h := range hold {
					_ = h.Release()
				}
				requireIdle(t, s)
			})
		})
	}
}

func TestSetProfileAtRunTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		var b *sched.Booking
		go func() { b = schedule(t, s, sched.Request{ID: "waits", ISL: 10}) }()
		synctest.Wait()
		require.Nil(t, b)
		require.ErrorIs(t, s.SetProfile(nil), sched.ErrInvalid)
		require.NoError(t, s.SetProfile(policy.Default()))
		synctest.Wait()
		require.NotNil(t, b)
		require.NoError(t, b.Release())
		require.NoError(t, hold.Release())
		requireIdle(t, s)
	})
}

// A request that is tried elsewhere keeps its arrival time: it goes before those
// who came after it, though its second attempt came later.
func TestDoKeepsTheArrivalTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), Ties: selector.TiesLowest})
		addWorkers(t, s, 2)
		var order []string
		var done sync.WaitGroup
		failing := make(chan struct{})
		done.Go(func() {
			err := s.Do(t.Context(), &sched.Request{ID: "first", ISL: 10}, func(_ context.Context, b *sched.Booking) error {
				if b.Placement().Rank.Worker == 1 {
					<-failing
					return sched.RetryElsewhere(errors.New("reset"))
				}
				order = append(order, "first")
				return nil
			})
			assert.NoError(t, err)
		})
		synctest.Wait()
		hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
		require.EqualValues(t, 2, hold.Placement().Rank.Worker)
		time.Sleep(time.Second)
		done.Go(func() {
			b := schedule(t, s, sched.Request{ID: "second", ISL: 10, Pin: &sched.RankID{Worker: 2}})
			order = append(order, "second")
			assert.NoError(t, b.Release())
		})
		synctest.Wait()
		time.Sleep(time.Second)
		close(failing)
		synctest.Wait()
		require.NoError(t, hold.Release())
		done.Wait()
		require.Equal(t, []string{"first", "second"}, order)
		requireIdle(t, s)
	})
}
