package queue

import "fmt"

// Check recounts the queue and returns what does not agree: for tests, and for
// builds that check invariants.
func (q *Queue[T]) Check() error {
	length, dues, retests := 0, 0, 0
	for i, c := range q.classes {
		pending, active := 0, 0
		for key, l := range c.lanes {
			if l.order.len() == 0 {
				return fmt.Errorf("class %d: lane %q is empty", i, key)
			}
			if c.maxAge > 0 && l.age.len() != l.order.len() {
				return fmt.Errorf("class %d: lane %q has %d by order and %d by age", i, key, l.order.len(), l.age.len())
			}
			for _, e := range l.order.members {
				if e.lane != l || e.class != i {
					return fmt.Errorf("class %d: entry %d is in lane %q and says otherwise", i, e.Seq, key)
				}
				if e.Due != NoDue {
					dues++
				}
			}
			if l.blocked != (l.orderAt < 0) || c.maxAge > 0 && l.blocked != (l.ageAt < 0) {
				return fmt.Errorf("class %d: lane %q is blocked: %t, and in the heaps at %d and %d", i, key, l.blocked, l.orderAt, l.ageAt)
			}
			if !l.blocked {
				active++
			}
			if l.retestAt != NoDue {
				retests++
			}
			pending += l.order.len()
		}
		if pending != c.pending {
			return fmt.Errorf("class %d: %d pending, counted %d", i, c.pending, pending)
		}
		if c.byOrder.len() != active {
			return fmt.Errorf("class %d: %d active lanes, counted %d", i, c.byOrder.len(), active)
		}
		if pending == 0 && (c.deficit != 0 || c.onVisit) {
			return fmt.Errorf("class %d: empty with deficit %d, on visit: %t", i, c.deficit, c.onVisit)
		}
		if c.deficit < 0 {
			return fmt.Errorf("class %d: deficit %d", i, c.deficit)
		}
		length += pending
	}
	if length != q.length || dues != q.due.len() || retests != q.retest.len() {
		return fmt.Errorf("%d queued, %d with a due time, %d lanes to retest; counted %d, %d, %d",
			q.length, q.due.len(), q.retest.len(), length, dues, retests)
	}
	return nil
}
