package queue

// A lane of a class with a guard age guards its ranks while it holds a request that has
// waited that long: see Host.Guard. Which lanes do follows from the waiters and the
// time, and is kept up to date by two steps: an entry comes of age when Grow gets the
// time, and ceases to count when it is removed. A class without a guard age spends
// nothing on it.

// youngOf returns the heap of entries that have not come of guard age.
func youngOf[T any]() indexHeap[*Entry[T]] {
	return indexHeap[*Entry[T]]{
		less: func(a, b *Entry[T]) bool {
			return a.Arrival < b.Arrival || a.Arrival == b.Arrival && a.Seq < b.Seq
		},
		place: func(e *Entry[T]) *int { return &e.youngIndex },
	}
}

// Grow has the entries come of age that have waited for the guard age of their class
// by now, as far as the budget goes. It comes before the decisions of an instant, and
// is not done if some are left.
func (q *Queue[T]) Grow(now int64, b *Budget) (done bool) {
	for _, c := range q.guards {
		for c.young.len() > 0 {
			e := c.young.top()
			if now < addSaturating(e.Arrival, c.guardAfter) {
				break
			}
			c.young.remove(e)
			e.aged = true
			if e.lane.aged++; e.lane.aged == 1 {
				q.guard(c.index, e.Value, true)
			}
			if !b.Spend(CostEntry) {
				return false
			}
		}
	}
	return true
}

// ungrow forgets an entry that is being removed from its lane.
func (q *Queue[T]) ungrow(c *class[T], l *Lane[T], e *Entry[T]) {
	if !e.aged {
		c.young.remove(e)
		return
	}
	e.aged = false
	if l.aged--; l.aged == 0 {
		q.guard(c.index, e.Value, false)
	}
}
