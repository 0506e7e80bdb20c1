package pool

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Request is what choosing a rank for a request needs to know of it.
type Request struct {
	ISL    int64
	Blocks []uint64
	// Overlaps are in rank order, each rank once.
	Overlaps    []lifecycle.Overlap
	Constraints shards.Constraints
	// Prefer is chosen if it is eligible and HasPrefer is set.
	HasPrefer bool
	Prefer    lifecycle.RankID
	// Taints are the preferred taints, by name.
	Taints []TaintWeight
	// Tracked: the prefill tokens count.
	Tracked bool
	// Params are the configured parameters with the request's overrides.
	Params selector.Params
	// Expected is the expected prefill duration, lifecycle.NoDuration for none.
	Expected time.Duration
	// ExpectedOSL is the expected output length in tokens, 0 for unknown.
	ExpectedOSL int64
	// Scratch is room for sorting the overlaps; who uses the request again keeps it.
	Scratch []lifecycle.Overlap
}

// TaintWeight draws a request towards workers that have the taint, or away.
type TaintWeight struct {
	Taint  string
	Weight float64
}

// Overlap returns what a rank holds of the prompt.
func (r *Request) Overlap(rank lifecycle.RankID) lifecycle.Overlap {
	at, found := slices.BinarySearchFunc(r.Overlaps, rank, func(o lifecycle.Overlap, rank lifecycle.RankID) int {
		return o.Rank.Compare(rank)
	})
	if !found {
		return lifecycle.Overlap{Rank: rank}
	}
	return r.Overlaps[at]
}

// Cached returns the prompt tokens expected in the cache of a rank that holds o.
func (r *Request) Cached(o *lifecycle.Overlap) int64 {
	return r.Params.Tiers.CachedTokens(o.Device, o.Host, o.Disk, r.Params.BlockSize, r.ISL)
}

// CachedOn returns the prompt tokens expected in a rank's cache.
func (r *Request) CachedOn(rank lifecycle.RankID) int64 {
	if len(r.Overlaps) == 0 {
		return 0
	}
	o := r.Overlap(rank)
	return r.Cached(&o)
}

// BestCached returns the most prompt tokens that any eligible rank has cached,
// overload aside.
func (r *Request) BestCached(t *shards.Table) int64 {
	best := int64(0)
	for i := range r.Overlaps {
		o := &r.Overlaps[i]
		cached := r.Cached(o)
		if cached <= best || r.Constraints.Pinned && r.Constraints.Pin != o.Rank {
			continue
		}
		if check := t.CheckRank(&r.Constraints, o.Rank); check == shards.Eligible || check == shards.Overloaded {
			best = cached
		}
	}
	return best
}

func (r *Request) taintWeight(w *shards.Worker) float64 {
	sum := 0.0
	for _, t := range r.Taints {
		if w.HasTaint(t.Taint) {
			sum += t.Weight
		}
	}
	return sum
}

// SortOverlaps returns the overlaps in rank order: the slice itself if it is so
// already, else a copy in scratch. It is not ok if a rank stands there twice.
func SortOverlaps(overlaps, scratch []lifecycle.Overlap) (sorted []lifecycle.Overlap, ok bool) {
	byRank := func(a, b lifecycle.Overlap) int { return a.Rank.Compare(b.Rank) }
	if !slices.IsSortedFunc(overlaps, byRank) {
		overlaps = append(scratch[:0], overlaps...)
		slices.SortFunc(overlaps, byRank)
	}
	for i := 1; i < len(overlaps); i++ {
		if overlaps[i-1].Rank == overlaps[i].Rank {
			return nil, false
		}
	}
	return overlaps, true
}

// SortTaints returns the preferred taints by name, so that their weights are
// always added in the same order.
func SortTaints(weights map[string]float64) []TaintWeight {
	if len(weights) == 0 {
		return nil
	}
	sorted := make([]TaintWeight, 0, len(weights))
	for taint, weight := range weights {
		sorted = append(sorted, TaintWeight{taint, weight})
	}
	slices.SortFunc(sorted, func(a, b TaintWeight) int { return cmp.Compare(a.Taint, b.Taint) })
	return sorted
}
