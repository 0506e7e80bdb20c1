package shards_test

import (
	"slices"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/shards"
)

// partedTrunk has all ranks hold a prompt of so many blocks, and one rank others
// that part from it at each, or after the last if points is 0.
func partedTrunk(list []*shards.Shard, blocks int, parted bool) []uint64 {
	trunk := path(1, blocks, blocks)
	for _, s := range list {
		booked(s, tokens(1), trunk...)
	}
	for at := 1; parted && at < blocks; at++ {
		booked(list[0], tokens(1), append(trunk[:at:at], uint64(at)<<32)...)
	}
	return trunk
}

// BenchmarkHold books on a rank that holds nothing and releases: a prompt of which
// all other ranks hold the beginning, or none, in one piece or with a parting point
// after each block.
func BenchmarkHold(b *testing.B) {
	for _, bm := range []struct {
		name          string
		ranks, blocks int
		shared, parts bool
	}{
		{"unshared/blocks=24", 2048, 20, false, false},
		{"shared/blocks=24", 2048, 20, true, false},
		{"shared/blocks=1028", 2048, 1024, true, false},
		{"parted/blocks=1028/ranks=64", 64, 1024, true, true},
		{"parted/blocks=1028/ranks=2048", 2048, 1024, true, true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			list := newShards(timeless(), bm.ranks)
			trunk := partedTrunk(list[1:], bm.blocks, bm.parts)
			s, bk := list[0], tokens(1)
			if !bm.shared {
				trunk = path(2, 0, len(trunk))
			}
			blocks := slices.Concat(trunk, path(3, 0, 4))
			b.ReportAllocs()
			for b.Loop() {
				s.Lock()
				s.BookLocked(bk, blocks)
				s.ReleaseLocked(bk)
				s.Unlock()
			}
		})
	}
}
