package pool

import (
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// thresholds say above which load a rank is busy for a class: for the classes that a
// caller asked for, by the kind of worker. Successive worlds with the same profile
// share them, so that a change of the pool computes none anew; the first caller that
// asks for a class or a kind computes it. They were computed for each class and worker
// with every world: with 1,000 classes and 2,048 ranks, 49 MB and 52 ms.
type thresholds struct {
	profile *policy.Profile
	kinds   *shards.Kinds
	// classes are written by the callers that compute them, and read by all. Two that
	// do so at a time find the same.
	classes []atomic.Pointer[threshold]
}

// threshold is that of one class. It is immutable.
type threshold struct {
	byKind []lifecycle.BusyAbove
	// inUse are the kinds of a table; most is the greatest of their loads in each
	// part, above which a rank is busy whatever its worker.
	inUse *shards.KindsInUse
	most  lifecycle.BusyAbove
}

// thresholdsFor returns the thresholds for a profile and a table: those of the world
// before, if they are.
func (w *World) thresholdsFor() *thresholds {
	kinds, _ := w.Table.Kinds()
	if w.busy != nil && w.busy.profile == w.Profile && w.busy.kinds == kinds {
		return w.busy
	}
	return &thresholds{
		profile: w.Profile, kinds: kinds, classes: make([]atomic.Pointer[threshold], w.Profile.Len()),
	}
}

// BusyAbove returns the load above which a rank is busy for a class.
func (w *World) BusyAbove(class int, slot *shards.Slot) *lifecycle.BusyAbove {
	return &w.busyByKind(class)[slot.Kind]
}

// busyByKind returns the load above which the ranks of each kind of worker are busy
// for a class, for all kinds that the table has.
func (w *World) busyByKind(class int) []lifecycle.BusyAbove {
	t := w.busy.classes[class].Load()
	if _, last := w.Table.Kinds(); t == nil || int(last) >= len(t.byKind) {
		t = w.threshold(class)
	}
	return t.byKind
}

// busyWhatever returns the load above which a rank is busy for a class whatever its
// worker.
func (w *World) busyWhatever(class int) *lifecycle.BusyAbove {
	t := w.busy.classes[class].Load()
	if t == nil || t.inUse != w.Table.KindsInUse() {
		t = w.threshold(class)
	}
	return &t.most
}

// threshold computes that of a class.
func (w *World) threshold(class int) *threshold {
	rules, kinds := w.Profile.Class(class), w.busy.kinds.All()
	t := &threshold{byKind: make([]lifecycle.BusyAbove, len(kinds)), inUse: w.Table.KindsInUse()}
	for i := range kinds {
		t.byKind[i] = busyAbove(rules, &kinds[i])
	}
	for _, kind := range t.inUse.Numbers {
		above := &t.byKind[kind]
		t.most.Prefill = max(t.most.Prefill, above.Prefill)
		t.most.Requests = max(t.most.Requests, above.Requests)
		t.most.Blocks = max(t.most.Blocks, above.Blocks)
	}
	w.busy.classes[class].Store(t)
	return t
}

// busyAbove returns the load above which the ranks of a kind of worker are busy for a
// class.
func busyAbove(c *policy.Class, kind *shards.Kind) lifecycle.BusyAbove {
	above := lifecycle.NeverBusy()
	if tokens, ok := c.BusyAbove(kind.MaxBatchedTokens); ok {
		above.Prefill = tokens
	}
	if c.MaxRequestsPerRank > 0 {
		above.Requests = c.MaxRequestsPerRank - 1
	}
	if blocks, ok := c.BlocksAbove(kind.TotalKVBlocks); ok {
		above.Blocks = blocks
	}
	return above
}
