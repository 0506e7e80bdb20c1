package sched

import "github.com/seed-3c5df8a4/turnstile/sched/pool"

// overdueAhead is what may be spent on that which an instant ends (waiters, bookings)
// before the next request is decided: about 128 of them. If more end at once, others are
// decided in between, half and half, as if the timer were late.
const overdueAhead = 128 * costReject

// overdue shares the budget between what is overdue and everything else. It is owned by
// the holder of the turn.
type overdue struct {
	// ahead is by how much what is overdue has spent more, at most about overdueAhead.
	ahead int
	// othersFrom is what was left of the budget when everything else began, 0 if it did
	// not in this epoch.
	othersFrom int
}

// part returns what may be spent on what is overdue now. It is never nothing.
func (o *overdue) part() int { return max(1, overdueAhead-o.ahead) }

// spent notes what was spent on what is overdue, and that everything else begins with
// what is left of the budget.
func (o *overdue) spent(units, left int) {
	o.ahead += units
	o.othersFrom = left
}

// othersSpent notes that everything else has spent the budget down to what is left.
func (o *overdue) othersSpent(left int) {
	o.ahead = max(0, o.ahead-max(0, o.othersFrom-left))
	o.othersFrom = 0
}

// endOverdue ends what the present instant ends: due times, then ttls, then waits for
// an endpoint. It is not done if the budget was used up first; then nothing may be
// decided. If it has spent its part, it is done for now, and late: none of the overdue
// is granted then (see Expire).
func (l *line) endOverdue() (done bool) {
	before := l.budget.Left()
	l.overdue.othersSpent(before)
	floor := before - l.overdue.part()
	all := l.expireOverdue(floor) && l.s.expiry.sweep(l, floor) && l.failLacking(floor)
	l.overdue.spent(before-l.budget.Left(), l.budget.Left())
	if all {
		return true
	}
	l.late = true
	return !l.budget.Exhausted()
}

// above reports whether more may be spent, down to a floor.
func (l *line) above(floor int) bool { return l.budget.Left() > max(0, floor) }

// pieces is how many rejections may be made, down to a floor: at least one.
func (l *line) pieces(floor int) int { return max(1, (l.budget.Left()-max(0, floor))/costReject) }

// expireOverdue answers the waiters whose due time has come.
func (l *line) expireOverdue(floor int) (done bool) {
	if l.queue == nil {
		return true
	}
	q := l.queue.Queue()
	for q.NextDue() <= l.now {
		if !l.above(floor) {
			return false
		}
		for _, e := range q.Overdue(l.now, l.pieces(floor)) {
			l.queue.Remove(e)
			l.Expire(e.Value)
		}
	}
	return true
}

// failLacking answers the waiters that have had no usable rank for as long as their
// class waits for one: they cannot be granted.
func (l *line) failLacking(floor int) (done bool) {
	if l.queue == nil {
		return true
	}
	q := l.queue.Queue()
	for q.NextFail() <= l.now {
		if !l.above(floor) {
			return false
		}
		for _, e := range l.queue.Failed(l.now, l.pieces(floor), &l.budget) {
			j := e.Value
			l.queue.Remove(e)
			l.looks.TakeAll(l.world, &j.request, e.Class(), pool.At(l.now))
			l.budget.Spend(l.looks.Eligible)
			_, why := l.looks.Choose(l.s.rand)
			l.reject(j, failureError(j.id, why))
		}
	}
	return true
}
