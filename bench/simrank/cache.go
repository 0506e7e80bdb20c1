package simrank

// Index is told which blocks a rank can reuse. It is called by the rank's own
// methods.
type Index interface {
	// Add: the block is in the rank's cache from now on.
	Add(block uint64)
	// Remove: it has been evicted.
	Remove(block uint64)
}

// cache holds the KV blocks of one rank: those of running requests, which are
// pinned, and those kept for reuse, evicted least recently used first. Blocks
// are let go deepest first, so that a prefix outlives what builds on it.
type cache struct {
	capacity int64 // in blocks
	private  int64 // blocks that running requests hold and that no other can share
	pinned   int64 // shared blocks that running requests hold
	blocks   map[uint64]*cached
	lru      cached // ring of the unpinned blocks; lru.next is the oldest
	index    Index
}

type cached struct {
	hash       uint64
	refs       int64
	computed   bool
	prev, next *cached // in the ring while refs is 0
}

func newCache(capacity int64, index Index) *cache {
	c := &cache{capacity: capacity, blocks: make(map[uint64]*cached), index: index}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// prefix returns how many leading blocks are held and computed.
func (c *cache) prefix(hashes []uint64) int64 {
	n := 0
	for n < len(hashes) {
		if b := c.blocks[hashes[n]]; b == nil || !b.computed {
			break
		}
		n++
	}
	return int64(n)
}

// fits reports whether a request with these shared blocks and so many private
// ones can be held beside the running ones.
func (c *cache) fits(hashes []uint64, private int64) bool {
	need := c.pinned + c.private + private
	if need+int64(len(hashes)) <= c.capacity {
		return true
	}
	for _, h := range hashes {
		if b := c.blocks[h]; b == nil || b.refs == 0 {
			need++
		}
	}
	return need <= c.capacity
}

// pin holds blocks for a request, evicting what it must, and returns them. A
// request too large for the whole cache is held all the same.
func (c *cache) pin(hashes []uint64, private int64) []*cached {
	c.private += private
	held := make([]*cached, len(hashes))
	for i, h := range hashes {
		b := c.blocks[h]
		if b == nil {
			b = &cached{hash: h}
			c.blocks[h] = b
		}
		if b.refs == 0 {
			c.pinned++
			if b.next != nil {
				b.prev.next, b.next.prev = b.next, b.prev
				b.prev, b.next = nil, nil
			}
		}
		b.refs++
		held[i] = b
	}
	c.evict()
	return held
}

// computed makes pinned blocks reusable.
func (c *cache) computed(held []*cached) {
	for _, b := range held {
		if !b.computed {
			b.computed = true
			c.index.Add(b.hash)
		}
	}
}

// unpin lets the blocks of a request go: the private ones for good, the others
// to be reused until they are evicted.
func (c *cache) unpin(held []*cached, private int64) {
	c.private -= private
	for i := len(held) - 1; i >= 0; i-- {
		b := held[i]
		if b.refs--; b.refs > 0 {
			continue
		}
		c.pinned--
		b.prev, b.next = c.lru.prev, &c.lru
		b.prev.next, b.next.prev = b, b
	}
	c.evict()
}

func (c *cache) evict() {
	for int64(len(c.blocks))+c.private > c.capacity && c.lru.next != &c.lru {
		b := c.lru.next
		b.prev.next, b.next.prev = b.next, b.prev
		delete(c.blocks, b.hash)
		if b.computed {
			c.index.Remove(b.hash)
		}
	}
}
