package shards_test

import (
	"fmt"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// path returns n block hashes that follow the first shared ones, which are the
// same for every seed.
func path(seed uint64, shared, n int) []uint64 {
	r := seeded(seed)
	out := make([]uint64, n)
	for i := range out {
		if out[i] = r.Uint64(); i < shared {
			out[i] = uint64(i) + 1
		}
	}
	return out
}

// BenchmarkBookRelease books on a rank and releases, with the load published and
// the prefix index kept.
func BenchmarkBookRelease(b *testing.B) {
	for _, bm := range []struct {
		name           string
		blocks, shared int
	}{{"blocks=0", 0, 0}, {"blocks=24", 24, 0}, {"blocks=24/shared=4", 24, 4}} {
		b.Run(bm.name, func(b *testing.B) {
			env := timeless()
			s, other := shards.NewShard(rank(1, 0), env), shards.NewShard(rank(2, 0), env)
			booked(s, tokens(100), path(1, bm.shared, bm.blocks)...)
			booked(other, tokens(100), path(2, bm.shared, bm.blocks)...)
			bk, blocks := tokens(384), path(3, bm.shared, bm.blocks)
			b.ReportAllocs()
			for b.Loop() {
				s.Lock()
				s.BookLocked(bk, blocks)
				s.Unlock()
				s.Lock()
				s.ReleaseLocked(bk)
				s.Unlock()
			}
		})
	}
}

// BenchmarkHint is the release of prefill load with hints on.
func BenchmarkHint(b *testing.B) {
	for _, marked := range []bool{false, true} {
		b.Run(fmt.Sprintf("marked=%t", marked), func(b *testing.B) {
			env := timeless()
			env.EnableHints()
			s := shards.NewShard(rank(1, 0), env)
			bk := tokens(384)
			b.ReportAllocs()
			for b.Loop() {
				s.Lock()
				s.BookLocked(bk, nil)
				s.ReleaseLocked(bk)
				s.Unlock()
				if !marked {
					env.Hints().Drain(func(*shards.Shard) {})
				}
			}
		})
	}
}

// BenchmarkView reads the published load of a rank.
func BenchmarkView(b *testing.B) {
	s := shards.NewShard(rank(1, 0), timeless())
	booked(s, tokens(384), path(1, 0, 24)...)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = s.View()
		}
	})
}

// BenchmarkPrefixes finds who holds a prompt's prefix among the prompts of many
// ranks.
func BenchmarkPrefixes(b *testing.B) {
	for _, ranks := range []int{16, 2048} {
		env := timeless()
		all := make([]*shards.Shard, ranks)
		for i := range all {
			all[i] = shards.NewShard(rank(uint64(i)+1, 0), env)
			booked(all[i], tokens(384), path(uint64(i)+1, 4, 24)...)
		}
		for _, bm := range []struct {
			name   string
			blocks []uint64
		}{{"absent", path(1<<40, 0, 24)}, {"shared=4", path(1<<40, 4, 24)}, {"whole=24", path(1, 4, 24)}} {
			b.Run(fmt.Sprintf("find/ranks=%d/%s", ranks, bm.name), func(b *testing.B) {
				var walk shards.PrefixWalk
				b.ReportAllocs()
				for b.Loop() {
					walk.Find(env.Prefixes(), bm.blocks)
				}
			})
		}
		b.Run(fmt.Sprintf("book+release/ranks=%d", ranks), func(b *testing.B) {
			bk := &lifecycle.Booking{Tokens: 384, Tracked: true, Expected: lifecycle.NoDuration}
			blocks := path(1<<41, 4, 24)
			b.ReportAllocs()
			for b.Loop() {
				all[0].Lock()
				all[0].BookLocked(bk, blocks)
				all[0].ReleaseLocked(bk)
				all[0].Unlock()
			}
		})
	}
}
