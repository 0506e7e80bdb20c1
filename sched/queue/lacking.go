package queue

import (
	"cmp"
	"slices"
)

// A lane that has no usable rank lacks one, from the moment at which it is found so.
// In a class with an endpoint wait each of its entries fails when it has lacked one
// for that long: since the lane does, or since the entry came, whichever is later. As
// the entries of a lane are listed in the order in which they came, the first to fail
// is the first of the list. A rank that became usable and ceased to be between two
// epochs is no break: no entry could have been granted it either.

// failingOf returns the heap of lanes whose entries fail if nothing changes.
func failingOf[T any]() indexHeap[*Lane[T]] {
	return indexHeap[*Lane[T]]{
		less:  func(a, b *Lane[T]) bool { return a.came.failsBefore(b.came) },
		place: func(l *Lane[T]) *int { return &l.failing },
	}
}

// lack notes whether a lane has no usable rank, as was found at an instant.
func (q *Queue[T]) lack(l *Lane[T], lacks bool, now int64) {
	if l.lacks == lacks {
		return
	}
	l.lacks, l.lacksSince = lacks, now
	l.class.settleFailing(l)
}

// Lacks returns since when the lane of an entry has had no usable rank, and false if
// it has one. REQUIRES: e is queued.
func (e *Entry[T]) Lacks() (since int64, lacks bool) { return e.lane.lacksSince, e.lane.lacks }

// LackSince notes that the lane of an entry has had no usable rank since an instant,
// or since an earlier one. REQUIRES: e is queued.
func (q *Queue[T]) LackSince(e *Entry[T], since int64) {
	l := e.lane
	if !l.lacks || since < l.lacksSince {
		l.lacks, l.lacksSince = true, since
		l.class.settleFailing(l)
	}
}

// settleFailing puts a lane where the instant says at which its first entry fails.
func (c *class[T]) settleFailing(l *Lane[T]) {
	if c.endpointWait == 0 {
		return
	}
	if !l.lacks || l.came == nil {
		c.failing.remove(l)
		return
	}
	l.failsAt = l.failsFrom(l.came)
	if l.failing >= 0 {
		c.failing.fix(l)
	} else {
		c.failing.push(l)
	}
}

// failsFrom returns when an entry fails if its lane goes on lacking a rank.
func (l *Lane[T]) failsFrom(e *Entry[T]) int64 {
	return addSaturating(max(l.lacksSince, e.Came), l.class.endpointWait)
}

// NextFail returns the instant at which the first request of a class fails for want
// of a usable rank, if nothing changes; NoDue if none does.
func (q *Queue[T]) NextFail() int64 {
	next := NoDue
	for _, c := range q.active {
		next = min(next, c.nextFail())
	}
	return next
}

func (c *class[T]) nextFail() int64 {
	if c.failing.len() == 0 {
		return NoDue
	}
	return c.failing.top().failsAt
}

// Failing yields the classes in which requests wait, with the instant at which the
// first of the class fails for want of a usable rank, NoDue if none does.
func (q *Queue[T]) Failing(yield func(class int, at int64) bool) {
	for _, c := range q.active {
		if !yield(c.index, c.nextFail()) {
			return
		}
	}
}

// failed returns entries that have had no usable rank for too long, at most so many: in
// the order of the instants at which they fail, and of arrival among those of one
// instant, whatever their classes and lanes. They stay queued. still is asked of each
// lane first: a lane that has a usable rank by now fails no waiter. If such lanes use up
// the budget, none is returned yet.
func (q *Queue[T]) failed(now int64, most int, still func(*Lane[T]) bool, b *Budget) (late []*Entry[T]) {
	var looked []*Lane[T]
	var bound *Entry[T] // what fails later is not among the first
	first := func() {
		slices.SortFunc(late, (*Entry[T]).compareFails)
		if len(late) >= most {
			late = late[:most]
			bound = late[most-1]
		}
	}
search:
	for _, c := range q.active {
		for c.nextFail() <= now {
			l := c.failing.top()
			if bound != nil && !l.came.failsBefore(bound) {
				break
			}
			if !still(l) {
				q.lack(l, false, now)
				if b.Exhausted() {
					late, bound = nil, nil
					break search
				}
				continue
			}
			c.failing.remove(l)
			looked = append(looked, l)
			for e := l.came; e != nil && l.failsFrom(e) <= now; e = e.cameAfter {
				if bound != nil && !e.failsBefore(bound) {
					break
				}
				if late = append(late, e); len(late)-most >= most {
					first()
				}
			}
		}
	}
	for _, l := range looked {
		l.class.settleFailing(l)
	}
	first()
	return late
}

// compareFails orders entries by the instant at which they fail, and then by arrival.
func (e *Entry[T]) compareFails(other *Entry[T]) int {
	return cmp.Or(cmp.Compare(e.lane.failsFrom(e), other.lane.failsFrom(other)), cmp.Compare(e.Seq, other.Seq))
}

func (e *Entry[T]) failsBefore(other *Entry[T]) bool { return e.compareFails(other) < 0 }

// enter lists an entry as the last that came to its lane.
func (l *Lane[T]) enter(e *Entry[T]) {
	e.cameBefore, e.cameAfter = l.cameLast, nil
	if l.cameLast == nil {
		l.came = e
	} else {
		l.cameLast.cameAfter = e
	}
	l.cameLast = e
	if l.came == e {
		l.class.settleFailing(l)
	}
}

// leave takes an entry off that list.
func (l *Lane[T]) leave(e *Entry[T]) {
	first := l.came == e
	if first {
		l.came = e.cameAfter
	} else {
		e.cameBefore.cameAfter = e.cameAfter
	}
	if e.cameAfter == nil {
		l.cameLast = e.cameBefore
	} else {
		e.cameAfter.cameBefore = e.cameBefore
	}
	e.cameBefore, e.cameAfter = nil, nil
	if first || l.lacks && l.failing < 0 {
		l.class.settleFailing(l)
	}
}
