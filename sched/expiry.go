package sched

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
)

// expiry ends bookings that were not touched for their ttl. Each rank keeps its
// bookings in touch order, and the ttl is the same for all, so the first to
// expire is the first of some rank. The sweep is part of the epoch, so that due
// times, ttls and dispatch at one instant come in this order.
//
// There is a timer only while a booking lives. It is never late: it is set for
// the earliest first-of-a-rank, and touching a booking only moves it back.
type expiry struct {
	live   atomic.Int64  // bookings with a ttl
	serial atomic.Uint64 // numbers them in booking order

	// mu is a leaf but for the clock's own lock.
	mu struct {
		sync.Mutex
		timer clock.Timer
		at    int64 // when timer fires, 0 if there is none
	}
}

// booked has the timer set for a booking that was just made.
func (e *expiry) booked(s *Scheduler) {
	if s.config.BookingTTL > 0 {
		e.arm(s, s.now()+int64(s.config.BookingTTL))
	}
}

// arm sets the timer for an instant, unless it will fire earlier anyway.
func (e *expiry) arm(s *Scheduler, at int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live.Load() == 0 || e.mu.timer != nil && e.mu.at <= at {
		return
	}
	e.disarmLocked()
	e.mu.at = at
	e.mu.timer = s.clock.AfterFunc(max(0, time.Duration(at-s.now())), s.enterTurn)
}

func (e *expiry) disarmLocked() {
	if e.mu.timer != nil {
		e.mu.timer.Stop()
	}
	e.mu.timer, e.mu.at = nil, 0
}

// ended notes that a booking is gone.
func (e *expiry) ended(s *Scheduler) {
	if s.config.BookingTTL == 0 || e.live.Add(-1) > 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live.Load() == 0 {
		e.disarmLocked()
	}
}

// sweep expires what is due, in booking order, and sets the timer anew. It is
// called by the holder of the turn.
func (e *expiry) sweep(s *Scheduler, w *pool.World, now int64) {
	ttl := int64(s.config.BookingTTL)
	if ttl == 0 || !e.take(now) {
		return
	}
	type claim struct {
		id              string
		attempt, serial uint64
	}
	var due []claim
	next := int64(math.MaxInt64)
	for i := range w.Table.Slots() {
		shard := w.Table.Slots()[i].Shard
		shard.Lock()
		for b := range shard.BookingsLocked() {
			if b.Touched+ttl > now {
				next = min(next, b.Touched+ttl)
				break
			}
			due = append(due, claim{b.ID, b.Attempt, b.Serial})
		}
		shard.Unlock()
	}
	slices.SortFunc(due, func(a, b claim) int { return cmp.Compare(a.serial, b.serial) })
	for _, c := range due {
		rec := s.ids.Find(c.id)
		if rec == nil || rec.shard.Load() == nil {
			continue
		}
		if expired, until := s.expire(rec, c.attempt, now-ttl); expired {
			s.counters.expired.Inc()
			s.journal.Add(Decision{Kind: DecisionExpired, Request: c.id, Placement: Placement{Attempt: c.attempt}})
		} else {
			next = min(next, until)
		}
	}
	if next != math.MaxInt64 {
		e.arm(s, next)
	}
}

// take takes the timer down if it is due. Bookings made from here on set their
// own, so none is missed while the ranks are looked at.
func (e *expiry) take(now int64) (due bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.timer == nil || e.mu.at > now {
		return false
	}
	e.disarmLocked()
	return true
}

// expire ends a booking if it still has not been touched since; else it says
// when it may expire.
func (s *Scheduler) expire(rec *record, attempt uint64, since int64) (expired bool, until int64) {
	shard, err := s.lockLive(rec, attempt)
	if err != nil {
		return false, math.MaxInt64
	}
	if rec.Touched > since {
		until = rec.Touched + int64(s.config.BookingTTL)
		shard.Unlock()
		return false, until
	}
	shard.ReleaseLocked(&rec.Booking)
	shard.Unlock()
	s.ended(rec, EventExpired)
	return true, 0
}
