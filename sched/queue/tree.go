package queue

// tree keeps lanes by the key of their first entry, so that they can be asked in
// order from any place on. It is a treap (Seidel and Aragon 1996): a search tree
// by key whose nodes are a heap by random weights, which keeps it shallow. Its
// nodes belong to the lanes, so that nothing is allocated.
type tree[T any] struct {
	root   *node[T]
	before func(a, b *key) bool
	seed   uint32
}

// node is a lane's place in a tree.
type node[T any] struct {
	lane        *Lane[T]
	group       *group[T]
	key         key // of the lane's first entry, as it was when the node was inserted
	left, right *node[T]
	weight      uint32
}

func newTree[T any](before func(a, b *key) bool) tree[T] { return tree[T]{before: before, seed: 1} }

func (t *tree[T]) empty() bool { return t.root == nil }

// insert puts n in its place. REQUIRES: n is in no tree and its key is set.
func (t *tree[T]) insert(n *node[T]) {
	// xorshift (Marsaglia 2003): the weights need not be unpredictable, since keys
	// follow from what was there before them.
	t.seed ^= t.seed << 13
	t.seed ^= t.seed >> 17
	t.seed ^= t.seed << 5
	n.weight = t.seed
	at := &t.root
	for *at != nil && (*at).weight >= n.weight {
		if t.before(&n.key, &(*at).key) {
			at = &(*at).left
		} else {
			at = &(*at).right
		}
	}
	rest := *at
	*at = n
	// What stood here is split by the key.
	less, more := &n.left, &n.right
	for rest != nil {
		if t.before(&rest.key, &n.key) {
			*less, less, rest = rest, &rest.right, rest.right
		} else {
			*more, more, rest = rest, &rest.left, rest.left
		}
	}
	*less, *more = nil, nil
}

// remove takes n out. REQUIRES: n is in the tree.
func (t *tree[T]) remove(n *node[T]) {
	at := &t.root
	for *at != n {
		if t.before(&n.key, &(*at).key) {
			at = &(*at).left
		} else {
			at = &(*at).right
		}
	}
	left, right := n.left, n.right
	for left != nil && right != nil {
		if left.weight >= right.weight {
			*at, at, left = left, &left.right, left.right
		} else {
			*at, at, right = right, &right.left, right.left
		}
	}
	if left == nil {
		left = right
	}
	*at = left
	n.left, n.right = nil, nil
}

// seek returns the first lane from a place on; nil if there is none.
func (t *tree[T]) seek(from *place) *node[T] {
	var found *node[T]
	for n := t.root; n != nil; {
		if from.passed(&n.key, t.before) {
			n = n.right
		} else {
			found, n = n, n.left
		}
	}
	return found
}

// place is a place in the order of a tree: before all lanes, at a key, or behind
// it.
type place struct {
	key    key
	begun  bool // false: before all lanes
	behind bool
}

// passed reports whether the place is behind a key.
func (p *place) passed(k *key, before func(a, b *key) bool) bool {
	switch {
	case !p.begun:
		return false
	case p.behind:
		return !before(&p.key, k)
	default:
		return before(k, &p.key)
	}
}
