package simrank

import (
	"math/bits"
	"sync"
)

// Holders knows which of several ranks can reuse which block. A real gateway
// learns this from the ranks' cache events; here it is told at once. It is safe
// for concurrent use.
type Holders struct {
	words int
	mu    struct {
		sync.RWMutex
		holders map[uint64][]uint64 // per block a bit for each rank
	}
}

// Holding says how many leading blocks of a prompt a rank has. Ranks are
// numbered from 0.
type Holding struct {
	Rank, Blocks int
}

// NewHolders returns an index of so many ranks, which hold nothing.
func NewHolders(ranks int) *Holders {
	x := &Holders{words: (ranks + 63) / 64}
	x.mu.holders = make(map[uint64][]uint64)
	return x
}

// Of returns the index as one rank tells it.
func (x *Holders) Of(rank int) Index { return told{x, rank} }

type told struct {
	*Holders
	rank int
}

// Add implements Index.
func (t told) Add(block uint64) { t.add(t.rank, block) }

// Remove implements Index.
func (t told) Remove(block uint64) { t.remove(t.rank, block) }

func (x *Holders) add(rank int, block uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	set := x.mu.holders[block]
	if set == nil {
		set = make([]uint64, x.words)
		x.mu.holders[block] = set
	}
	set[rank/64] |= 1 << (rank % 64)
}

func (x *Holders) remove(rank int, block uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	set := x.mu.holders[block]
	set[rank/64] &^= 1 << (rank % 64)
	for _, word := range set {
		if word != 0 {
			return
		}
	}
	delete(x.mu.holders, block)
}

// Best returns the ranks that hold the longest prefixes, at most so many, in the
// order of growing length. Of those that hold equally much, turn decides which is
// left out.
func (x *Holders) Best(blocks []uint64, most, turn int) []Holding {
	if len(blocks) == 0 {
		return nil
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []Holding
	set := append([]uint64(nil), x.mu.holders[blocks[0]]...)
	for i := 1; len(set) > 0; i++ {
		var next []uint64
		if i < len(blocks) {
			next = x.mu.holders[blocks[i]]
		}
		from := len(out)
		for w := range set {
			dropped := set[w]
			if next != nil {
				dropped &^= next[w]
			}
			for set[w] &^= dropped; dropped != 0; dropped &= dropped - 1 {
				out = append(out, Holding{Rank: w*64 + bits.TrailingZeros64(dropped), Blocks: i})
			}
		}
		rotate(out[from:], turn)
		if next == nil {
			break
		}
	}
	return out[max(0, len(out)-most):]
}

func rotate(list []Holding, by int) {
	if len(list) < 2 {
		return
	}
	by %= len(list)
	head := append([]Holding(nil), list[:by]...)
	copy(list, list[by:])
	copy(list[len(list)-by:], head)
}
