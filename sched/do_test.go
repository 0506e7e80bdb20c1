package sched_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The callback's context ends with its booking, and says why.
func TestDoCancelsTheCallbackWithItsBooking(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*testing.T, *sched.Scheduler)
		want error
	}{
		"worker removed": {
			func(t *testing.T, s *sched.Scheduler) { require.NoError(t, s.RemoveWorker(1)) }, sched.ErrWorkerRemoved,
		},
		"another incarnation": {
			func(t *testing.T, s *sched.Scheduler) {
				require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Incarnation: "b"}))
			}, sched.ErrWorkerRemoved,
		},
		"expired": {func(*testing.T, *sched.Scheduler) { time.Sleep(time.Minute) }, sched.ErrExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScheduler(t, sched.Config{BookingTTL: 30 * time.Second})
				require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Incarnation: "a"}))
				err := s.Do(t.Context(), &sched.Request{ID: "r", ISL: 10}, func(ctx context.Context, _ *sched.Booking) error {
					test.end(t, s)
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), test.want)
					return ctx.Err()
				})
				require.ErrorIs(t, err, test.want)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorContains(t, err, `request "r"`)
				require.NoError(t, s.Close())
			})
		})
	}
}

func TestDoHandsOnTheCallersContext(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 1)
	stop := errors.New("client gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	var kept context.Context
	err := s.Do(ctx, &sched.Request{ID: "r"}, func(ctx context.Context, b *sched.Booking) error {
		kept = ctx
		require.NoError(t, ctx.Err())
		cancel(stop)
		require.ErrorIs(t, context.Cause(ctx), stop)
		require.NoError(t, s.RemoveWorker(1))
		require.ErrorIs(t, b.Err(), sched.ErrWorkerRemoved)
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, sched.ErrWorkerRemoved, "the caller's context ended first")

	addWorkers(t, s, 1)
	require.NoError(t, s.Do(t.Context(), &sched.Request{ID: "r"}, func(ctx context.Context, _ *sched.Booking) error {
		kept = ctx
		return nil
	}))
	require.ErrorIs(t, kept.Err(), context.Canceled, "the callback has returned")
}

// A callback that asks for another try gets it, with a context of its own.
func TestDoTriesElsewhereWhenTheWorkerGoesMeanwhile(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 2)
	tries := 0
	err := s.Do(t.Context(), &sched.Request{ID: "r"}, func(ctx context.Context, b *sched.Booking) error {
		if tries++; tries == 1 {
			require.NoError(t, s.RemoveWorker(b.Placement().Rank.Worker))
			<-ctx.Done()
			return sched.RetryElsewhere(ctx.Err())
		}
		return ctx.Err()
	})
	require.NoError(t, err)
	require.Equal(t, 2, tries)
}

func TestSecondReleaseNamesTheRequest(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 1)
	b := schedule(t, s, sched.Request{ID: "r1", ISL: 10})
	require.NoError(t, b.PrefillDone())
	require.Equal(t, sched.ErrUnchanged, b.PrefillDone())
	require.NoError(t, b.Release())
	for _, call := range []func() error{b.Release, b.PrefillDone, b.Touch, b.AddOutputBlock} {
		err := call()
		require.ErrorIs(t, err, sched.ErrUnchanged)
		require.EqualError(t, err, `turnstile: unchanged: request "r1": the booking has ended`)
	}
}

// Prompt, hashes and overlaps are not held against each other: each is taken as it stands.
func TestInputsThatDoNotAgreeAreAccepted(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 1)
	blocks := make([]uint64, 1000)
	for i := range blocks {
		blocks[i] = uint64(i)
	}
	b := schedule(t, s, sched.Request{
		ID: "r", ISL: 16, Blocks: blocks, Overlaps: []sched.Overlap{{Rank: rank(1), Device: 2000}},
	})
	require.EqualValues(t, 16, b.Placement().CachedTokens, "what is cached never exceeds the prompt")
	require.Equal(t, []sched.RankLoad{{Rank: rank(1), Blocks: 1000, Requests: 1}}, s.Loads())
	require.NoError(t, b.Release())
	requireIdle(t, s)
}
