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
	// ID, Class as asked for, and Priority are for selectors of the embedder's.
	ID, Class string
	Priority  uint32

	ISL    int64
	Blocks []uint64
	// Overlaps list each rank once.
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
	// Scratch is room for Distinct. It stays with a request that is used again.
	Scratch []lifecycle.RankID
}

// LetGo forgets what belongs to the caller, and keeps the scratch.
func (r *Request) LetGo() {
	r.ID, r.Class = "", ""
	r.Blocks, r.Overlaps, r.Taints = nil, nil, nil
	r.Constraints = shards.Constraints{}
}

// TaintWeight draws a request towards workers that have the taint, or away.
type TaintWeight struct {
	Taint  string
	Weight float64
}

// Cached returns the prompt tokens expected in the cache of a rank that holds o.
func (r *Request) Cached(o *lifecycle.Overlap) int64 {
	return r.Params.Tiers.CachedTokens(o.Device, o.Host, o.Disk, r.Params.BlockSize, r.ISL)
}

// BestCached returns the most prompt tokens that any eligible rank has cached,
// overload aside.
func (r *Request) BestCached(t *shards.Table) int64 {
	if r.manyNamed(t) {
		return r.bestCachedOf(t, t.Selection(&r.Constraints, new(shards.Selection)))
	}
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

// manyNamed reports whether a selection takes less time than to look each overlap's
// worker up in the lists of the constraints.
func (r *Request) manyNamed(t *shards.Table) bool {
	c := &r.Constraints
	lookups := (len(c.Allowed) + len(c.Excluded)) * len(r.Overlaps)
	return lookups > 1024 && lookups > len(t.Slots()) && !c.Pinned
}

// bestCachedOf is BestCached, given the ranks that the constraints leave.
func (r *Request) bestCachedOf(t *shards.Table, set *shards.Selection) int64 {
	best, slots := int64(0), t.Slots()
	for i := range r.Overlaps {
		o := &r.Overlaps[i]
		cached := r.Cached(o)
		if cached <= best {
			continue
		}
		if place := t.Slot(o.Rank); place >= 0 && set.Has(&slots[place]) {
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

// few overlaps are compared pair by pair, which is faster than sorting them.
const few = 12

// Distinct reports whether the overlaps list each rank once. Many in no order are
// sorted in scratch, which may grow.
func Distinct(overlaps []lifecycle.Overlap, scratch *[]lifecycle.RankID) bool {
	if len(overlaps) <= few {
		for i := 1; i < len(overlaps); i++ {
			for j := range i {
				if overlaps[i].Rank == overlaps[j].Rank {
					return false
				}
			}
		}
		return true
	}
	ascending := true
	ranks := (*scratch)[:0]
	for i := range overlaps {
		ranks = append(ranks, overlaps[i].Rank)
		ascending = ascending && (i == 0 || ranks[i-1].Compare(ranks[i]) < 0)
	}
	*scratch = ranks
	if ascending {
		return true
	}
	slices.SortFunc(ranks, lifecycle.RankID.Compare)
	return len(slices.Compact(ranks)) == len(overlaps)
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
