package sched

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// Histogram says how often a measure fell into which of its buckets. Each bound
// is twice the one before.
type Histogram struct {
	// Bounds are the upper bounds of the buckets, inclusive. Counts has one more,
	// for what is above the last bound. Both are empty before the first measure.
	Bounds []float64 `json:"bounds"`
	Counts []int64   `json:"counts"`
	// Sum is that of all measures.
	Sum float64 `json:"sum"`
}

// Count returns the number of measures.
func (h *Histogram) Count() (n int64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// histogram counts measures by powers of two of its unit. Nil is empty.
type histogram struct {
	unit  int64   // the first bound, in measures
	scale float64 // what one measure is in the unit reported
	sum   atomic.Int64
	// counts are written by whoever measures, read by Stats.
	counts []atomic.Int64
}

func newHistogram(unit int64, scale float64, buckets int) *histogram {
	return &histogram{unit: unit, scale: scale, counts: make([]atomic.Int64, buckets+1)}
}

const (
	nanosecond  = 1e-9 // in seconds
	millisecond = 1_000_000
)

// newWaits covers 1 ms to 131 s.
func newWaits() *histogram { return newHistogram(millisecond, nanosecond, 18) }

// newSelections covers 250 ns to 16 ms.
func newSelections() *histogram { return newHistogram(250, nanosecond, 17) }

// newEpochSizes covers an epoch's steps, 1 to epochSteps.
func newEpochSizes() *histogram { return newHistogram(1, 1, bits.Len(epochSteps)) }

func (h *histogram) record(measure int64) {
	// Bucket n ends at unit·2ⁿ, inclusive.
	n := bits.Len64(uint64((max(1, measure) - 1) / h.unit))
	h.counts[min(n, len(h.counts)-1)].Add(1)
	h.sum.Add(max(0, measure))
}

func (h *histogram) snapshot() Histogram {
	if h == nil {
		return Histogram{}
	}
	out := Histogram{
		Bounds: make([]float64, len(h.counts)-1), Counts: make([]int64, len(h.counts)),
		Sum: float64(h.sum.Load()) * h.scale,
	}
	for i := range out.Bounds {
		out.Bounds[i] = float64(h.unit<<i) * h.scale
	}
	for i := range h.counts {
		out.Counts[i] = h.counts[i].Load()
	}
	return out
}

// sampler times one decision of many. A nil sampler times none.
type sampler struct {
	every uint64
	times *histogram
}

const notSampled = -1 << 63

// begin returns when a decision begins, if it is one to be timed.
func (m *sampler) begin(s *Scheduler) int64 {
	if m == nil || rand.Uint64N(m.every) != 0 {
		return notSampled
	}
	return s.now()
}

// end notes how long a decision took that began at an instant.
func (m *sampler) end(s *Scheduler, began int64) {
	if began != notSampled {
		m.times.record(s.now() - began)
	}
}
