package overlaps_test

import (
	"fmt"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/overlaps"
)

// BenchmarkKeep packs lists of several lengths, beside a plain copy.
func BenchmarkKeep(b *testing.B) {
	for _, n := range []int{4, 64, 256, 2048} {
		var list []lifecycle.Overlap
		for i := range n {
			list = append(list, lifecycle.Overlap{Rank: lifecycle.RankID{Worker: 1000 + uint64(i)}, Device: float64(i % 500)})
		}
		b.Run(fmt.Sprintf("keep/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				kept = overlaps.Keep(list, list[n/2].Rank)
			}
		})
		b.Run(fmt.Sprintf("copy/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				copied = append([]lifecycle.Overlap(nil), list...)
			}
		})
	}
}

var (
	kept   overlaps.Kept
	copied []lifecycle.Overlap
)
