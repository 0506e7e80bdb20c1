package pool

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// BenchmarkPrefixes looks and chooses for a prompt that all ranks hold, or more
// than half of them, with a parting point after each of so many blocks.
func BenchmarkPrefixes(b *testing.B) {
	for _, holders := range []int{1, 1500, 2048} {
		for _, points := range []int{1, 1024} {
			b.Run(fmt.Sprintf("ranks=2048/holders=%d/points=%d", holders, points), func(b *testing.B) {
				f, trunk := partedFleet(b, 2048, holders, points)
				r := &Request{ISL: 4096, Blocks: append(trunk, 7, 8, 9), Tracked: true, Params: params()}
				rnd := rand.New(rand.NewPCG(1, 2))
				look := &Look{Rand: rnd}
				b.ReportAllocs()
				for b.Loop() {
					look.Take(f.world, r, -1, At(0))
					if _, failed := look.Choose(rnd); failed != nil {
						b.Fatal(failed)
					}
					look.Reset()
				}
			})
		}
	}
}

// partedFleet has so many of the ranks hold a prompt, and one rank others that part
// from it after each of its blocks.
func partedFleet(t testing.TB, ranks, holders, points int) (*fleet, []uint64) {
	workers := make([]shards.Worker, ranks)
	for i := range workers {
		workers[i] = shards.Worker{ID: uint64(i), Ranks: 1}
	}
	f := newFleet(t, workers...)
	world := *f.world
	world.Index = world.Table.Reindex(nil, IndexWeights(params()))
	f.world = world.Made()
	f.world.Table.Shown(f.world.Index)
	trunk := make([]uint64, points)
	for i := range trunk {
		trunk[i] = uint64(i + 1)
	}
	for i := range holders {
		f.book(rank(uint64(i), 0), 1, lifecycle.NoDuration, trunk...)
	}
	for at := 1; at < points; at++ {
		f.book(rank(0, 0), 1, lifecycle.NoDuration, append(trunk[:at:at], 1<<32+uint64(at))...)
	}
	return f, trunk
}
