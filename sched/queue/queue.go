package queue

import (
	"cmp"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// ClassSpec is what the queue needs to know of a policy class.
type ClassSpec struct {
	Order Order
	// Quantum is the class's share per round in tokens, at least 1.
	Quantum int64
	// MaxAge is the wait in nanoseconds after which a request goes before those
	// who have not waited so long; 0 for none.
	MaxAge int64
}

// Queue holds the waiting requests of all classes and says whose turn it is. It
// is not safe for concurrent use.
type Queue[T any] struct {
	classes []*class[T]
	// visiting holds class indexes in visiting order.
	visiting []int
	length   int
	watch    watchers[T]
	due      indexHeap[*Entry[T]]
	retest   indexHeap[*Lane[T]]
	plan     plan[T]
}

// New returns an empty queue.
func New[T any](classes []ClassSpec) *Queue[T] {
	q := &Queue[T]{
		due: indexHeap[*Entry[T]]{
			less:  (*Entry[T]).dueBefore,
			place: func(e *Entry[T]) *int { return &e.dueAt },
		},
		retest: indexHeap[*Lane[T]]{
			less:  func(a, b *Lane[T]) bool { return a.retestAt < b.retestAt },
			place: func(l *Lane[T]) *int { return &l.retestPlace },
		},
	}
	for i, spec := range classes {
		q.classes = append(q.classes, newClass[T](i, spec))
		q.visiting = append(q.visiting, i)
	}
	return q
}

// Len returns the number of requests that wait.
func (q *Queue[T]) Len() int { return q.length }

// Pending returns the number of requests that wait in a class.
func (q *Queue[T]) Pending(class int) int { return q.classes[class].pending }

// Deficit returns a class's deficit in tokens.
func (q *Queue[T]) Deficit(class int) int64 { return q.classes[class].deficit }

// Add queues e in a class. REQUIRES: e is in no queue.
func (q *Queue[T]) Add(class int, e *Entry[T]) {
	c := q.classes[class]
	e.class, e.score = class, scoreOf(c.order, e.Arrival, e.Jump, max(e.Cost, 1))
	e.orderAt, e.ageAt, e.dueAt = -1, -1, -1
	l := c.lanes[e.Lane]
	if l == nil {
		l = newLane(c, e.Lane, e.Scope)
		if c.lanes == nil {
			c.lanes = make(map[string]*Lane[T])
		}
		c.lanes[e.Lane] = l
		q.watch.add(l)
	}
	e.lane = l
	l.order.push(e)
	if c.maxAge > 0 {
		l.age.push(e)
	}
	if !l.blocked {
		c.activate(l)
	}
	if e.Due != NoDue {
		q.due.push(e)
	}
	c.pending++
	q.length++
}

// Remove takes e out; a class that is emptied so loses its deficit and its
// visit. It does nothing if e is not queued.
func (q *Queue[T]) Remove(e *Entry[T]) {
	l := e.lane
	if l == nil {
		return
	}
	c := l.class
	l.order.remove(e)
	l.age.remove(e)
	q.due.remove(e)
	e.lane = nil
	if l.order.len() == 0 {
		c.deactivate(l)
		q.retest.remove(l)
		q.watch.remove(l)
		delete(c.lanes, l.key)
	} else if !l.blocked {
		c.activate(l)
	}
	c.pending--
	q.length--
	if c.pending == 0 {
		c.deficit, c.onVisit = 0, false
	}
}

// UnblockAll has every lane tested again.
func (q *Queue[T]) UnblockAll() {
	for _, c := range q.classes {
		for _, l := range c.lanes {
			q.unblock(l)
		}
	}
}

// Unblock has those lanes tested again that the rank could serve, in the
// classes for which it has capacity.
func (q *Queue[T]) Unblock(rank lifecycle.RankID, hasCapacity func(class int) bool) {
	unblock := func(lanes []*Lane[T]) {
		for _, l := range lanes {
			if l.blocked && hasCapacity(l.class.index) {
				q.unblock(l)
			}
		}
	}
	unblock(q.watch.pinned[rankKey{rank.Worker, rank.Rank}])
	unblock(q.watch.worker[rank.Worker])
	unblock(q.watch.wide)
}

// UnblockDue has those lanes tested again whose retest instant has come.
func (q *Queue[T]) UnblockDue(now int64) {
	for q.retest.len() > 0 && q.retest.top().retestAt <= now {
		q.unblock(q.retest.top())
	}
}

// NextRetest returns the earliest instant at which time alone may unblock a
// lane, NoDue if there is none.
func (q *Queue[T]) NextRetest() int64 {
	if q.retest.len() == 0 {
		return NoDue
	}
	return q.retest.top().retestAt
}

func (q *Queue[T]) unblock(l *Lane[T]) {
	if !l.blocked {
		return
	}
	l.blocked = false
	q.retest.remove(l)
	l.retestAt = NoDue
	l.class.activate(l)
}

func (q *Queue[T]) block(l *Lane[T], retestAt int64) {
	l.blocked, l.retestAt = true, retestAt
	l.class.deactivate(l)
	if retestAt != NoDue {
		q.retest.push(l)
	}
}

// NextDue returns the earliest due time of those who wait, NoDue if none.
func (q *Queue[T]) NextDue() int64 {
	if q.due.len() == 0 {
		return NoDue
	}
	return q.due.top().Due
}

// Overdue returns those whose due time has come, in arrival order. They stay
// queued.
func (q *Queue[T]) Overdue(now int64) []*Entry[T] {
	if q.NextDue() > now {
		return nil
	}
	late := q.appendOverdue(nil, 0, now)
	sortByArrival(late)
	return late
}

// appendOverdue goes down from one place in the heap as far as times have come.
func (q *Queue[T]) appendOverdue(late []*Entry[T], i int, now int64) []*Entry[T] {
	if i >= q.due.len() || q.due.members[i].Due > now {
		return late
	}
	late = append(late, q.due.members[i])
	late = q.appendOverdue(late, 2*i+1, now)
	return q.appendOverdue(late, 2*i+2, now)
}

// All returns everyone who waits, in arrival order.
func (q *Queue[T]) All() []*Entry[T] {
	all := make([]*Entry[T], 0, q.length)
	for _, c := range q.classes {
		for _, l := range c.lanes {
			all = append(all, l.order.members...)
		}
	}
	sortByArrival(all)
	return all
}

// Waiting yields everyone who waits, in no particular order.
func (q *Queue[T]) Waiting(yield func(T) bool) {
	for _, c := range q.classes {
		for _, l := range c.lanes {
			for _, e := range l.order.members {
				if !yield(e.Value) {
					return
				}
			}
		}
	}
}

func sortByArrival[T any](entries []*Entry[T]) {
	slices.SortFunc(entries, func(a, b *Entry[T]) int { return cmp.Compare(a.Seq, b.Seq) })
}
