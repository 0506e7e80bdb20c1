package sched

import "github.com/seed-3c5df8a4/turnstile/sched/internal/measure"

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

// The buckets of what the scheduler measures.
var (
	waitBuckets      = measure.Buckets{First: 1_000_000, Scale: nanosecond, N: 18} // 1 ms to 131 s
	selectionBuckets = measure.Buckets{First: 250, Scale: nanosecond, N: 17}       // 250 ns to 16 ms
	epochBuckets     = measure.Buckets{First: 1, Scale: 1, N: 11}                  // 1 to 1,024 steps
)

const nanosecond = 1e-9 // in seconds
