package lifecycle

import (
	"math"
	"slices"
)

// BlockUnit is the weight of one whole block. Weights are multiples of
// 1/65,536 of a block, so that their sums are exact whatever the order.
const BlockUnit = 1 << 16

// DecayWeight returns the weight of a block that counts as the given fraction
// of a whole one, rounded to 1/65,536. It is not ok for a fraction outside
// [0, 1], NaN included.
func DecayWeight(fraction float64) (weight int64, ok bool) {
	if !(fraction >= 0 && fraction <= 1) {
		return 0, false
	}
	return int64(math.Round(fraction * BlockUnit)), true
}

// PathObserver is told which paths of prompt blocks are live on a rank, for an
// index over many ranks. It is called in the middle of an operation, at most
// once for each rank, and only if something changed: it must not call the rank
// nor keep the path.
type PathObserver interface {
	// PathLive tells that path[from:] has become live; path[:from] was already.
	// kept is a copy of path[from:] that is never written, and may be kept.
	PathLive(path []uint64, from int, kept []uint64)
	// PathGone tells that path[to:] is live no more; path[:to] still is.
	PathGone(path []uint64, to int)
}

// run is a stretch of live prompt blocks, one after the other, that the same
// bookings hold and that weigh the same, so that a prompt costs a step for each
// point where others part from it and not for each block. A block is identified
// by its hash and all before it, and counts once however many bookings hold it.
//
// A booking that holds a block of a run holds all of it: a booking ends, and another
// path goes on, only where a run ends. Booking a path that leaves a run halfway
// splits it. The lower half stays the same record, since bookings and the keys
// of its children mean its end; the halves share one array.
//
// Runs are not joined again when the requests that made them part have left: the next
// prompt mostly parts at the same point, and would pay for a split each time. So a run
// may have a single child with as many holders. As long as it lives, its blocks lie in
// as many runs as there were points at which a prompt parted or ended, and at worst in
// one each.
//
// A decay changes the weight of all blocks that only one booking holds, and
// may come with every output block. So that it need not walk the runs each time,
// those it has once covered belong to the booking, which keeps one weight for
// all (Booking.tailWeight). A run gets its own weight back when another booking
// comes to share it, on a walk that booking makes anyway.
type run struct {
	// hashes are never empty and never written. They may be part of an array;
	// what comes before them there is of blocks above.
	hashes []uint64
	parent *run
	// owner is the only holder, if the weight is kept there; else nil.
	owner *Booking
	// refs is the number of bookings that hold the run. It never grows from
	// parent to child.
	refs int64
	// weight of each block is in [0, BlockUnit]; without meaning if there is an
	// owner.
	weight int64
	// room holds the hash of a run of one block, which needs no array then. It
	// costs nothing: with it the record fills its size class.
	room [1]uint64
}

// set copies the hashes.
func (r *run) set(hashes []uint64) {
	if len(hashes) == 1 {
		r.room[0] = hashes[0]
		r.hashes = r.room[:]
		return
	}
	r.hashes = append(make([]uint64, 0, len(hashes)), hashes...)
}

func (r *run) blocks() int64 { return int64(len(r.hashes)) }

func (r *run) key() runKey { return runKey{r.parent, r.hashes[0]} }

func (r *run) currentWeight() int64 {
	if r.owner != nil {
		return r.owner.tailWeight
	}
	return r.weight
}

// match returns how many leading hashes are the run's. It looks at all but the
// first, which the run was found by.
func (r *run) match(hashes []uint64) int {
	own := r.hashes
	n := min(len(own), len(hashes))
	own, hashes = own[:n], hashes[:n]
	for i := 1; i < n; i++ {
		if own[i] != hashes[i] {
			return i
		}
	}
	return n
}

// disown gives the run its own weight back. All above it, up to the root, have
// theirs by then.
func (r *run) disown() {
	if o := r.owner; o != nil {
		r.weight, r.owner = o.tailWeight, nil
		o.tailLen -= r.blocks()
		o.tailAbove = r
	}
}

// tighten copies the hashes, once the blocks that came after them are gone, out
// of an array that is far too long for them.
func (r *run) tighten() {
	if cap(r.hashes) > 4*len(r.hashes)+slack {
		r.set(r.hashes)
	}
}

const (
	// smallMap is the number of runs up to which a map is never shrunk.
	smallMap = 256
	// slack is how many hashes more than four times its own a run may keep.
	slack = 32
	// smallPath is the length up to which the room for a path is kept.
	smallPath = 512
	// idleMap and idlePath are the same for a rank without prompt blocks: there may be
	// thousands of these, and what they keep is not needed.
	idleMap  = 8
	idlePath = 64
)

type runKey struct {
	parent *run
	hash   uint64 // the first
}

// blockTree is the prefix tree of a rank's live prompt blocks, kept flat: a
// run's children are found by key, not by a map in each run.
type blockTree struct {
	// runs is made with the first run, as most ranks may be idle.
	runs map[runKey]*run
	// peak is the most runs there were since the map was made.
	peak int
	// weight is the sum of the weights of all prompt and all output blocks.
	weight int64
	// observer may be nil.
	observer PathObserver
	// scratch has room for a path.
	scratch []uint64
}

// hold makes b a holder of the path of hashes and that path's end its leaf.
func (t *blockTree) hold(b *Booking, hashes []uint64) {
	if len(hashes) == 0 {
		return
	}
	var parent *run
	at := 0
	for more := true; more && at < len(hashes); {
		r := t.runs[runKey{parent, hashes[at]}]
		if r == nil {
			break
		}
		n := r.match(hashes[at:])
		if more = n == len(r.hashes); !more {
			r = t.split(r, n)
		}
		r.disown()
		r.refs++
		parent = r
		at += n
	}
	leaf := parent
	if at < len(hashes) {
		leaf = &run{parent: parent, refs: 1, weight: BlockUnit}
		leaf.set(hashes[at:])
		if t.runs == nil {
			t.runs = make(map[runKey]*run)
		}
		t.runs[leaf.key()] = leaf
		t.weight += leaf.blocks() * BlockUnit
	}
	t.peak = max(t.peak, len(t.runs))
	b.leaf, b.promptBlocks = leaf, len(hashes)
	b.tailAbove, b.tailLen, b.tailWeight = leaf, 0, 0
	if at < len(hashes) && t.observer != nil {
		t.observer.PathLive(hashes, at, leaf.hashes)
	}
}

// split makes a run of the first n blocks of r, which keeps the others, and
// returns it. Both are owned as r was: the caller disowns the new one.
func (t *blockTree) split(r *run, n int) *run {
	upper := new(run)
	*upper = *r
	// Its capacity is not cut: it tells tighten how long the array goes on.
	upper.hashes = r.hashes[:n]
	r.hashes, r.parent = r.hashes[n:], upper
	t.runs[upper.key()] = upper
	t.runs[r.key()] = r
	return upper
}

// drop ends b's hold on its path.
func (t *blockTree) drop(b *Booking) {
	if b.leaf == nil {
		return
	}
	r, live := b.leaf, b.promptBlocks
	for ; r != nil && r.refs == 1; r = r.parent {
		t.weight -= r.blocks() * r.currentWeight()
		delete(t.runs, r.key())
		live -= len(r.hashes)
	}
	gone := live < b.promptBlocks
	for ; r != nil; r = r.parent {
		r.refs--
		if gone {
			r.tighten()
		}
	}
	if gone && t.observer != nil {
		t.observer.PathGone(t.path(b), live)
	}
	b.leaf, b.tailAbove = nil, nil
	t.shrink()
}

// path returns the hashes of b's prompt blocks, first to last. They stand until
// the next call.
func (t *blockTree) path(b *Booking) []uint64 {
	n := b.promptBlocks
	var out []uint64
	if n > smallPath {
		out = make([]uint64, n)
	} else {
		t.scratch = slices.Grow(t.scratch[:0], n)
		out = t.scratch[:n]
	}
	for r := b.leaf; r != nil; r = r.parent {
		n -= len(r.hashes)
		copy(out[n:], r.hashes)
	}
	return out
}

// shrink gives memory back after a spike, and most of it once no blocks are left:
// deleting from a Go map never does. The copy is paid for by the deletions since
// the peak.
func (t *blockTree) shrink() {
	if len(t.runs) == 0 {
		if t.peak > idleMap {
			t.runs, t.peak = nil, 0
		}
		if cap(t.scratch) > idlePath {
			t.scratch = nil
		}
		return
	}
	if t.peak <= smallMap || len(t.runs) > t.peak/8 {
		return
	}
	old := t.runs
	t.runs, t.peak = make(map[runKey]*run, len(old)), len(old)
	for key, r := range old {
		t.runs[key] = r
	}
}

// setTail gives every prompt block that only b holds the weight w.
func (t *blockTree) setTail(b *Booking, w int64) {
	t.weight += b.tailLen * (w - b.tailWeight)
	b.tailWeight = w
	r := b.tailAbove
	for ; r != nil && r.refs == 1; r = r.parent {
		t.weight += r.blocks() * (w - r.weight)
		r.owner = b
		b.tailLen += r.blocks()
	}
	b.tailAbove = r
}

// tailTotal returns the weight of the prompt blocks that only b holds.
func (t *blockTree) tailTotal(b *Booking) int64 {
	sum := b.tailLen * b.tailWeight
	for r := b.tailAbove; r != nil && r.refs == 1; r = r.parent {
		sum += r.blocks() * r.weight
	}
	return sum
}

// prefix returns how many leading hashes are live if except, unless nil, held
// nothing.
func (t *blockTree) prefix(hashes []uint64, except *Booking) int {
	var parent *run
	at := 0
	for at < len(hashes) {
		r := t.runs[runKey{parent, hashes[at]}]
		if r == nil {
			break
		}
		if except != nil && r.refs == 1 {
			if except.holds(r) {
				break
			}
			except = nil // one other booking holds this and all that follows
		}
		n := r.match(hashes[at:])
		at += n
		if n < len(r.hashes) {
			break
		}
		parent = r
	}
	return at
}
