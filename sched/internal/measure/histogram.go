// Package measure counts and times what a scheduler does, for its statistics. What
// is measured on the hot path costs an addition or two; nothing is made before
// something is measured.
package measure

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Buckets is what the histograms of one measure have in common. Bucket i ends at
// First·2ⁱ, inclusive; one more holds what is above the last.
type Buckets struct {
	First int64   // the first bound, in measures
	Scale float64 // what one measure is in the unit reported
	N     int
}

// Histogram counts measures by powers of two. It is made when something is first
// measured; nil is empty.
type Histogram struct {
	Buckets
	// sum and counts are written by whichever goroutine measures and read by all.
	sum    atomic.Int64
	counts []atomic.Int64
}

// Reading is a histogram at one moment, in the unit reported.
type Reading struct {
	Bounds []float64 // the upper bounds of the buckets, inclusive
	Counts []int64   // one more: what is above the last bound
	Sum    float64
}

// Histogram returns an empty histogram with these buckets.
func (b Buckets) Histogram() *Histogram {
	return &Histogram{Buckets: b, counts: make([]atomic.Int64, b.N+1)}
}

// Record counts one measure.
func (h *Histogram) Record(measure int64) {
	i := bits.Len64(uint64((max(1, measure) - 1) / h.First))
	h.counts[min(i, h.N)].Add(1)
	h.sum.Add(max(0, measure))
}

// Read reads a histogram of these buckets, or nil.
func (b Buckets) Read(h *Histogram) Reading {
	out := Reading{Bounds: make([]float64, b.N), Counts: make([]int64, b.N+1)}
	for i := range out.Bounds {
		// One division rounds once: 0.004, not 0.004000000000000001.
		out.Bounds[i] = float64(b.First<<i) / math.Round(1/b.Scale)
	}
	if h != nil {
		out.Sum = float64(h.sum.Load()) * b.Scale
		for i := range h.counts {
			out.Counts[i] = h.counts[i].Load()
		}
	}
	return out
}
