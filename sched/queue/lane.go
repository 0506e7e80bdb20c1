package queue

import "github.com/seed-3c5df8a4/turnstile/lifecycle"

// Lane holds the requests of one class that have the same constraints: all of
// them can run, or none.
//
// A lane is open or blocked. An open one is looked at when its turn comes; a
// blocked one was looked at and could not run, and nothing can have changed that
// but the freed ranks that are on their way to it (see front).
type Lane[T any] struct {
	key   string
	scope Scope // without the workers
	// listed are the workers of its allowed set, if they are few enough that it is
	// listed under each of them.
	listed []uint64
	class  *class[T]

	order sequence[T] // by orderLess
	age   sequence[T] // by ageLess; empty when the class has no maximum age

	// came and cameLast are the ends of the list of its entries as they came.
	came, cameLast *Entry[T]
	// aged counts its entries that have come of guard age.
	aged int
	// lacks: it has no usable rank, since lacksSince. If it stays so its first entry
	// fails at failsAt; failing is its place among the lanes of which this is so, -1
	// if it is not.
	lacks               bool
	lacksSince, failsAt int64
	failing             int

	blocked bool
	// overloaded: when all its ranks were last looked at, all were overloaded or there
	// were none.
	overloaded bool
	// stamp is that of the queue when all its ranks were last looked at.
	stamp uint64
	// witness is a rank that the lane could use when it was opened, if hasWitness.
	witness    lifecycle.RankID
	hasWitness bool
	// asked: the lane was opened by a freed rank, so that no other rank than those
	// that are on their way can serve it.
	asked bool

	// standing holds the lane's places by either order.
	standing [orders]laneStanding[T]
}

// The two orders of the lanes of a class.
const (
	byOrder = iota
	byAge
	orders
)

// laneStanding is a lane's place in one order.
type laneStanding[T any] struct {
	open  int        // index among the open lanes, -1 when blocked
	nodes []*node[T] // one in each group that lists the lane
	// Most lanes need no more than these.
	first node[T]
	room  [2]*node[T]
}

func newLane[T any](c *class[T], key string, scope Scope) *Lane[T] {
	l := &Lane[T]{
		key: key, scope: Scope{Pinned: scope.Pinned, Rank: scope.Rank}, listed: fewDistinct(scope.Workers), class: c,
		order: sequence[T]{before: orderLess, place: func(e *Entry[T]) *int { return &e.orderIndex }},
		age:   sequence[T]{before: ageLess, place: func(e *Entry[T]) *int { return &e.ageIndex }},

		failing: -1,
	}
	for i := range l.standing {
		l.standing[i].open = -1
	}
	return l
}

// Class returns the class of the lane.
func (l *Lane[T]) Class() int { return l.class.index }

// First returns a request of the lane, which stands for all as far as
// constraints go.
func (l *Lane[T]) First() *Entry[T] { return l.order.top() }

// SetOverloaded notes, while the lane is tested, whether all its ranks are
// overloaded.
func (l *Lane[T]) SetOverloaded(overloaded bool) { l.overloaded = overloaded }

// SetWitness notes, while the lane is tested, a rank that it can use.
func (l *Lane[T]) SetWitness(rank lifecycle.RankID) { l.witness, l.hasWitness = rank, true }

// head returns the first entry in one of the orders.
func (l *Lane[T]) head(order int) *Entry[T] {
	if order == byAge {
		return l.age.top()
	}
	return l.order.top()
}

// class is one policy class: its lanes and its place in the round.
type class[T any] struct {
	queue  *Queue[T]
	index  int
	order  Order
	quant  int64
	maxAge int64 // ns, 0 for none
	// guardAfter and endpointWait are in ns, 0 for none.
	guardAfter, endpointWait int64

	young   indexHeap[*Entry[T]] // not of guard age
	failing indexHeap[*Lane[T]]  // by when their first entry fails

	common  *Lane[T] // the lane without constraints; nil if empty
	lanes   map[string]*Lane[T]
	pending int
	fronts  []front[T] // by order and, if the class has a maximum age, by age

	deficit int64
	onVisit bool

	// Neighbours in visiting order, and the place there.
	before, after *class[T]
	label         uint64
	// active is the class's index among those that have pending requests, -1 if it
	// has none.
	active int
}

func newClass[T any](q *Queue[T], index int, spec ClassSpec) *class[T] {
	return &class[T]{
		queue: q, index: index, order: spec.Order, quant: max(spec.Quantum, 1), maxAge: spec.MaxAge, active: -1,
		guardAfter: spec.GuardAfter, endpointWait: spec.EndpointWait, young: youngOf[T](), failing: failingOf[T](),
	}
}

// makeFronts is called for the first request of the class.
func (c *class[T]) makeFronts() {
	c.fronts = append(c.fronts, newFront[T](byOrder, orderLess))
	if c.maxAge > 0 {
		c.fronts = append(c.fronts, newFront[T](byAge, ageLess))
	}
}

// lane returns the lane of a key, nil if no request waits in it.
func (c *class[T]) lane(key string) *Lane[T] {
	if key == "" {
		return c.common
	}
	return c.lanes[key]
}

// each yields the lanes, in no particular order.
func (c *class[T]) each(yield func(*Lane[T]) bool) {
	if c.common != nil && !yield(c.common) {
		return
	}
	for _, l := range c.lanes {
		if !yield(l) {
			return
		}
	}
}

// addLane makes the lane of an entry.
func (c *class[T]) addLane(e *Entry[T]) *Lane[T] {
	if c.fronts == nil {
		c.makeFronts()
	}
	l := newLane(c, e.Lane, e.Scope)
	if e.Lane == "" {
		c.common = l
		return l
	}
	if c.lanes == nil {
		c.lanes = make(map[string]*Lane[T])
	}
	c.lanes[e.Lane] = l
	return l
}

// dropLane forgets a lane that is empty.
func (c *class[T]) dropLane(l *Lane[T]) {
	if l == c.common {
		c.common = nil
	} else {
		delete(c.lanes, l.key)
	}
}

// settleLane puts a lane, and only there, where its first entries and its state
// say. It is called after either has changed.
func (c *class[T]) settleLane(l *Lane[T]) {
	for i := range c.fronts {
		c.fronts[i].settle(l)
	}
}

// open has the lane looked at when its turn comes.
func (c *class[T]) open(l *Lane[T]) {
	if l.blocked {
		l.blocked = false
		c.settleLane(l)
	}
}

// block notes that the lane cannot run.
func (c *class[T]) block(l *Lane[T]) {
	l.blocked, l.hasWitness, l.asked = true, false, false
	c.settleLane(l)
}
