package prompt

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Cache remembers which prompt blocks each rank computed lately, which is a guess
// at what its KV cache holds. The engines may have dropped a block sooner, or kept
// one for longer; the guess costs a detour, never an error. It is safe for
// concurrent use.
type Cache struct {
	capacity int
	mu       struct {
		sync.RWMutex
		ranks map[sched.RankID]*held
		// tells are the workers that have told how much of a prompt was cached: from
		// then on silence means nothing.
		tells map[uint64]bool
	}
}

// held is what one rank holds. A look-up does not count as use, so that lookers
// share the lock.
type held struct {
	mu struct {
		sync.RWMutex
		blocks *simplelru.LRU[uint64, struct{}]
	}
}

// NewCache returns a cache that remembers the last capacity blocks of each rank,
// at least 1.
func NewCache(capacity int) *Cache {
	c := &Cache{capacity: max(1, capacity)}
	c.mu.ranks, c.mu.tells = make(map[sched.RankID]*held), make(map[uint64]bool)
	return c
}

// Computed notes that a rank has computed a prompt.
func (c *Cache) Computed(rank sched.RankID, blocks []uint64) {
	if len(blocks) == 0 {
		return
	}
	h := c.rank(rank)
	h.mu.Lock()
	defer h.mu.Unlock()
	// From the last to the first: a block is worth nothing without those before
	// it, so the first must be the last to go.
	for i := len(blocks) - 1; i >= 0; i-- {
		h.mu.blocks.Add(blocks[i], struct{}{})
	}
}

// Overlaps returns the ranks that hold leading blocks of a prompt. Its order is
// not defined.
func (c *Cache) Overlaps(blocks []uint64) []sched.Overlap {
	if len(blocks) == 0 {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	var overlaps []sched.Overlap
	for rank, h := range c.mu.ranks {
		if n := h.leading(blocks); n > 0 {
			overlaps = append(overlaps, sched.Overlap{Rank: rank, Device: float64(n)})
		}
	}
	return overlaps
}

// trifle is up to how many blocks nothing is made of: where a prompt ends, and how
// its text falls into tokens, engines and this package differ.
const trifle = 3

// Told corrects what is known of a rank by what its engine said of a prompt: whether
// it told how much of it was cached, and how much that was. If that is nothing and
// more than a trifle was expected, all that is known is too old: the engine was
// started again, or has dropped it.
func (c *Cache) Told(rank sched.RankID, expected int64, told bool, cached int64) {
	c.mu.Lock()
	if told {
		c.mu.tells[rank.Worker] = true
	}
	wrong := c.mu.tells[rank.Worker] && cached == 0 && expected > trifle
	if wrong {
		delete(c.mu.ranks, rank)
	}
	c.mu.Unlock()
}

// Forget drops what is known of a worker's ranks: it is gone, or may have been
// started again with nothing cached.
func (c *Cache) Forget(worker uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.tells, worker)
	for rank := range c.mu.ranks {
		if rank.Worker == worker {
			delete(c.mu.ranks, rank)
		}
	}
}

func (c *Cache) rank(id sched.RankID) *held {
	c.mu.RLock()
	h := c.mu.ranks[id]
	c.mu.RUnlock()
	if h != nil {
		return h
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h = c.mu.ranks[id]; h == nil {
		h = &held{}
		h.mu.blocks, _ = simplelru.NewLRU[uint64, struct{}](c.capacity, nil) // fails only below 1
		c.mu.ranks[id] = h
	}
	return h
}

func (h *held) leading(blocks []uint64) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for i, block := range blocks {
		if !h.mu.blocks.Contains(block) {
			return i
		}
	}
	return len(blocks)
}
