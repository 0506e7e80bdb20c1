package pool

import (
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
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
	// Draining: no new requests; waiters may still run. Closed: they may not.
	Draining, Closed bool

	// Index finds the least loaded ranks; nil if the pool has none.
	Index *shards.LoadIndex

	// builtin: the selector is the library's own; load is the load it compares, needs
	// what it reads.
	builtin bool
	load    selector.Load
	needs   selector.Needs
	// busy says when a rank is busy for a class.
	busy *thresholds
	// ratios says how busy ranks are counted for the classes with a ratio.
	ratios *ratios
}

// Made returns the world with what follows from its other fields filled in; it may
// be made of another.
func (w World) Made() *World {
	w.builtin, w.load = selector.Builtin(w.Selector), selector.LoadOf(w.Selector)
	w.needs = needsSafely(w.Selector)
	w.busy = w.thresholdsFor()
	w.ratios = w.ratiosFor()
	return &w
}

// Watched says what beside the prefill can make a rank busy for a class of the
// profile.
func Watched(p *policy.Profile) (watched lifecycle.Watched) {
	for i := range p.Len() {
		c := p.Class(i)
		watched = watched.Or(lifecycle.Watched{Requests: c.MaxRequestsPerRank > 0, Blocks: c.KVBusyThresholdFrac != nil})
	}
	return watched
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
