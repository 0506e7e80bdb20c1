package capacity

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
)

// DefaultSize is the number of hints the ring holds before it overflows.
const DefaultSize = 256

// Mark is a source's place in the ring: set while a hint of that source is
// under way, so that a source is in the ring at most once. Its owner embeds it
// and guards Record with the lock under which its load changes.
type Mark struct {
	set atomic.Bool // set by Record; cleared by the drainer, before it reads the load
}

// Set reports whether a hint of this source is under way.
func (m *Mark) Set() bool { return m.set.Load() }

// Ring carries hints, "capacity may have been freed at this source", from many
// producers to one drainer at a time. A hint is never lost: what does not fit
// raises the overflow flag, which has the drainer look at all sources.
//
// Steps of a producer, under its source's lock, after the load has changed:
//
//	mark set already: done, the load is read after it is cleared
//	count it, set the mark, push; if the push fails, raise the flag
//
// Steps of the drainer:
//
//	swap the flag out; pop until nothing comes;
//	for each source: clear its mark, then have its load read.
//	A pop that fails while any mark is set proves nothing (xsync's TryDequeue
//	also fails when it loses a race, and a producer may stand between its mark
//	and its push): that counts as an overflow too.
//	After an overflow all marks are cleared and all sources looked at.
//
// Why no hint is lost: a load change that finds its mark set was made before
// that mark is cleared, hence before the load is read for it. One that finds the
// mark clear sets it, and from then until the drainer clears it either the
// source is in the ring, or the flag is up, or its producer is in between and
// the count of marks is not zero.
//
// Tried and left: a ring without marks (a busy rank fills it alone); a flag that
// is read first and cleared last (loses an overflow that falls in between).
//
// Cost on two cores: a source already marked, one load; else about 30 ns.
type Ring[S any] struct {
	queue *xsync.MPMCQueueOf[S]
	// overflow is raised by producers and swapped out by the drainer.
	overflow atomic.Bool
	// marked counts the marks that are set: up by producers, down by the drainer.
	marked atomic.Int64
	// overflows counts drains that looked at all sources; written by the drainer.
	overflows atomic.Int64
	mark      func(S) *Mark
}

// NewRing returns an empty ring for size hints; mark finds a source's mark.
func NewRing[S any](size int, mark func(S) *Mark) *Ring[S] {
	return &Ring[S]{queue: xsync.NewMPMCQueueOf[S](max(size, 1)), mark: mark}
}

// Record leaves a hint for a source. REQUIRES: the lock under which the
// source's load changes is held.
func (r *Ring[S]) Record(source S) {
	mark := r.mark(source)
	if mark.set.Load() {
		return
	}
	r.marked.Add(1)
	perturb.Point()
	mark.set.Store(true)
	perturb.Point()
	if !r.queue.TryEnqueue(source) {
		perturb.Point()
		r.overflow.Store(true)
	}
}

// Drain takes out all hints and calls visit for each source, after its mark was
// cleared. It reports whether hints may be missing: then the caller calls
// ClearAll and looks at every source. REQUIRES: one drainer at a time.
func (r *Ring[S]) Drain(visit func(S)) (overflowed bool) {
	overflowed = r.overflow.Swap(false)
	for {
		perturb.Point()
		source, ok := r.queue.TryDequeue()
		if !ok {
			break
		}
		r.Forget(source)
		perturb.Point()
		visit(source)
	}
	if r.marked.Load() != 0 {
		overflowed = true
	}
	if overflowed {
		r.overflows.Add(1)
	}
	return overflowed
}

// ClearAll clears the marks of all sources given. What is left in the ring
// afterwards is harmless: a hint too many.
func (r *Ring[S]) ClearAll(sources func(yield func(S) bool)) {
	for source := range sources {
		r.Forget(source)
	}
}

// Forget clears the mark of one source, which is going away. What it left in
// the ring is harmless.
func (r *Ring[S]) Forget(source S) {
	if r.mark(source).set.Swap(false) {
		r.marked.Add(-1)
	}
}

// Pending reports whether a hint may be under way.
func (r *Ring[S]) Pending() bool { return r.marked.Load() != 0 || r.overflow.Load() }

// Overflows returns how many drains had to have all sources looked at.
func (r *Ring[S]) Overflows() int64 { return r.overflows.Load() }
