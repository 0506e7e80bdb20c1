package pool

import (
	"testing"

	"github.com/seed-3c5df8a4/turnstile/shards"
)

// BenchmarkScan looks at every rank of a pool for a class with a threshold that
// depends on the worker, and finds ranks by their id.
func BenchmarkScan(b *testing.B) {
	workers := make([]shards.Worker, 2048)
	for i := range workers {
		workers[i] = shards.Worker{ID: uint64(i), Ranks: 1, MaxBatchedTokens: 1000 + int64(i%3)}
	}
	f := newFleet(b, workers...)
	class := classOf(b, f.world, "frac")
	r := &Request{ISL: 4096, Tracked: true, Params: params()}
	b.Run("look", func(b *testing.B) {
		look := &Look{}
		b.ReportAllocs()
		for b.Loop() {
			look.TakeAll(f.world, r, class, At(0))
		}
	})
	b.Run("find", func(b *testing.B) {
		places := 0
		b.ReportAllocs()
		for b.Loop() {
			for i := range workers {
				places += f.world.Table.Slot(rank(uint64(i), 0))
			}
		}
		_ = places
	})
}
