package sched_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// A live booking keeps of its request what a transfer needs, and that takes little
// room: the overlaps of 2,048 ranks are 80 KiB as they come.
func TestLiveBookingKeepsLittle(t *testing.T) {
	const ranks, bookings = 2048, 64
	s := newScheduler(t, sched.Config{BlockSize: 16})
	workers := make([]sched.Worker, ranks)
	for i := range workers {
		workers[i] = sched.Worker{ID: uint64(i), Ranks: 1}
	}
	require.NoError(t, s.SetWorkers(workers))
	overlaps := make([]sched.Overlap, ranks)
	for i := range overlaps {
		overlaps[i] = sched.Overlap{Rank: sched.RankID{Worker: uint64(i)}, Device: float64(i % 60), Host: float64(i % 2)}
	}
	live := make([]*sched.Booking, 0, bookings)
	before := testkit.HeapInUse()
	for i := range bookings {
		b, err := s.Schedule(t.Context(), &sched.Request{ID: fmt.Sprint(i), ISL: 1000, Overlaps: overlaps})
		require.NoError(t, err)
		live = append(live, b)
	}
	require.Less(t, (testkit.HeapInUse()-before)/bookings, int64(16<<10), "bytes for each booking")
	for i, b := range live {
		to := sched.RankID{Worker: uint64(ranks - 1 - i)}
		if b.Placement().Rank == to {
			continue
		}
		p, err := b.Transfer(to)
		require.NoError(t, err)
		require.Equal(t, overlaps[to.Worker], p.Overlap)
		require.Equal(t, p.Overlap, b.Placement().Overlap)
	}
	runtime.KeepAlive(overlaps)
}
