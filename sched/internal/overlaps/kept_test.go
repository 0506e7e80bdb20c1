package overlaps_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/overlaps"
)

// requireKept checks that what was kept is what was listed.
func requireKept(t *testing.T, list []lifecycle.Overlap, others ...lifecycle.RankID) {
	t.Helper()
	k := overlaps.Keep(list, lifecycle.RankID{Worker: math.MaxUint64, Rank: 12345})
	for i := range list {
		o := list[i]
		k.SetRank(o.Rank)
		require.Equal(t, o, k.Overlap(o.Rank))
		set := overlaps.Keep(list, o.Rank)
		require.Equal(t, o, set.Overlap(o.Rank))
	}
	require.Equal(t, list, k.List())
	for _, rank := range others {
		k.SetRank(rank)
		require.Equal(t, lifecycle.Overlap{Rank: rank}, k.Overlap(rank))
	}
}

func TestKept(t *testing.T) {
	t.Parallel()
	on := func(worker uint64, rank uint32) lifecycle.RankID { return lifecycle.RankID{Worker: worker, Rank: rank} }
	requireKept(t, nil, on(0, 0), on(1, 0))
	requireKept(t, []lifecycle.Overlap{
		{Rank: on(0, 0), Device: 1},
		{Rank: on(7, 3)},
		{Rank: on(7, math.MaxUint32), Device: 0.5, Host: 3, Disk: math.MaxFloat64},
		{Rank: on(math.MaxUint64, 0), Host: 1 << 52},
		{Rank: on(1, 0), Device: 1<<53 - 1, Host: 1 << 53, Disk: 1<<53 + 2},
		{Rank: on(2, 1), Device: math.SmallestNonzeroFloat64, Disk: 1 << 62},
		{Rank: on(math.MaxUint64, 1), Disk: 127.25},
	}, on(0, 1), on(7, 0), on(8, 3), on(1, 1))
}

func TestKeptAtRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		var list []lifecycle.Overlap
		for range rnd.IntN(40) {
			o := lifecycle.Overlap{Rank: lifecycle.RankID{Worker: rnd.Uint64() >> rnd.IntN(64), Rank: rnd.Uint32() >> rnd.IntN(32)}}
			for _, blocks := range []*float64{&o.Device, &o.Host, &o.Disk} {
				switch rnd.IntN(4) {
				case 0:
					*blocks = math.Abs(math.Float64frombits(rnd.Uint64()))
					if math.IsNaN(*blocks) || math.IsInf(*blocks, 0) {
						*blocks = 0
					}
				case 1:
					*blocks = float64(rnd.Uint64() >> rnd.IntN(64))
				case 2:
					*blocks = rnd.Float64()
				}
			}
			same := func(other lifecycle.Overlap) bool { return other.Rank == o.Rank }
			if !slices.ContainsFunc(list, same) {
				list = append(list, o)
			}
		}
		requireKept(t, list)
	}
}

// What is usual, whole blocks on the device of every rank, takes 4 bytes a rank.
func TestKeptTakesLittleRoom(t *testing.T) {
	var list []lifecycle.Overlap
	for i := range 2048 {
		list = append(list, lifecycle.Overlap{Rank: lifecycle.RankID{Worker: 1000 + uint64(i)}, Device: float64(i % 500)})
	}
	k := overlaps.Keep(list, list[7].Rank)
	require.LessOrEqual(t, k.Bytes(), 4*len(list)+1)
	// But for a garbage collection that empties the pool.
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { overlaps.Keep(list, list[7].Rank) }), 1.5)
}
