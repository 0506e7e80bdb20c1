package queue

// sequence holds the entries of a lane in order and gives the first. Most lanes
// are first come first served, so that each entry goes behind all others: then
// the sequence is a plain list, and adding, taking the first and removing any one
// cost a few steps whatever its length. The first entry that must go before
// another turns it into a binary heap; a sorted list is one already. When it is
// empty it is a list again.
type sequence[T any] struct {
	// members are the list from head on, with gaps where entries were removed, or
	// the heap; then head is 0 and there is no gap.
	members []*Entry[T]
	head    int
	gaps    int
	heap    bool
	before  func(a, b *key) bool
	place   func(e *Entry[T]) *int
}

func (s *sequence[T]) len() int { return len(s.members) - s.head - s.gaps }

// top returns the first entry. REQUIRES: len() > 0.
func (s *sequence[T]) top() *Entry[T] { return s.members[s.head] }

func (s *sequence[T]) push(e *Entry[T]) {
	last := len(s.members) - 1
	if !s.heap && last >= s.head && s.before(&e.key, &s.members[last].key) {
		s.compact()
		s.heap = true
	}
	s.members = append(s.members, e)
	at := len(s.members) - 1
	*s.place(e) = at
	if s.heap {
		s.up(at)
	}
}

// remove takes e out and does nothing if it is not in.
func (s *sequence[T]) remove(e *Entry[T]) {
	at := *s.place(e)
	if at < 0 {
		return
	}
	*s.place(e) = -1
	if s.heap {
		s.removeFromHeap(at)
	} else {
		s.removeFromList(at)
	}
	if s.len() == 0 {
		s.members, s.head, s.gaps, s.heap = s.members[:0], 0, 0, false
	}
	if cap(s.members) > 64 && s.len() < cap(s.members)/8 {
		s.compact()
		s.members = append(make([]*Entry[T], 0, cap(s.members)/4), s.members...)
	}
}

func (s *sequence[T]) removeFromList(at int) {
	s.members[at] = nil
	s.gaps++
	// The first and the last are never gaps, so that both ends can be looked at.
	for s.head < len(s.members) && s.members[s.head] == nil {
		s.head, s.gaps = s.head+1, s.gaps-1
	}
	for last := len(s.members) - 1; last >= s.head && s.members[last] == nil; last-- {
		s.members, s.gaps = s.members[:last], s.gaps-1
	}
	if wasted := s.head + s.gaps; wasted > 32 && wasted > s.len() {
		s.compact()
	}
}

// compact closes the gaps.
func (s *sequence[T]) compact() {
	n := 0
	for _, e := range s.members[s.head:] {
		if e != nil {
			s.set(n, e)
			n++
		}
	}
	clear(s.members[n:])
	s.members, s.head, s.gaps = s.members[:n], 0, 0
}

func (s *sequence[T]) removeFromHeap(at int) {
	last := len(s.members) - 1
	moved := s.members[last]
	s.members[last] = nil
	s.members = s.members[:last]
	if at < last {
		s.set(at, moved)
		if !s.down(at) {
			s.up(at)
		}
	}
}

func (s *sequence[T]) set(i int, e *Entry[T]) {
	s.members[i] = e
	*s.place(e) = i
}

func (s *sequence[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !s.before(&s.members[i].key, &s.members[parent].key) {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (s *sequence[T]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(s.members) {
			return moved
		}
		if right := child + 1; right < len(s.members) && s.before(&s.members[right].key, &s.members[child].key) {
			child = right
		}
		if !s.before(&s.members[child].key, &s.members[i].key) {
			return moved
		}
		s.swap(i, child)
		i, moved = child, true
	}
}

func (s *sequence[T]) swap(i, j int) {
	a, b := s.members[i], s.members[j]
	s.set(i, b)
	s.set(j, a)
}

// all yields the entries, in no particular order.
func (s *sequence[T]) all(yield func(*Entry[T]) bool) {
	for _, e := range s.members[s.head:] {
		if e != nil && !yield(e) {
			return
		}
	}
}
