package queue

import (
	"cmp"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// RankID names a rank.
type RankID = lifecycle.RankID

// ClassSpec is what the queue needs to know of a policy class.
type ClassSpec struct {
	Order Order
	// Quantum is the class's share per round in tokens, at least 1.
	Quantum int64
	// MaxAge is the wait in nanoseconds after which a request goes before those that
	// have not waited so long; 0 for none.
	MaxAge int64
	// GuardAfter is the wait in nanoseconds after which a request guards its ranks; 0
	// for never.
	GuardAfter int64
	// EndpointWait is how long, in nanoseconds, a request waits without a usable rank
	// before it fails; 0 for as long as it waits.
	EndpointWait int64
}

// Queue holds the waiting requests of all classes and says whose turn it is. It
// is not safe for concurrent use.
type Queue[T any] struct {
	classes []*class[T]
	ring    ring[T]
	// active holds the classes that have pending requests, in visiting order.
	active []*class[T]
	length int
	// oldest and newest are the ends of the list of all entries by arrival.
	oldest, newest *Entry[T]
	due            indexHeap[*Entry[T]]
	watch          watch
	// stamp changes when every lane is to be looked at again.
	stamp uint64
	plan  plan[T]
	// touched are the classes whose deficit may have changed since it was last
	// asked for.
	touched []int
	// guards are the classes with a guard age; guard is told when a lane of theirs
	// begins or ceases to guard its ranks.
	guards []*class[T]
	guard  func(class int, v T, begins bool)
}

// New returns an empty queue.
func New[T any](classes []ClassSpec) *Queue[T] {
	q := &Queue[T]{
		due: indexHeap[*Entry[T]]{
			less:  (*Entry[T]).dueBefore,
			place: func(e *Entry[T]) *int { return &e.dueIndex },
		},
		watch: newWatch(),
		guard: func(int, T, bool) {},
	}
	for i, spec := range classes {
		c := newClass(q, i, spec)
		q.classes = append(q.classes, c)
		if c.guardAfter > 0 {
			q.guards = append(q.guards, c)
		}
	}
	q.ring = newRing(q.classes)
	return q
}

// Len returns the number of requests that wait.
func (q *Queue[T]) Len() int { return q.length }

// Pending returns the number of requests that wait in a class.
func (q *Queue[T]) Pending(class int) int { return q.classes[class].pending }

// Deficit returns a class's deficit in tokens.
func (q *Queue[T]) Deficit(class int) int64 { return q.classes[class].deficit }

// Active yields the classes that have pending requests, in visiting order.
func (q *Queue[T]) Active(yield func(class int) bool) {
	for _, c := range q.active {
		if !yield(c.index) {
			return
		}
	}
}

// ActiveClasses returns how many classes have pending requests.
func (q *Queue[T]) ActiveClasses() int { return len(q.active) }

// Add queues e in a class. REQUIRES: e is in no queue.
func (q *Queue[T]) Add(class int, e *Entry[T]) {
	c := q.classes[class]
	e.class, e.key = class, keyOf(c.order, e)
	e.orderIndex, e.ageIndex, e.dueIndex, e.youngIndex, e.aged = -1, -1, -1, -1, false
	l := c.lane(e.Lane)
	if l == nil {
		l = c.addLane(e)
	}
	e.lane = l
	l.order.push(e)
	if c.maxAge > 0 {
		l.age.push(e)
	}
	if (l.order.top() == e || c.maxAge > 0 && l.age.top() == e) && l.mayBePassed() {
		// The ranks on their way may be past its new place: look at all.
		l.blocked, l.asked = false, false
	}
	c.settleLane(l)
	l.enter(e)
	if c.guardAfter > 0 {
		c.young.push(e)
	}
	if e.Due != NoDue {
		q.due.push(e)
	}
	q.link(e)
	c.pending++
	q.length++
	if c.active < 0 {
		q.activate(c)
	}
}

// Remove takes e out; a class that is emptied so loses its deficit and its
// visit. It does nothing if e is not queued.
func (q *Queue[T]) Remove(e *Entry[T]) {
	l := e.lane
	if l == nil {
		return
	}
	c := l.class
	q = c.queue // which is another one while entries are moved to it
	l.order.remove(e)
	l.age.remove(e)
	q.due.remove(e)
	q.unlink(e)
	e.lane = nil
	c.settleLane(l)
	l.leave(e)
	if l.order.len() == 0 {
		c.dropLane(l)
	}
	c.pending--
	q.length--
	if c.pending == 0 {
		c.deficit, c.onVisit = 0, false
		q.deactivate(c)
	}
	if q.length == 0 {
		q.watch.clear()
	}
	if c.guardAfter > 0 {
		q.ungrow(c, l, e) // last, as it may offer ranks to those that remain
	}
}

// OpenAll has every lane tested again.
func (q *Queue[T]) OpenAll() {
	q.stamp++
	for _, c := range q.active {
		for i := range c.fronts {
			c.fronts[i].openEvery()
		}
	}
}

// open has a lane tested again by all its ranks.
func (q *Queue[T]) open(l *Lane[T]) {
	l.hasWitness, l.asked = false, false
	l.class.open(l)
}

// Free offers a rank that may have capacity to the lanes that wait.
func (q *Queue[T]) Free(rank RankID) {
	for _, c := range q.active {
		for i := range c.fronts {
			c.fronts[i].ask(rank)
		}
	}
}

// Watch has a rank offered when an instant has come at which time alone may have
// freed it.
func (q *Queue[T]) Watch(rank RankID, at int64) {
	if q.length > 0 {
		q.watch.add(rank, at)
	}
}

// FreeDue offers the ranks whose instant has come, as far as the budget goes, and
// reports whether that was all.
func (q *Queue[T]) FreeDue(now int64, b *Budget) bool {
	for q.watch.next() <= now {
		q.Free(q.watch.pop())
		if !b.Spend(CostRank * (1 + len(q.active))) {
			return q.watch.next() > now
		}
	}
	return true
}

// NextFree returns the earliest instant at which time alone may free a rank that a
// request waits for, NoDue if there is none.
func (q *Queue[T]) NextFree() int64 { return q.watch.next() }

// NextDue returns the earliest due time of the waiters, NoDue if none.
func (q *Queue[T]) NextDue() int64 {
	if q.due.len() == 0 {
		return NoDue
	}
	return q.due.top().Due
}

// Overdue returns entries whose due time has come, at most so many, in arrival
// order. If there are more, those that were due first are returned. They stay
// queued.
func (q *Queue[T]) Overdue(now int64, most int) []*Entry[T] {
	if q.NextDue() > now {
		return nil
	}
	late := q.appendOverdue(nil, 0, now, most)
	if len(late) > most {
		late = late[:0]
		for len(late) < most {
			late = append(late, q.due.top())
			q.due.remove(q.due.top())
		}
		for _, e := range late {
			q.due.push(e)
		}
	}
	sortByArrival(late)
	return late
}

// appendOverdue goes down from one place in the heap as far as times have come,
// and stops when there are more than most.
func (q *Queue[T]) appendOverdue(late []*Entry[T], i int, now int64, most int) []*Entry[T] {
	if i >= q.due.len() || q.due.members[i].Due > now || len(late) > most {
		return late
	}
	late = append(late, q.due.members[i])
	late = q.appendOverdue(late, 2*i+1, now, most)
	return q.appendOverdue(late, 2*i+2, now, most)
}

// Oldest returns the entry that arrived first, nil if no request waits.
func (q *Queue[T]) Oldest() *Entry[T] { return q.oldest }

// All yields every waiter, in arrival order.
func (q *Queue[T]) All(yield func(*Entry[T]) bool) {
	for e := q.oldest; e != nil; {
		later := e.later
		if !yield(e) {
			return
		}
		e = later
	}
}

// link enters e in the list by arrival. Mostly it is the last.
func (q *Queue[T]) link(e *Entry[T]) {
	before := q.newest
	for before != nil && before.Seq > e.Seq {
		before = before.earlier
	}
	e.earlier = before
	if before == nil {
		e.later, q.oldest = q.oldest, e
	} else {
		e.later, before.later = before.later, e
	}
	if e.later == nil {
		q.newest = e
	} else {
		e.later.earlier = e
	}
}

func (q *Queue[T]) unlink(e *Entry[T]) {
	if e.earlier == nil {
		q.oldest = e.later
	} else {
		e.earlier.later = e.later
	}
	if e.later == nil {
		q.newest = e.earlier
	} else {
		e.later.earlier = e.earlier
	}
	e.earlier, e.later = nil, nil
}

// activate enters a class among those that have pending requests.
func (q *Queue[T]) activate(c *class[T]) {
	at := len(q.active)
	for at > 0 && q.ring.less(c, q.active[at-1]) {
		at--
	}
	q.active = slices.Insert(q.active, at, c)
	q.number(at)
	q.touch(c)
}

func (q *Queue[T]) deactivate(c *class[T]) {
	at := c.active
	q.active = slices.Delete(q.active, at, at+1)
	c.active = -1
	q.number(at)
	q.touch(c)
}

// touch notes that a class's deficit may change. A class that is served over and
// over is noted once.
func (q *Queue[T]) touch(c *class[T]) {
	if n := len(q.touched); n == 0 || q.touched[n-1] != c.index {
		q.touched = append(q.touched, c.index)
	}
}

// number notes the places of the active classes from one on.
func (q *Queue[T]) number(from int) {
	for i := from; i < len(q.active); i++ {
		q.active[i].active = i
	}
}

// sortActive sorts the active classes into visiting order.
func (q *Queue[T]) sortActive() {
	if len(q.active) < 2 {
		return
	}
	slices.SortFunc(q.active, func(a, b *class[T]) int {
		return cmp.Compare(a.label-q.ring.head.label, b.label-q.ring.head.label)
	})
	q.number(0)
}

// Changed returns the classes whose deficit may have changed since the last call.
// The list holds until the queue is changed.
func (q *Queue[T]) Changed() []int {
	changed := q.touched
	q.touched = q.touched[:0]
	return changed
}

func sortByArrival[T any](entries []*Entry[T]) {
	slices.SortFunc(entries, func(a, b *Entry[T]) int { return cmp.Compare(a.Seq, b.Seq) })
}
