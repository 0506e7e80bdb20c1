package sched

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
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

	fired atomic.Bool // the timer has; set by it, cleared under mu
	walk  sweep       // the holder of the turn's

	// mu is a leaf but for the clock's own lock.
	mu struct {
		sync.Mutex
		timer clock.Timer
		at    int64 // when timer fires, 0 if there is none
		lost  bool  // the clock broke while it was being set
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
	e.setLocked(s, at, max(0, time.Duration(at-s.now())))
}

func (e *expiry) disarmLocked() {
	if e.mu.timer != nil {
		e.mu.timer.Stop()
	}
	e.mu.timer, e.mu.at, e.mu.lost = nil, 0, false
	e.fired.Store(false)
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

// sweep is a walk along the ranks in pieces, and then along the bookings found.
type sweep struct {
	world *pool.World // in which it is made, nil if there is none
	now   int64
	next  int    // place in the table, −1 once every rank was looked at
	last  RankID // the one looked at last, if next is above 0
	// due are the bookings found and not yet dealt with, once every rank was looked
	// at in booking order; more: a rank had more of them than were noted.
	due  []claim
	more bool
	// again is the earliest instant at which another sweep is needed.
	again int64
}

type claim struct {
	id              string
	attempt, serial uint64
}

const (
	// claimsOfRank is how many due bookings of a rank are noted under its lock, and
	// claimsAtOnce how many of all ranks before they are ended.
	claimsOfRank, claimsAtOnce = 32, 1024
	// costExpiry is to end a booking, costClaim to note one and to sort it.
	costExpiry, costClaim = 150, 15
	// costLock is to take a rank's lock and look.
	costLock = 5
)

// sweep expires what is due, in booking order, and sets the timer anew when all is
// done. It spends the budget down to a floor, or one piece. Of very many that are due at
// once the first are ended in order, then the next. It is called by the holder of the
// turn.
func (e *expiry) sweep(l *line, floor int) (done bool) {
	s, w := l.s, &e.walk
	ttl := int64(s.config.BookingTTL)
	if ttl == 0 {
		return true
	}
	if w.world == nil {
		if !e.take(s, l.now) {
			return true
		}
		*w = sweep{world: l.world, now: l.now, again: math.MaxInt64, due: w.due[:0]}
	}
	units := max(1, l.budget.Left()-max(0, floor))
	part := queue.NewBudget(units)
	defer func() { l.budget.Spend(units - part.Left()) }()
	for {
		if !e.find(l, ttl, &part) || !e.end(s, ttl, &part) {
			return false
		}
		if !w.more {
			break
		}
		w.next, w.more = 0, false
	}
	// One that was moved meanwhile to a rank that had been looked at was touched then.
	e.arm(s, min(w.again, w.now+ttl))
	w.world, w.due = nil, trimmed(w.due)
	return true
}

// find notes the bookings that are due, rank by rank.
func (e *expiry) find(l *line, ttl int64, b *queue.Budget) (done bool) {
	w := &e.walk
	if w.next < 0 {
		return true
	}
	slots := l.world.Table.Slots()
	if w.world != l.world {
		// It goes on from where it is, however often the ranks change. What is new
		// among those that it has passed has set the timer itself.
		if w.world = l.world; w.next > 0 {
			w.next = sort.Search(len(slots), func(i int) bool { return w.last.Compare(slots[i].Rank) < 0 })
		}
	}
	for w.next < len(slots) {
		if len(w.due) >= claimsAtOnce {
			w.more = true
			break
		}
		shard := slots[w.next].Shard
		w.last = shard.ID()
		w.next++
		found := 0
		shard.Lock()
		for b := range shard.BookingsLocked() {
			if b.Touched+ttl > w.now {
				w.again = min(w.again, b.Touched+ttl)
				break
			}
			if found == claimsOfRank {
				w.more = true
				break
			}
			found++
			w.due = append(w.due, claim{b.ID, b.Attempt, b.Serial})
		}
		shard.Unlock()
		if !b.Spend(costLock + costClaim*found) {
			return false
		}
	}
	slices.SortFunc(w.due, func(a, b claim) int { return cmp.Compare(a.serial, b.serial) })
	w.next = -1
	return true
}

// end ends the bookings that were found.
func (e *expiry) end(s *Scheduler, ttl int64, b *queue.Budget) (done bool) {
	w := &e.walk
	for i, c := range w.due {
		rec := s.ids.Find(c.id)
		if rec == nil || rec.shard.Load() == nil {
			continue
		}
		if expired, until := s.expire(rec, c.attempt, w.now-ttl); expired {
			s.counters.expired.Inc()
			s.journal.Add(Decision{Kind: DecisionExpired, Request: c.id, Placement: Placement{Attempt: c.attempt}})
		} else {
			w.again = min(w.again, until)
		}
		if !b.Spend(costExpiry) {
			w.due = append(w.due[:0], w.due[i+1:]...)
			return len(w.due) == 0
		}
	}
	clear(w.due)
	w.due = w.due[:0]
	return true
}

// take takes the timer down if it is due. Bookings made from here on set their
// own, so none is missed while the ranks are looked at. One that has fired before
// the clock shows its time is set anew.
func (e *expiry) take(s *Scheduler, now int64) (due bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.timer == nil {
		lost := e.mu.lost
		e.mu.lost = false
		return lost
	}
	if e.mu.at > now {
		if e.fired.Swap(false) {
			e.mu.timer.Stop() // one that fires though it was stopped may not be this one
			e.setLocked(s, e.mu.at, max(shortestWait, time.Duration(e.mu.at-now)))
		}
		return false
	}
	e.disarmLocked()
	return true
}

// setLocked sets the timer for an instant, after a wait. It is noted once it is set:
// a clock that ends its goroutine sets none, and the next sweep does.
func (e *expiry) setLocked(s *Scheduler, at int64, wait time.Duration) {
	e.mu.timer, e.mu.at, e.mu.lost = nil, 0, true
	e.mu.timer = s.clock.AfterFunc(wait, func() {
		e.fired.Store(true)
		s.enterTurn(timerAllowance)
	})
	e.mu.at, e.mu.lost = at, false
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
