package sequencer

import (
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
)

// Ticket is one arrival's place in line.
type Ticket[T any] struct {
	Value T
	next  *Ticket[T] // written before the push; read by the holder after the detach
}

// Arrivals is a lock-free stack (Treiber 1986) on which arrivals publish
// themselves. The place on it is the ticket: issue and publication are one step,
// so no ticket is ever missing in the middle.
//
// It is immune to ABA because it is only ever detached whole: a push whose
// compare-and-swap succeeds has linked to what is the head at that instant.
//
// Cost on two cores: one compare-and-swap, about 6 ns alone.
type Arrivals[T any] struct {
	head atomic.Pointer[Ticket[T]] // pushed by arrivals, detached by the holder of the turn
}

// Push publishes a ticket. The ticket must stay untouched until it is detached.
func (a *Arrivals[T]) Push(t *Ticket[T]) {
	for {
		head := a.head.Load()
		t.next = head
		perturb.Point()
		if a.head.CompareAndSwap(head, t) {
			return
		}
	}
}

// Empty reports whether nothing was pushed since the last Detach.
func (a *Arrivals[T]) Empty() bool { return a.head.Load() == nil }

// Detach takes all tickets and appends their values to dst in ticket order.
// Once it has returned the tickets may be used again.
func (a *Arrivals[T]) Detach(dst []T) []T {
	from := len(dst)
	for t := a.head.Swap(nil); t != nil; {
		next := t.next
		t.next = nil
		dst = append(dst, t.Value)
		t = next
	}
	for i, j := from, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// Take detaches all tickets and returns the last that was pushed, or nil. The
// others follow it, in no order that means anything; each is read with Next, once.
func (a *Arrivals[T]) Take() *Ticket[T] { return a.head.Swap(nil) }

// Next returns the ticket after t of those that Take has detached, and unlinks t,
// which may be used again then.
func (t *Ticket[T]) Next() *Ticket[T] {
	next := t.next
	t.next = nil
	return next
}
