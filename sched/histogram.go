package sched

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// Histogram says how often a measure fell into which of its buckets. Each bound
// is twice the one before.
type Histogram struct {
	// Bounds are the upper bounds of the buckets, inclusive. Counts has one more,
	// for what is above the last bound.
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

// buckets is what the histograms of one measure have in common.
type buckets struct {
	first int64   // the first bound, in measures
	scale float64 // what one measure is in the unit reported
	n     int
}

var (
	waitBuckets      = buckets{first: 1_000_000, scale: nanosecond, n: 18} // 1 ms to 131 s
	selectionBuckets = buckets{first: 250, scale: nanosecond, n: 17}       // 250 ns to 16 ms
	epochBuckets     = buckets{first: 1, scale: 1, n: 10}                  // 1 to epochSteps
)

const nanosecond = 1e-9 // in seconds

// histogram counts measures by powers of two. It is made when something is first
// measured; nil is empty.
type histogram struct {
	buckets
	sum atomic.Int64
	// counts are written by whoever measures, read by Stats.
	counts []atomic.Int64
}

func (b buckets) histogram() *histogram {
	return &histogram{buckets: b, counts: make([]atomic.Int64, b.n+1)}
}

func (h *histogram) record(measure int64) {
	// Bucket i ends at first·2ⁱ, inclusive.
	i := bits.Len64(uint64((max(1, measure) - 1) / h.first))
	h.counts[min(i, h.n)].Add(1)
	h.sum.Add(max(0, measure))
}

// snapshot describes a histogram of these buckets, or nil.
func (b buckets) snapshot(h *histogram) Histogram {
	out := Histogram{Bounds: make([]float64, b.n), Counts: make([]int64, b.n+1)}
	for i := range out.Bounds {
		// One division rounds once: 0.004, not 0.004000000000000001.
		out.Bounds[i] = float64(b.first<<i) / math.Round(1/b.scale)
	}
	if h != nil {
		out.Sum = float64(h.sum.Load()) * b.scale
		for i := range h.counts {
			out.Counts[i] = h.counts[i].Load()
		}
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
