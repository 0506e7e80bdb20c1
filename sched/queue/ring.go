package queue

import "math"

// ring holds the classes in visiting order. It costs what a service moves, not
// how many classes there are: the order is a circle with a head, so that those
// before the served class go behind the others when the head moves, and each class
// has a label, which grows along the circle from the head, so that two can be
// compared without walking (order maintenance: Dietz and Sleator 1987; here all
// are labelled anew when no label is left between two).
type ring[T any] struct {
	classes []*class[T]
	head    *class[T]
}

func newRing[T any](classes []*class[T]) ring[T] {
	r := ring[T]{classes: classes}
	for i, c := range classes {
		c.before, c.after = classes[(i+len(classes)-1)%len(classes)], classes[(i+1)%len(classes)]
	}
	if len(classes) > 0 {
		r.head = classes[0]
		r.relabel()
	}
	return r
}

func (r *ring[T]) relabel() {
	step := math.MaxUint64/uint64(len(r.classes)) + 1
	if len(r.classes) == 1 {
		step = 0
	}
	label := uint64(0)
	for c, n := r.head, 0; n < len(r.classes); c, n = c.after, n+1 {
		c.label = label
		label += step
	}
}

// less reports whether a stands before b.
func (r *ring[T]) less(a, b *class[T]) bool { return a.label-r.head.label < b.label-r.head.label }

// toBack moves a class to the very back.
func (r *ring[T]) toBack(c *class[T]) {
	if c == r.head {
		r.head = c.after
		return
	}
	r.insert(c, r.head)
}

// toFront moves a class to the very front.
func (r *ring[T]) toFront(c *class[T]) {
	if c != r.head {
		r.insert(c, r.head)
		r.head = c
	}
}

// insert takes a class out and puts it before another, which may be the head and
// stays it.
func (r *ring[T]) insert(c, next *class[T]) {
	if c.after == next {
		return
	}
	c.before.after, c.after.before = c.after, c.before
	c.before, c.after = next.before, next
	c.before.after, next.before = c, c
	if room := next.label - c.before.label; room >= 2 {
		c.label = c.before.label + room/2
		return
	}
	r.relabel()
}
