// Package report prints what the replays measured: one plain table, engines side
// by side, a section for each mode.
package report

import (
	"math"
	"slices"
	"time"
)

// Percentiles are nearest-rank percentiles of some durations.
type Percentiles struct {
	P50, P95, P99, Max time.Duration
}

// PercentilesOf sorts samples and returns their percentiles; of none they are 0.
func PercentilesOf(samples []time.Duration) Percentiles {
	if len(samples) == 0 {
		return Percentiles{}
	}
	slices.Sort(samples)
	at := func(share float64) time.Duration {
		rank := int(math.Ceil(share * float64(len(samples))))
		return samples[max(0, min(len(samples), rank)-1)]
	}
	return Percentiles{at(0.50), at(0.95), at(0.99), samples[len(samples)-1]}
}
