package pool

import (
	"math"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// World is all that decisions depend on and that changes seldom: one immutable
// value, replaced whole. A decision is made in one world, and stands only if
// that was still the world when it was booked.
type World struct {
	Table    *shards.Table
	Profile  *policy.Profile
	Selector selector.Selector
	// Draining: no new requests, those waiting may still go. Closed: nobody.
	Draining, Closed bool

	// Index finds the least loaded ranks; nil if the pool has none.
	Index *shards.LoadIndex

	// builtin: the selector is the library's own; load is what it goes by, needs
	// what it reads.
	builtin bool
	load    selector.Load
	needs   selector.Needs
	// busyAbove holds, for class c and worker w at c·workers+w, the active
	// prefill tokens above which the worker's ranks are busy for the class.
	busyAbove []int64
	// sameForAll holds busyAbove for each class that has the same for all
	// workers, −1 for the others.
	sameForAll []int64
}

// Made returns the world with what follows from its other fields filled in.
func (w World) Made() *World {
	workers := w.Table.Workers()
	w.builtin, w.load = selector.Builtin(w.Selector), selector.LoadOf(w.Selector)
	w.needs = needsSafely(w.Selector)
	w.busyAbove = make([]int64, 0, w.Profile.Len()*len(workers))
	w.sameForAll = make([]int64, w.Profile.Len())
	for class := range w.Profile.Len() {
		for i, worker := range workers {
			above, ok := w.Profile.Class(class).BusyAbove(worker.MaxBatchedTokens)
			if !ok {
				above = math.MaxInt64
			}
			w.busyAbove = append(w.busyAbove, above)
			if i == 0 {
				w.sameForAll[class] = above
			} else if above != w.sameForAll[class] {
				w.sameForAll[class] = -1
			}
		}
	}
	return &w
}

// BusyAbove returns the active prefill tokens above which a rank is busy for a
// class.
func (w *World) BusyAbove(class int, slot *shards.Slot) int64 {
	return w.busyAbove[class*len(w.Table.Workers())+slot.WorkerIndex]
}

// Busy reports whether a rank is busy for a class at the instant now gives.
func (w *World) Busy(class int, slot *shards.Slot, now *Instant) bool {
	above := w.BusyAbove(class, slot)
	if above == math.MaxInt64 {
		return false
	}
	view := slot.Shard.View()
	return now.Active(&view.Prefill) > above
}

// Classify returns a request's class and the cached tokens that count for it:
// the most that any eligible rank has.
func (w *World) Classify(name string, r *Request) (class int, cached int64) {
	cached = r.BestCached(w.Table)
	return w.Profile.Classify(name, max(0, r.ISL-cached)), cached
}

// ClassOf returns a request's class, and looks at what is cached only if that can
// matter.
func (w *World) ClassOf(name string, r *Request) int {
	if w.Profile.ByNameAlone() {
		return w.Profile.Classify(name, 0)
	}
	class, _ := w.Classify(name, r)
	return class
}

// Cost returns the scheduling cost of a request in tokens.
func Cost(isl, cached int64) int64 { return max(1, isl-cached) }
