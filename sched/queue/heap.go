package queue

// indexHeap is a binary heap whose members know their place, so that any one
// can be removed in logarithmic time. It is container/heap without the boxing:
// a queue operation touches up to four heaps and must not allocate.
type indexHeap[M any] struct {
	members []M
	less    func(a, b M) bool
	place   func(m M) *int
}

func (h *indexHeap[M]) len() int { return len(h.members) }

// top returns the least member. REQUIRES: len() > 0.
func (h *indexHeap[M]) top() M { return h.members[0] }

func (h *indexHeap[M]) push(m M) {
	h.members = append(h.members, m)
	h.set(len(h.members)-1, m)
	h.up(len(h.members) - 1)
}

// remove takes m out and does nothing if it is not in.
func (h *indexHeap[M]) remove(m M) {
	i := *h.place(m)
	if i < 0 {
		return
	}
	last := len(h.members) - 1
	moved := h.members[last]
	var none M
	h.members[last] = none
	h.members = h.members[:last]
	*h.place(m) = -1
	if i < last {
		h.set(i, moved)
		h.fix(moved)
	}
	if cap(h.members) > 64 && len(h.members) < cap(h.members)/8 {
		h.members = append(make([]M, 0, cap(h.members)/4), h.members...)
	}
}

// fix restores the order after m's key has changed.
func (h *indexHeap[M]) fix(m M) {
	i := *h.place(m)
	if i < 0 {
		return
	}
	if !h.down(i) {
		h.up(i)
	}
}

func (h *indexHeap[M]) set(i int, m M) {
	h.members[i] = m
	*h.place(m) = i
}

func (h *indexHeap[M]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.members[i], h.members[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *indexHeap[M]) down(i int) (moved bool) {
	for {
		child := 2*i + 1
		if child >= len(h.members) {
			return moved
		}
		if right := child + 1; right < len(h.members) && h.less(h.members[right], h.members[child]) {
			child = right
		}
		if !h.less(h.members[child], h.members[i]) {
			return moved
		}
		h.swap(i, child)
		i, moved = child, true
	}
}

func (h *indexHeap[M]) swap(i, j int) {
	a, b := h.members[i], h.members[j]
	h.set(i, b)
	h.set(j, a)
}
