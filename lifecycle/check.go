package lifecycle

import (
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/internal/wide"
)

// Check computes all that the rank keeps anew from its live bookings and
// returns an error that names the first difference. It is for tests and for
// builds that check invariants: it takes time in proportion to all blocks of
// all bookings. (Since when the anchor decays depends on the past, and is not
// checked.)
func (r *Rank) Check() error {
	if err := r.checkTouchOrder(); err != nil {
		return fmt.Errorf("lifecycle: touch order: %w", err)
	}
	if err := r.checkPrefill(); err != nil {
		return fmt.Errorf("lifecycle: prefill: %w", err)
	}
	if err := r.checkBlocks(); err != nil {
		return fmt.Errorf("lifecycle: blocks: %w", err)
	}
	return nil
}

func (r *Rank) checkTouchOrder() error {
	var n int64
	var prev *Booking
	for b := r.first; b != nil; b = b.touchNext {
		if b.rank != r {
			return fmt.Errorf("booking %q is not booked here", b.ID)
		}
		if b.touchPrev != prev {
			return fmt.Errorf("booking %q has a wrong predecessor", b.ID)
		}
		if n++; n > r.requests {
			break // also ends a cycle
		}
		prev = b
	}
	if n != r.requests || prev != r.last {
		return fmt.Errorf("%d bookings counted, or a wrong last one; %d kept", n, r.requests)
	}
	return nil
}

func (r *Rank) checkPrefill() error {
	want := 0
	for b := range r.All() {
		due := b.Tracked && b.Tokens > 0 && !b.prefillDone
		if due != b.inPrefill {
			return fmt.Errorf("booking %q is in the list: %t, should be: %t", b.ID, b.inPrefill, due)
		}
		if due {
			want++
		}
	}
	n := 0
	var sum wide.Sum
	var unmodelled int64
	var prev *Booking
	for b := r.prefill.head; b != nil; b = b.prefillNext {
		if b.rank != r || !b.inPrefill || b.prefillPrev != prev {
			return fmt.Errorf("booking %q is linked wrongly", b.ID)
		}
		if n++; n > want {
			break // also ends a cycle
		}
		sum.Add(b.Tokens)
		if b.Expected < 0 {
			unmodelled++
		}
		prev = b
	}
	if n != want || prev != r.prefill.tail {
		return fmt.Errorf("%d bookings in the list, or a wrong last one; want %d", n, want)
	}
	if sum != r.prefill.sum || unmodelled != r.prefill.unmodelled {
		return fmt.Errorf("tokens %v, unmodelled %d; kept %v and %d",
			sum, unmodelled, r.prefill.sum, r.prefill.unmodelled)
	}
	if anchor := r.prefill.head; (anchor == nil || anchor.Expected <= 0) && r.prefill.since != 0 {
		return fmt.Errorf("nothing decays since %d", r.prefill.since)
	}
	return nil
}

func (r *Rank) checkBlocks() error {
	refs := make(map[*run]int64, len(r.blocks.runs))
	var weight wide.Sum
	for b := range r.All() {
		weight.Add(b.outputWeight)
		if b.outputWeight < 0 || b.outputWeight > b.outputs*BlockUnit {
			return fmt.Errorf("booking %q: weight %d for %d output blocks", b.ID, b.outputWeight, b.outputs)
		}
		if err := b.checkPath(refs); err != nil {
			return fmt.Errorf("booking %q: %w", b.ID, err)
		}
	}
	for x, n := range refs {
		switch w := x.currentWeight(); {
		case x.refs != n:
			return fmt.Errorf("run at %#x: %d holders, kept %d", x.hashes[0], n, x.refs)
		case x.owner != nil && n != 1:
			return fmt.Errorf("run at %#x: owned and shared", x.hashes[0])
		case w < 0 || w > BlockUnit:
			return fmt.Errorf("run at %#x: weight %d", x.hashes[0], w)
		case r.blocks.runs[x.key()] != x:
			return fmt.Errorf("run at %#x: not found by its path", x.hashes[0])
		default:
			for range x.hashes {
				weight.Add(w)
			}
		}
	}
	if len(refs) != len(r.blocks.runs) {
		return fmt.Errorf("%d live runs, kept %d", len(refs), len(r.blocks.runs))
	}
	if kept := r.blocks.weight; kept < 0 || weight != wide.Of(kept) {
		return fmt.Errorf("weight %v, kept %d", weight.Clamped(), kept)
	}
	return nil
}

// checkPath compares what b keeps of its path with the runs, and counts it
// among their holders.
func (b *Booking) checkPath(refs map[*run]int64) error {
	depth, owned := 0, int64(0)
	var above *run // the last that is not owned
	for r := b.leaf; r != nil; r = r.parent {
		switch {
		case r.owner == nil && above == nil:
			above = r
		case r.owner != nil && (r.owner != b || above != nil):
			return fmt.Errorf("run at %#x: wrong owner", r.hashes[0])
		case r.owner != nil:
			owned += r.blocks()
		}
		refs[r]++
		if depth += len(r.hashes); depth > b.promptBlocks {
			break // also ends a cycle
		}
	}
	if depth != b.promptBlocks || owned != b.tailLen {
		return fmt.Errorf("%d prompt blocks, %d owned; kept %d and %d", depth, owned, b.promptBlocks, b.tailLen)
	}
	if above != b.tailAbove {
		return errors.New("wrong run before the owned tail")
	}
	return nil
}
