package queue

import "fmt"

// Check recounts the queue and returns what does not agree: for tests, and for
// builds that check invariants.
func (q *Queue[T]) Check() error {
	length, dues, active := 0, 0, 0
	for i, c := range q.classes {
		pending, err := c.check(&dues)
		if err != nil {
			return fmt.Errorf("class %d: %w", i, err)
		}
		if pending != c.pending {
			return fmt.Errorf("class %d: %d pending, counted %d", i, c.pending, pending)
		}
		if pending == 0 && (c.deficit != 0 || c.onVisit) {
			return fmt.Errorf("class %d: empty with deficit %d, on visit: %t", i, c.deficit, c.onVisit)
		}
		if c.deficit < 0 {
			return fmt.Errorf("class %d: deficit %d", i, c.deficit)
		}
		if (pending > 0) != (c.active >= 0) {
			return fmt.Errorf("class %d: %d pending, and active at %d", i, pending, c.active)
		}
		if c.active >= 0 {
			active++
			if q.active[c.active] != c {
				return fmt.Errorf("class %d: not active at %d", i, c.active)
			}
			if c.active > 0 && !q.ring.less(q.active[c.active-1], c) {
				return fmt.Errorf("class %d: active at %d, against the visiting order", i, c.active)
			}
		}
		length += pending
	}
	listed, last := 0, uint64(0)
	for e := range q.All {
		if e.Seq <= last && listed > 0 {
			return fmt.Errorf("entry %d is listed after %d", e.Seq, last)
		}
		listed, last = listed+1, e.Seq
	}
	if length != q.length || length != listed || dues != q.due.len() || active != len(q.active) {
		return fmt.Errorf("%d queued, %d listed, %d with a due time, %d active classes; counted %d, %d, %d",
			q.length, listed, q.due.len(), len(q.active), length, dues, active)
	}
	return nil
}

// check recounts the lanes of a class.
func (c *class[T]) check(dues *int) (pending int, err error) {
	open := 0
	for l := range c.each {
		if l.order.len() == 0 {
			return 0, fmt.Errorf("lane %q is empty", l.key)
		}
		if c.maxAge > 0 && l.age.len() != l.order.len() {
			return 0, fmt.Errorf("lane %q has %d by order and %d by age", l.key, l.order.len(), l.age.len())
		}
		for e := range l.order.all {
			if e.lane != l || e.class != c.index {
				return 0, fmt.Errorf("entry %d is in lane %q and says otherwise", e.Seq, l.key)
			}
			if orderLess(&e.key, &l.order.top().key) {
				return 0, fmt.Errorf("lane %q: entry %d stands before the first", l.key, e.Seq)
			}
			if e.Due != NoDue {
				*dues++
			}
		}
		for i := range c.fronts {
			s := &l.standing[i]
			if l.blocked != (s.open < 0) {
				return 0, fmt.Errorf("lane %q is blocked: %t, and among the open ones at %d", l.key, l.blocked, s.open)
			}
			for _, n := range s.nodes {
				if n.key.seq != l.head(i).Seq || n.group.lanes.seek(&place{key: n.key, begun: true}) != n {
					return 0, fmt.Errorf("lane %q is not found in its place", l.key)
				}
			}
		}
		if !l.blocked {
			open++
		}
		pending += l.order.len()
	}
	for i := range c.fronts {
		if n := c.fronts[i].opened.len(); n != open {
			return 0, fmt.Errorf("%d open lanes, counted %d", n, open)
		}
	}
	return pending, nil
}
