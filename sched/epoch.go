package sched

import (
	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// What a call may do for others, in units of a budget: a lifecycle call or a leaver
// about 10 µs, an arrival about 25 µs; a few times that where the line has dropped out
// of the processor's caches. The rest is left for the next caller that enters the turn,
// or for a helper.
const (
	lifecycleAllowance = 1_000
	arrivalAllowance   = 2_500
	// timerAllowance is for timers, which run on goroutines of their own.
	timerAllowance = sequencer.HelperAllowance
)

const (
	// grantsBetweenArrivals is how many waiters are served before arrivals are looked
	// at, so that their priorities and due times count while a long backlog is served.
	grantsBetweenArrivals = 32
	// costReject is the cost of a rejection, its owner woken.
	costReject = 500
	// checkedLength is the longest queue that is checked after every epoch, where
	// invariants are.
	checkedLength = 64
)

// Run implements sequencer.Epochs. One epoch, in this order:
//
//  1. detach the arrivals: their tickets are fixed; they are looked at last;
//  2. refresh: let the leavers go, adopt the world, read the clock once, expire due
//     times and then ttls up to that instant, fail the waiters that have had no usable
//     rank for too long, drain the hints;
//  3. serve the backlog while a waiter can run; after every 32 grants the arrivals join
//     it, so that priority and due time count from then on;
//  4. when no waiter can run: the arrivals that have joined, and then each other
//     arrival, in ticket order: gate, limits, add, serve.
//
// So the limits of an arrival count every release and leave that returned before it
// came.
//
// Each piece spends from the budget. When the budget is used up, the rest stays where
// it is, and the next epoch continues there. That epoch begins with another refresh,
// and decides nothing before the refresh is complete.
func (l *line) Run(allowance int) (left int, more bool) {
	s := l.s
	s.counters.epochs.Inc()
	l.budget, l.steps, l.undone, l.late = queue.NewBudget(allowance), 0, false, false
	l.detach()
	rechecks := s.rechecks.take()
	l.rechecks = append(l.rechecks, rechecks...)
	if l.queue == nil && l.next < len(l.arrivals) {
		l.build()
	}
	if l.queue != nil && len(rechecks) > 0 {
		l.queue.Queue().OpenAll()
	}
	more = l.work()
	if l.overdue.othersSpent(l.budget.Left()); !more {
		l.overdue.ahead = 0 // there is nothing to be ahead of
	}
	more = more || l.undone || l.late
	l.stuck = 0
	if l.queue != nil {
		l.sizes.Record(l.steps)
		if invariants.Enabled && l.queue.Len() <= checkedLength {
			if err := l.queue.Queue().Check(); err != nil {
				invariants.Violated("%v", err)
			}
		}
		if l.moving == nil {
			s.ledger.setDeficits(l.queue.Queue())
			if l.world.Profile.WaitsForEndpoint() {
				s.ledger.setFails(l.queue.Queue().Failing)
			}
		}
		l.setTimer()
	}
	if !more {
		for _, done := range l.rechecks {
			close(done)
		}
		l.rechecks = nil
	}
	return l.budget.Left(), more
}

// Rest implements sequencer.Epochs.
func (l *line) Rest() { l.s.flush() }

func (l *line) detach() {
	// Arrivals that are done are let go, also if there is never a moment without
	// arrivals.
	if left := len(l.arrivals) - l.next; left <= l.next {
		copy(l.arrivals, l.arrivals[l.next:])
		clear(l.arrivals[left:])
		if l.arrivals, l.next = l.arrivals[:left], 0; left == 0 {
			l.arrivals = trimmed(l.arrivals)
		}
	}
	l.arrivals = l.s.arrivals.Detach(l.arrivals)
	perturb.Point()
}

// work does the work there is, as far as the budget goes, and reports whether some is
// left.
func (l *line) work() (more bool) {
	if !l.refresh() {
		return true
	}
	if l.queue == nil {
		return false
	}
	for {
		status := l.serve()
		if status == queue.Paused {
			// Detached first: so they see what returned before they came.
			l.detach()
			if !l.refresh() {
				return true
			}
			l.joinArrivals()
			continue
		}
		if status == queue.Done {
			status = l.queue.SettleJoined(&l.budget)
		}
		if status == queue.Done {
			if l.next == len(l.arrivals) {
				return false
			}
			if l.budget.Exhausted() {
				return true
			}
			status = l.arrive(l.arrivals[l.next])
			if status == queue.Done {
				l.arrived()
			}
		}
		switch status {
		case queue.Exhausted:
			return true
		case queue.Again:
			if l.budget.Exhausted() || !l.refresh() {
				return true
			}
		default:
		}
	}
}

// serve serves the waiters that can run, and pauses when it is time to look at the
// arrivals: epochs may be too short to serve so many in one.
func (l *line) serve() queue.Status {
	before := l.steps
	status := l.queue.Serve(grantsBetweenArrivals-l.unseen, &l.budget)
	if l.unseen += int(l.steps - before); status == queue.Paused || status == queue.Done {
		l.unseen = 0
	}
	return status
}

// arrived notes that the first arrival is done.
func (l *line) arrived() {
	l.arrivals[l.next] = nil
	l.next++
	l.steps++
}

// arrive decides about one arrival when no other waiter can run; unless it is done, the
// arrival stays first in l.arrivals for the next epoch.
func (l *line) arrive(j *job) queue.Status {
	l.budget.Spend(queue.CostEntry)
	l.current = j
	class, ok := l.admissible(j)
	status := queue.Done
	if ok {
		status = l.queue.Arrive(class, &j.entry, &l.budget)
	}
	l.current = nil
	if status != queue.Done {
		j.offArrivals = false
	}
	return status
}

// joinArrivals has all arrivals stand in line while others are being served; those of
// classes that never queue are decided.
func (l *line) joinArrivals() {
	for l.next < len(l.arrivals) && !l.budget.Exhausted() {
		j := l.arrivals[l.next]
		l.current = j
		l.budget.Spend(queue.CostEntry)
		class, ok := l.admissible(j)
		status := queue.Done
		if ok {
			status = l.queue.Join(class, &j.entry, &l.budget)
		}
		l.current = nil
		if status != queue.Done {
			// The arrivals behind it would come first: leave them all.
			j.offArrivals = false
			return
		}
		l.arrived()
	}
}

// admissible makes the checks of an arrival that need no rank, and returns its
// class. It is not ok if the arrival is settled by then.
func (l *line) admissible(j *job) (class int, ok bool) {
	var rejected error
	switch {
	case j.state.Load() != jobWaiting:
		l.offArrivals(j)
		return 0, false
	case l.world.Closed:
		rejected = &Error{Code: ErrClosed, Request: j.id}
	case j.due <= l.now:
		rejected = pastDue(j.id)
	case !l.s.mayStand(l.world, j):
		rejected = noWorkers(j.id)
	}
	j.offArrivals = true
	if rejected != nil {
		l.reject(j, rejected)
		return 0, false
	}
	if j.entry.Seq == 0 {
		l.seq++
		j.setEntry(l.seq, l.now, l.world)
	}
	return l.world.Profile.Classify(j.class, max(0, j.entry.Raw-j.entry.Cached)), true
}

// offArrivals notes that a job whose owner has left came off the stack of arrivals.
func (l *line) offArrivals(j *job) {
	j.offArrivals = true
	l.letGo(j)
}

// offLeavers notes that a job came off the stack of leavers.
func (l *line) offLeavers(j *job) {
	j.offLeavers = true
	l.letGo(j)
}

// letGo gives a job whose owner has left back, once it has come off both stacks.
func (l *line) letGo(j *job) {
	if j.offArrivals && j.offLeavers {
		l.s.putJob(j)
	}
}

// refresh brings the line up to date: leavers, world, clock, due times, ttls,
// hints. It is not done if the budget was used up first; then nothing may be
// decided.
func (l *line) refresh() (done bool) {
	if !l.unlinkLeavers() {
		return false
	}
	perturb.Point()
	l.now = l.s.now()
	if !l.followWorld() {
		return false
	}
	if l.queue != nil {
		if !l.queue.Queue().FreeDue(l.now, &l.budget) {
			return false
		}
	}
	if !l.endOverdue() {
		return false
	}
	if l.queue != nil && !l.queue.Queue().Grow(l.now, &l.budget) {
		return false
	}
	l.drainHints()
	if l.queue == nil {
		return true
	}
	return l.offerFreed() && l.answerClosed()
}

// unlinkLeavers takes the jobs out whose owners have left.
func (l *line) unlinkLeavers() (done bool) {
	for {
		if l.leaver == nil {
			if l.leaver = l.s.leavers.Take(); l.leaver == nil {
				return true
			}
			perturb.Point()
		}
		j := l.leaver.Value
		l.leaver = l.leaver.Next()
		if l.queue != nil {
			l.queue.Remove(&j.entry)
		}
		l.offLeavers(j)
		if !l.budget.Spend(2 * queue.CostEntry) {
			return false
		}
	}
}

// followWorld adopts the world that stands. Waiters are moved to another profile before
// the next world is looked at.
func (l *line) followWorld() (done bool) {
	if l.moving != nil && !l.move() {
		return false
	}
	if world := l.s.worldAt(l.now); world != l.world {
		l.adopt(world)
	}
	return l.moving == nil || l.move()
}

// drainHints takes the hints over; after an overflow every lane is tested again.
func (l *line) drainHints() {
	ring := l.s.env.Hints()
	if ring == nil || !ring.Drain(l.offer) {
		return
	}
	l.s.logHintsOverflowed(ring.Overflows())
	ring.ClearAll(l.world.Table.Shards)
	l.budget.Spend(len(l.world.Table.Slots()))
	l.freed = l.freed[:0]
	if l.queue != nil {
		l.queue.Queue().OpenAll()
	}
}

// offerFreed offers the freed ranks to the lanes.
func (l *line) offerFreed() (done bool) {
	q := l.queue.Queue()
	for n := len(l.freed); n > 0; n = len(l.freed) {
		rank := l.freed[n-1]
		l.freed = l.freed[:n-1]
		q.Free(rank)
		if !l.budget.Spend(queue.CostRank * (1 + q.ActiveClasses())) {
			return len(l.freed) == 0
		}
	}
	return true
}

// answerClosed answers every waiter, once the scheduler is closed.
func (l *line) answerClosed() (done bool) {
	if !l.world.Closed {
		return true
	}
	q := l.queue.Queue()
	for e := q.Oldest(); e != nil; e = q.Oldest() {
		j := e.Value
		l.queue.Remove(e)
		l.reject(j, &Error{Code: ErrClosed, Request: j.id})
		if l.budget.Exhausted() {
			return q.Len() == 0
		}
	}
	return true
}

// Broke implements sequencer.Epochs: an epoch did not return, because something
// panicked or ended its goroutine. The request that was being decided fails. If there
// was none, and it happens again, a waiter fails, so that no epoch can break for ever.
func (l *line) Broke(cause any) {
	s := l.s
	s.hookPanicked(hookDeciding, cause)
	j := l.current
	l.current, l.races = nil, 0
	if j == nil {
		l.stuck++
		if l.stuck < maxStuck || l.queue == nil {
			return
		}
		if e := l.queue.Queue().Oldest(); e != nil {
			j = e.Value
		}
	}
	l.stuck = 0
	if l.queue != nil {
		l.guards.Reset(l.world)
		l.queue.Rebuild()
	}
	if j == nil {
		return
	}
	if !j.query && j.record.shard.Load() != nil {
		s.undo(j.record)
		l.undone = true
	}
	if j.state.Load() != jobWaiting {
		// It is let go when it has come off both stacks.
		if l.next < len(l.arrivals) && l.arrivals[l.next] == j {
			j.offArrivals = false
		}
		return
	}
	for i := l.next; i < len(l.arrivals); i++ {
		if l.arrivals[i] == j {
			l.arrivals = append(l.arrivals[:i], l.arrivals[i+1:]...)
			break
		}
	}
	j.offArrivals = true
	if l.queue != nil {
		l.queue.Remove(&j.entry)
	}
	l.reject(j, brokenOff(j.id))
}

// maxStuck is how many epochs may break in a row before a waiter fails for it.
const maxStuck = 3
