package actor

import (
	"fmt"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// record is what the engine knows of a request from the moment its id is claimed
// until its booking has ended. The embedded booking, placement and overlaps are
// guarded by the lock of the rank it is on.
type record struct {
	lifecycle.Booking
	// shard is the rank the booking is or was on; nil before it was booked.
	// Written under the locks of the rank it leaves and of the one it comes to;
	// read by all; a reader then looks again under the lock.
	shard     atomic.Pointer[shards.Shard]
	placement sched.Placement
	overlaps  []lifecycle.Overlap // for Transfer
	asked     pool.Request        // for TransferToBest
	// done is the channel of Done, once it was asked for or the booking ended
	// without its owner: then it is Engine.ended.
	done   atomic.Pointer[chan struct{}]
	handle booking
}

// lock takes the lock of the rank the booking is or was on. REQUIRES: it was
// booked.
func (r *record) lock() *shards.Shard {
	for {
		shard := r.shard.Load()
		shard.Lock()
		if r.shard.Load() == shard {
			return shard
		}
		shard.Unlock()
	}
}

// currentLocked returns why a call with that attempt changes nothing, nil if it
// may. Attempt 0 means the live one.
func (r *record) currentLocked(attempt uint64) error {
	switch {
	case attempt != 0 && attempt < r.Attempt:
		return &sched.Error{
			Code: sched.ErrStaleAttempt, Request: r.ID,
			Rule: fmt.Sprintf("attempt %d: a later one, %d, has taken its place", attempt, r.Attempt),
		}
	case attempt > r.Attempt:
		return &sched.Error{
			Code: sched.ErrNotFound, Request: r.ID, Rule: fmt.Sprintf("attempt %d: there is none yet", attempt),
		}
	case !r.Live():
		return &sched.Error{Code: sched.ErrUnchanged, Request: r.ID, Rule: "the booking has ended"}
	}
	return nil
}

// end does what remains once a booking is off its rank. withoutOwner: its owner
// is told by Done.
func (e *Engine) end(rec *record, withoutOwner bool) {
	e.ids.Delete(rec.ID)
	if e.config.BookingTTL > 0 {
		e.live.Add(-1)
	}
	if !withoutOwner {
		return
	}
	if c := rec.done.Swap(&e.ended); c != nil && c != &e.ended {
		close(*c)
	}
}

// booking is the handle of a booking. It stands for one attempt and goes along
// with its own Transfer.
type booking struct {
	e       *Engine
	rec     *record
	attempt atomic.Uint64
}

var _ engine.Booking = (*booking)(nil)

func (b *booking) init(e *Engine, rec *record, attempt uint64) {
	b.e, b.rec = e, rec
	b.attempt.Store(attempt)
}

// ID implements engine.Booking.
func (b *booking) ID() string { return b.rec.ID }

// Placement implements engine.Booking. It is read where it stands in both forms.
func (b *booking) Placement() sched.Placement {
	shard := b.rec.lock()
	defer shard.Unlock()
	return b.rec.placement
}

// Done implements engine.Booking.
func (b *booking) Done() <-chan struct{} {
	if c := b.rec.done.Load(); c != nil {
		return *c
	}
	c := make(chan struct{})
	if b.rec.done.CompareAndSwap(nil, &c) {
		return c
	}
	return *b.rec.done.Load()
}

// PrefillDone implements engine.Booking.
func (b *booking) PrefillDone() error { return b.call(op{what: prefillDone}) }

// Touch implements engine.Booking.
func (b *booking) Touch() error { return b.call(op{what: touch}) }

// AddOutputBlock implements engine.Booking.
func (b *booking) AddOutputBlock() error { return b.call(op{what: addBlock}) }

// AddOutputBlockWithDecay implements engine.Booking.
func (b *booking) AddOutputBlockWithDecay(decay float64) error {
	return b.call(op{what: addDecayedBlock, decay: decay})
}

// Transfer implements engine.Booking.
func (b *booking) Transfer(to sched.RankID) (sched.Placement, error) {
	p, err := b.e.change(op{what: transfer, rec: b.rec, attempt: b.attempt.Load(), to: to})
	if err == nil {
		b.attempt.Store(p.Attempt)
	}
	return p, err
}

// TransferToBest implements engine.Booking.
func (b *booking) TransferToBest(allowed []uint64) (sched.Placement, error) {
	p, err := b.e.change(op{what: transferToBest, rec: b.rec, attempt: b.attempt.Load(), allowed: allowed})
	if err == nil {
		b.attempt.Store(p.Attempt)
	}
	return p, err
}

// Release implements engine.Booking.
func (b *booking) Release() error { return b.call(op{what: release}) }

func (b *booking) call(o op) error {
	o.rec, o.attempt = b.rec, b.attempt.Load()
	_, err := b.e.change(o)
	return err
}
