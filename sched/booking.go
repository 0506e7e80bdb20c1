package sched

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// handle gives the owner its booking.
func (s *Scheduler) handle(rec *record, attempt uint64) *Booking {
	rec.class.Admit()
	if s.config.BookingTTL > 0 {
		s.unlessEnded(rec, attempt, func() { s.expiry.booked(s) })
	}
	b := &rec.own
	if s.config.ReclaimLeaked {
		// A handle inside the record would keep itself alive.
		b = new(Booking)
		cleanup := runtime.AddCleanup(b, func(l leak) { l.reclaim() }, leak{s, rec})
		b.cleanup = &cleanup
	}
	rec.held.Store(attempt)
	b.s, b.rec = s, rec
	return b
}

// unlessEnded calls a function that reads the clock, for an owner that has not got the
// booking yet. If that ends the goroutine, no owner will ever have it, and the booking is
// leaked.
func (s *Scheduler) unlessEnded(rec *record, attempt uint64, read func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if s.end(rec, attempt, EventLeaked) == nil {
			s.counters.leaked.Inc()
		} else {
			s.ids.Free(&rec.claimed) // a query's
		}
		s.flush()
	}()
	read()
	returned = true
}

// leak is what is left of a handle that became garbage.
type leak struct {
	s   *Scheduler
	rec *record
}

func (l leak) reclaim() {
	if l.s.end(l.rec, l.rec.held.Load(), EventLeaked) == nil {
		l.s.counters.leaked.Inc()
	}
}

// ID returns the request's id.
func (b *Booking) ID() string {
	if !b.made() {
		return ""
	}
	return b.rec.ID
}

// Waited returns how long the request stood in line: 0 if it was admitted at once.
func (b *Booking) Waited() time.Duration {
	if !b.made() {
		return 0
	}
	return time.Duration(b.rec.waited)
}

// Class returns the name of the policy class in which the request was admitted: that
// of the profile then in force, whatever Request.Class asked for.
func (b *Booking) Class() string {
	if !b.made() {
		return ""
	}
	return b.rec.class.Name()
}

// Attempt returns the number of the attempt this handle stands for.
func (b *Booking) Attempt() uint64 {
	if !b.made() {
		return 0
	}
	return b.rec.held.Load()
}

// Placement says where the booking is or, if it has ended, was.
func (b *Booking) Placement() Placement {
	if !b.made() {
		return Placement{}
	}
	shard := b.rec.lock()
	defer shard.Unlock()
	return b.rec.placementLocked(shard)
}

// Worker returns the worker the booking is on, looked up now: that one
// instance in the current table is copied, never the table. If the booking has
// ended or the worker has gone, the error is ErrWorkerRemoved or the cause.
func (b *Booking) Worker() (Worker, error) {
	if !b.made() {
		return Worker{}, unmade()
	}
	shard := b.rec.lock()
	live, dead := b.rec.Live(), shard.DeadLocked()
	shard.Unlock()
	if !live {
		code := b.Err()
		switch {
		case code != nil:
		case dead:
			code = ErrWorkerRemoved // and about to be told so
		default:
			code = ErrNotFound
		}
		return Worker{}, &Error{Code: code, Request: b.ID(), Rule: "the booking has ended"}
	}
	w, err := b.s.Worker(shard.ID().Worker)
	if errors.Is(err, ErrNotFound) {
		id := shard.ID()
		err = &Error{
			Code: ErrWorkerRemoved, Request: b.ID(), Worker: id.Worker, HasWorker: true, Rule: "the booking's worker has gone",
		}
	}
	return w, err
}

// Done returns a channel that is closed when the booking ends without its owner:
// it expired, or its worker was removed. Err then says why.
func (b *Booking) Done() <-chan struct{} {
	if !b.made() {
		return alwaysDone
	}
	if c := b.rec.done.Load(); c != nil {
		return *c
	}
	c := make(chan struct{})
	if b.rec.done.CompareAndSwap(nil, &c) {
		return c
	}
	return *b.rec.done.Load()
}

// Err returns why the booking ended without its owner, ErrExpired or
// ErrWorkerRemoved, and nil as long as it has not.
func (b *Booking) Err() error {
	if !b.made() {
		return unmade()
	}
	return b.rec.cause(b.s)
}

// cause returns why the booking ended without its owner, nil if it did not.
func (r *record) cause(s *Scheduler) error {
	switch r.done.Load() {
	case &s.expired:
		return ErrExpired
	case &s.removed:
		return ErrWorkerRemoved
	default:
		return nil
	}
}

// PrefillDone removes the prefill tokens from the rank's load, once. It may be called
// at each token: a second call returns ErrUnchanged as it is, and allocates nothing.
func (b *Booking) PrefillDone() error {
	if !b.made() {
		return unmade()
	}
	return b.s.prefillDone(b.rec, b.rec.held.Load())
}

// Touch renews the booking's ttl, as every lifecycle call does.
func (b *Booking) Touch() error {
	if !b.made() {
		return unmade()
	}
	return b.s.touch(b.rec, b.rec.held.Load())
}

// AddOutputBlock adds a block of output to the rank's load.
func (b *Booking) AddOutputBlock() error {
	if !b.made() {
		return unmade()
	}
	return b.s.addOutputBlock(b.rec, b.rec.held.Load())
}

// AddOutputBlockWithDecay adds a block of output and gives it, all output blocks
// of the request and those trailing blocks of its prompt that only it holds the
// weight decay, in [0,1] of a block, rounded to 1/65,536.
func (b *Booking) AddOutputBlockWithDecay(decay float64) error {
	if !b.made() {
		return unmade()
	}
	return b.s.addDecayedOutputBlock(b.rec, b.rec.held.Load(), decay)
}

// Transfer moves the booking to another existing rank, in one step; no other rule is
// applied. The handle then stands for the new attempt. Its own rank is ErrUnchanged, a
// rank that does not exist ErrNoEndpoints.
func (b *Booking) Transfer(to RankID) (Placement, error) {
	if !b.made() {
		return Placement{}, unmade()
	}
	p, err := b.s.transfer(b.rec, b.rec.held.Load(), to)
	if err == nil {
		b.rec.held.Store(p.Attempt)
	}
	return p, err
}

// Release ends the booking, and its prefill if that was not done. Released twice, it
// returns an *Error of ErrUnchanged that names the request.
func (b *Booking) Release() error {
	if !b.made() {
		return unmade()
	}
	b.Detach()
	err := b.s.release(b.rec, b.rec.held.Load())
	runtime.KeepAlive(b)
	return err
}

// Detach leaves the booking to code that knows its id and attempt: it is not reclaimed
// when this handle becomes garbage.
func (b *Booking) Detach() {
	if b.made() && b.cleanup != nil {
		b.cleanup.Stop()
	}
}

// finish lets the owner know that its booking ended without it.
func (s *Scheduler) finish(r *record, how EventKind) {
	why := &s.expired
	if how == EventDropped {
		why = &s.removed
	}
	if c := r.done.Swap(why); c != nil { // made by Done
		close(*c)
	}
	if cancel := r.cancel.Load(); cancel != nil {
		(*cancel)(r.endedAlone(s))
	}
}

// cancelAtEnd has cancel called when the booking ends without its owner, or now if
// it has.
func (r *record) cancelAtEnd(s *Scheduler, cancel context.CancelCauseFunc) {
	r.cancel.Store(&cancel)
	if r.cause(s) != nil {
		cancel(r.endedAlone(s))
	}
}

// endedAlone is the cause of a context that is cancelled with its booking.
func (r *record) endedAlone(s *Scheduler) error {
	return &Error{Code: r.cause(s), Request: r.ID, Rule: "the booking ended without its owner"}
}
