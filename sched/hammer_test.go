package sched_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// hammerRounds is how often a race is run: seldom in normal builds, where it is
// rarely close.
func hammerRounds() int {
	if perturb.Enabled {
		return 4000
	}
	return 500
}

// In each round a rank is freed while somebody comes to wait for it, and nobody
// else is there to make up for a lost wake-up: the virtual clock would jump to the
// end of the context.
func TestReleaseRacesWithAnArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for round := range hammerRounds() {
			hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
			var wg sync.WaitGroup
			wg.Go(func() {
				for range round % 8 {
					runtime.Gosched()
				}
				_ = hold.Release()
			})
			b, err := s.Schedule(ctx, &sched.Request{ID: "arrives", ISL: 10})
			wg.Wait()
			require.NoError(t, err, "round %d", round)
			require.NoError(t, b.Release())
		}
		requireIdle(t, s)
	})
}

// The same with some who wait and some who leave.
func TestReleaseRacesWithLeavers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := under(t, queueing, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for round := range hammerRounds() / 2 {
			hold := schedule(t, s, sched.Request{ID: "hold", ISL: 10})
			impatient, leave := context.WithCancel(ctx)
			var wg sync.WaitGroup
			for i, c := range []context.Context{impatient, ctx, impatient, ctx} {
				wg.Go(func() {
					b, err := s.Schedule(c, &sched.Request{ID: string(rune('a' + i)), ISL: 10})
					if err == nil {
						err = b.Release()
					}
					if err != nil && c == impatient {
						assert.ErrorIs(t, err, sched.ErrCanceled)
					} else {
						assert.NoError(t, err)
					}
				})
			}
			for range round % 16 {
				runtime.Gosched()
			}
			wg.Go(leave)
			wg.Go(func() { _ = hold.Release() })
			wg.Wait()
			require.NoError(t, ctx.Err(), "round %d", round)
		}
		requireIdle(t, s)
	})
}

// Of two who come at once for one free place, one gets it.
func TestOnePlaceIsBookedOnce(t *testing.T) {
	t.Parallel()
	s := under(t, queueing, 1)
	for round := range hammerRounds() {
		var bookings [2]*sched.Booking
		var wg sync.WaitGroup
		for i := range bookings {
			wg.Go(func() {
				bookings[i], _ = s.Schedule(t.Context(), &sched.Request{ID: string(rune('a' + i)), ISL: 10, DoNotQueue: true})
			})
		}
		wg.Wait()
		require.NotEqual(t, bookings[0] == nil, bookings[1] == nil, "round %d", round)
		for _, b := range bookings {
			if b != nil {
				require.NoError(t, b.Release())
			}
		}
	}
	requireIdle(t, s)
}
