package shards

import (
	"math/bits"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
)

const (
	// fewHolders is how many holders need no bitmap.
	fewHolders = 5
	// fewAgain is how many holders give a bitmap up again.
	fewAgain = fewHolders / 2
)

// holders is the set of the ranks that hold an edge of Prefixes: their seats, in a
// few words or, if they are more, a bitmap.
//
// Guarantee: to enter and to leave take constant time and, but for a change of
// size, no memory. A reader finds a rank that is in the set all the while it looks,
// and never one that is not.
//
// How: there is one writer at a time, which holds the edge's lock; readers load the
// words. A seat keeps its word as long as it is in the set. A set that changes its
// form or grows is replaced by another, and the old one then stays as it is, so
// that a reader that still has it finds all that do not change meanwhile. A bit is
// set before it is counted, and cleared after, so that the count is never more than
// there are.
type holders struct {
	count atomic.Int32
	// few has seats, 0 where there is none; without meaning if there are words.
	few [fewHolders]atomic.Int32
	// words have a bit for each seat; nil for few.
	words []atomic.Uint64
}

// has reports whether a seat is in the set; it must not be 0.
func (h *holders) has(seat int32) bool {
	if h.words == nil {
		for i := range h.few {
			if h.few[i].Load() == seat {
				return true
			}
		}
		return false
	}
	at := int(seat >> 6)
	return at < len(h.words) && h.words[at].Load()>>(seat&63)&1 != 0
}

// enter adds a seat; it reports false if there is no room for it. REQUIRES: the
// edge's lock; the seat is not in the set.
func (h *holders) enter(seat int32) bool {
	if invariants.Enabled && h.has(seat) {
		invariants.Violated("seat %d enters an edge twice", seat)
	}
	switch {
	case h.words == nil:
		for i := range h.few {
			if h.few[i].Load() == 0 {
				h.few[i].Store(seat)
				h.count.Add(1)
				return true
			}
		}
		return false
	case int(seat>>6) >= len(h.words):
		return false
	}
	word := &h.words[seat>>6]
	word.Store(word.Load() | 1<<(seat&63))
	h.count.Add(1)
	return true
}

// leave takes a seat out and returns how many are left. REQUIRES: the edge's lock;
// the seat is in the set.
func (h *holders) leave(seat int32) (left int32) {
	if invariants.Enabled && !h.has(seat) {
		invariants.Violated("seat %d leaves an edge that it does not hold", seat)
	}
	left = h.count.Add(-1)
	if h.words != nil {
		word := &h.words[seat>>6]
		word.Store(word.Load() &^ (1 << (seat & 63)))
		return left
	}
	for i := range h.few {
		if h.few[i].Load() == seat {
			h.few[i].Store(0)
		}
	}
	return left
}

// copy makes an empty set, of few, the same as another. REQUIRES: the lock of the
// other's edge; no other goroutine knows this one yet.
func (h *holders) copy(other *holders) {
	for i := range h.few {
		h.few[i].Store(other.few[i].Load())
	}
	h.count.Store(other.count.Load())
}

// wider returns a copy as a bitmap, with one seat more unless that is 0.
// REQUIRES: the edge's lock.
func (h *holders) wider(seat int32) *holders {
	last := max(seat, int32(len(h.words))<<6-1)
	if h.words == nil {
		for i := range h.few {
			last = max(last, h.few[i].Load())
		}
	}
	next := &holders{words: make([]atomic.Uint64, last>>6+1)}
	if h.words == nil {
		for i := range h.few {
			if held := h.few[i].Load(); held != 0 {
				next.enter(held)
			}
		}
	}
	for i := range h.words {
		next.words[i].Store(h.words[i].Load())
	}
	next.count.Add(h.count.Load() - next.count.Load())
	if seat != 0 {
		next.enter(seat)
	}
	return next
}

// narrower returns a copy without a bitmap. REQUIRES: the edge's lock; there are
// few in the set.
func (h *holders) narrower() *holders {
	next := &holders{}
	h.each(func(seat int32) bool { return next.enter(seat) })
	return next
}

// each yields the seats; one that leaves and enters meanwhile may come twice.
func (h *holders) each(yield func(seat int32) bool) {
	for i := range h.few {
		if seat := h.few[i].Load(); h.words == nil && seat != 0 && !yield(seat) {
			return
		}
	}
	for i := range h.words {
		for word := h.words[i].Load(); word != 0; word &= word - 1 {
			if !yield(int32(i<<6 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
