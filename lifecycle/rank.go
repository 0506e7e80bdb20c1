package lifecycle

import (
	"iter"
	"slices"
)

// Rank is the load of one rank and its live bookings. The zero value is an
// idle rank without an observer. A Rank must not be copied once used, and its
// owner must guard it and the bookings on it with one lock.
//
// A method that is given a booking which is not live on the rank changes
// nothing, so that a late or repeated call cannot spoil the sums. Only Book
// takes any booking; one that is live somewhere must not be booked.
type Rank struct {
	prefill prefillList
	blocks  blockTree

	// Touch order: first was touched longest ago.
	first, last *Booking
	requests    int64
}

// NewRank returns an idle rank that tells observer, unless nil, of the paths of
// prompt blocks that come and go.
func NewRank(observer PathObserver) *Rank {
	return &Rank{blocks: blockTree{observer: observer}}
}

// Book adds b with its Tokens, Expected and Tracked, and with the prompt blocks
// of the given hashes, first to last. It becomes the last in touch order. The
// slice is not kept. A booking that is untracked or has no tokens adds no
// prefill.
func (r *Rank) Book(b *Booking, blocks []uint64, now Now) {
	b.bookingState, b.inPrefill, b.prefillDone = bookingState{}, false, false
	clk := clock{now: now}
	r.insert(b, blocks, &clk)
}

// PrefillDone removes b's prefill tokens. It reports whether anything changed:
// true the first time, also for a booking that had no tokens to remove.
func (r *Rank) PrefillDone(b *Booking, now Now) (changed bool) {
	if b.rank != r || b.prefillDone {
		return false
	}
	b.prefillDone = true
	if b.inPrefill {
		clk := clock{now: now}
		r.prefill.remove(b, &clk)
	}
	return true
}

// AddOutputBlock adds a whole block of output. Output blocks are never shared.
func (r *Rank) AddOutputBlock(b *Booking) {
	if b.rank != r {
		return
	}
	b.outputs++
	r.setOutputWeight(b, b.outputWeight+BlockUnit)
}

// AddOutputBlockWithDecay adds a block of output, and gives it, all other output blocks
// of b, and those of its prompt blocks that no other request holds, the weight, which
// must be in [0, BlockUnit]: see DecayWeight.
func (r *Rank) AddOutputBlockWithDecay(b *Booking, weight int64) {
	if b.rank != r {
		return
	}
	b.outputs++
	r.setOutputWeight(b, b.outputs*weight)
	r.blocks.setTail(b, weight)
}

func (r *Rank) setOutputWeight(b *Booking, w int64) {
	r.blocks.weight += w - b.outputWeight
	b.outputWeight = w
}

// Release ends b, and its prefill if that was not done.
func (r *Rank) Release(b *Booking, now Now) {
	if b.rank != r {
		return
	}
	clk := clock{now: now}
	r.remove(b, &clk)
}

// Transfer moves b to another rank, of which the caller holds the lock too,
// with tokens as its prefill tokens there. Output blocks keep their weight;
// prompt blocks weigh what they weigh there, or 1 if they were not live.
// Prefill that is not done starts afresh, as the youngest there; done stays
// done. b becomes the last in the other rank's touch order. A transfer to r
// itself changes nothing.
func (r *Rank) Transfer(b *Booking, to *Rank, tokens int64, now Now) {
	if b.rank != r || to == r {
		return
	}
	clk := clock{now: now} // one instant for both ranks
	hashes := r.blocks.path(b)
	r.remove(b, &clk)
	b.Tokens = tokens
	to.insert(b, hashes, &clk)
}

// SetTokens corrects b's prefill tokens. It keeps its place in the prefill
// list and the time since when it decays; 0 takes it out, and from 0 it comes
// in as the youngest. With prefill done or untracked nothing changes.
func (r *Rank) SetTokens(b *Booking, tokens int64, now Now) {
	if b.rank != r || b.prefillDone || !b.Tracked {
		return
	}
	clk := clock{now: now}
	if b.inPrefill && tokens > 0 {
		r.prefill.sum.Sub(b.Tokens)
		r.prefill.sum.Add(tokens)
		b.Tokens = tokens
		return
	}
	if b.inPrefill {
		r.prefill.remove(b, &clk)
	}
	b.Tokens = tokens
	if tokens > 0 {
		r.prefill.append(b, &clk)
	}
}

// Touch makes b the last in touch order.
func (r *Rank) Touch(b *Booking) {
	if b.rank != r || b == r.last {
		return
	}
	r.unlinkTouch(b)
	r.linkTouch(b)
}

// Prompt returns the hashes of b's prompt blocks, first to last.
func (r *Rank) Prompt(b *Booking) []uint64 {
	if b.rank != r {
		return nil
	}
	return slices.Clone(r.blocks.path(b))
}

// Len returns the number of live bookings.
func (r *Rank) Len() int { return int(r.requests) }

// All yields the live bookings in touch order. The one that was yielded may be
// released or transferred before the next is asked for; otherwise the rank's
// bookings and their order must not change meanwhile.
func (r *Rank) All() iter.Seq[*Booking] {
	return func(yield func(*Booking) bool) {
		for b := r.first; b != nil; {
			next := b.touchNext
			if !yield(b) {
				return
			}
			b = next
		}
	}
}

// insert adds b with the output blocks it already has.
func (r *Rank) insert(b *Booking, hashes []uint64, clk *clock) {
	b.rank = r
	r.requests++
	r.linkTouch(b)
	if b.Tracked && b.Tokens > 0 && !b.prefillDone {
		r.prefill.append(b, clk)
	}
	r.blocks.weight += b.outputWeight
	r.blocks.hold(b, hashes)
}

// remove takes b out; what it keeps is what Transfer needs, and no pointer.
func (r *Rank) remove(b *Booking, clk *clock) {
	if b.inPrefill {
		r.prefill.remove(b, clk)
	}
	r.blocks.weight -= b.outputWeight
	r.blocks.drop(b)
	r.unlinkTouch(b)
	r.requests--
	b.rank = nil
}

func (r *Rank) linkTouch(b *Booking) {
	b.touchPrev, b.touchNext = r.last, nil
	if r.last != nil {
		r.last.touchNext = b
	} else {
		r.first = b
	}
	r.last = b
}

func (r *Rank) unlinkTouch(b *Booking) {
	if b.touchPrev != nil {
		b.touchPrev.touchNext = b.touchNext
	} else {
		r.first = b.touchNext
	}
	if b.touchNext != nil {
		b.touchNext.touchPrev = b.touchPrev
	} else {
		r.last = b.touchPrev
	}
	b.touchPrev, b.touchNext = nil, nil
}
