package queue

import "slices"

// Lane holds the requests of one class that have the same constraints: all of
// them can run, or none.
type Lane[T any] struct {
	key   string
	scope Scope
	class *class[T]

	order indexHeap[*Entry[T]] // by Entry.before
	age   indexHeap[*Entry[T]] // by Entry.older; empty when the class has no maximum age

	// blocked: the lane was tested and could not run, and nothing that could
	// change this has happened since.
	blocked bool
	// overloaded: at that test all ranks of the lane were overloaded. Only another
	// world can change this, and that unblocks all lanes.
	overloaded bool
	// retestAt is the instant at which time alone may unblock the lane.
	retestAt int64
	// Places in the class's heaps of lanes that are not blocked and in the
	// queue's heap of instants, -1 when not in them.
	orderAt, ageAt, retestPlace int
}

func newLane[T any](c *class[T], key string, scope Scope) *Lane[T] {
	return &Lane[T]{
		key: key, scope: scope, class: c,
		order: indexHeap[*Entry[T]]{
			less:  (*Entry[T]).before,
			place: func(e *Entry[T]) *int { return &e.orderAt },
		},
		age: indexHeap[*Entry[T]]{
			less:  (*Entry[T]).older,
			place: func(e *Entry[T]) *int { return &e.ageAt },
		},
		retestAt: NoDue, orderAt: -1, ageAt: -1, retestPlace: -1,
	}
}

// First returns a request of the lane, which stands for all as far as
// constraints go.
func (l *Lane[T]) First() *Entry[T] { return l.order.top() }

// class is one policy class: its lanes and its place in the round.
type class[T any] struct {
	index  int
	order  Order
	quant  int64
	maxAge int64 // ns, 0 for none

	lanes   map[string]*Lane[T]
	pending int
	// The lanes that are not blocked, by their heads in either order.
	byOrder indexHeap[*Lane[T]]
	byAge   indexHeap[*Lane[T]]

	deficit int64
	onVisit bool
}

func newClass[T any](index int, spec ClassSpec) *class[T] {
	return &class[T]{
		index: index, order: spec.Order, quant: max(spec.Quantum, 1), maxAge: spec.MaxAge,
		byOrder: indexHeap[*Lane[T]]{
			less:  func(a, b *Lane[T]) bool { return a.order.top().before(b.order.top()) },
			place: func(l *Lane[T]) *int { return &l.orderAt },
		},
		byAge: indexHeap[*Lane[T]]{
			less:  func(a, b *Lane[T]) bool { return a.age.top().older(b.age.top()) },
			place: func(l *Lane[T]) *int { return &l.ageAt },
		},
	}
}

// best returns the request that goes first among the lanes that are not
// blocked. Strict priority leads both orders, so if the oldest of the highest
// priority has not come of age, nobody of that priority has.
func (c *class[T]) best(now int64) *Entry[T] {
	if c.byOrder.len() == 0 {
		return nil
	}
	if c.maxAge > 0 {
		if oldest := c.byAge.top().age.top(); now-oldest.Arrival >= c.maxAge {
			return oldest
		}
	}
	return c.byOrder.top().order.top()
}

// activate puts the lane among those that may run, or to its right place there.
func (c *class[T]) activate(l *Lane[T]) {
	if l.orderAt >= 0 {
		c.byOrder.fix(l)
	} else {
		c.byOrder.push(l)
	}
	if c.maxAge == 0 {
		return
	}
	if l.ageAt >= 0 {
		c.byAge.fix(l)
	} else {
		c.byAge.push(l)
	}
}

func (c *class[T]) deactivate(l *Lane[T]) {
	c.byOrder.remove(l)
	c.byAge.remove(l)
}

// watchers find the lanes that a hint about a rank can concern.
type watchers[T any] struct {
	pinned map[rankKey][]*Lane[T]
	worker map[uint64][]*Lane[T]
	wide   []*Lane[T]
}

type rankKey struct {
	worker uint64
	rank   uint32
}

func (w *watchers[T]) add(l *Lane[T]) {
	switch {
	case l.scope.Pinned:
		if w.pinned == nil {
			w.pinned = make(map[rankKey][]*Lane[T])
		}
		key := rankKey{l.scope.Rank.Worker, l.scope.Rank.Rank}
		w.pinned[key] = append(w.pinned[key], l)
	case l.scope.Workers != nil:
		if w.worker == nil {
			w.worker = make(map[uint64][]*Lane[T])
		}
		for _, id := range l.scope.Workers {
			w.worker[id] = append(w.worker[id], l)
		}
	default:
		w.wide = append(w.wide, l)
	}
}

func (w *watchers[T]) remove(l *Lane[T]) {
	switch {
	case l.scope.Pinned:
		removeFrom(w.pinned, rankKey{l.scope.Rank.Worker, l.scope.Rank.Rank}, l)
	case l.scope.Workers != nil:
		for _, id := range l.scope.Workers {
			removeFrom(w.worker, id, l)
		}
	default:
		w.wide = without(w.wide, l)
	}
}

func removeFrom[K comparable, T any](m map[K][]*Lane[T], key K, l *Lane[T]) {
	if rest := without(m[key], l); len(rest) == 0 {
		delete(m, key)
	} else {
		m[key] = rest
	}
}

func without[T any](lanes []*Lane[T], l *Lane[T]) []*Lane[T] {
	i := slices.Index(lanes, l)
	if i < 0 {
		return lanes
	}
	last := len(lanes) - 1
	lanes[i] = lanes[last]
	lanes[last] = nil
	return lanes[:last]
}
