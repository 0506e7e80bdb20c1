package replay

import (
	"math/bits"
	"sync"
)

// index knows which rank can reuse which block. A real gateway learns this from
// the ranks' cache events; here it is told at once.
type index struct {
	ranks, words int
	mu           struct {
		sync.RWMutex
		holders map[uint64][]uint64 // per block a bit for each rank
	}
}

// holding says how many leading blocks of a prompt a rank has.
type holding struct {
	rank, blocks int
}

func newIndex(ranks int) *index {
	x := &index{ranks: ranks, words: (ranks + 63) / 64}
	x.mu.holders = make(map[uint64][]uint64)
	return x
}

func (x *index) add(rank int, block uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	set := x.mu.holders[block]
	if set == nil {
		set = make([]uint64, x.words)
		x.mu.holders[block] = set
	}
	set[rank/64] |= 1 << (rank % 64)
}

func (x *index) remove(rank int, block uint64) {
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

// best returns the ranks that hold the longest prefixes, at most so many. Of
// those that hold equally much, turn decides who is left out.
func (x *index) best(blocks []uint64, most, turn int) []holding {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []holding // by length of the prefix, growing
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
				out = append(out, holding{rank: w*64 + bits.TrailingZeros64(dropped), blocks: i})
			}
		}
		rotate(out[from:], turn)
		if next == nil {
			break
		}
	}
	return out[max(0, len(out)-most):]
}

func rotate(list []holding, by int) {
	if len(list) < 2 {
		return
	}
	by %= len(list)
	head := append([]holding(nil), list[:by]...)
	copy(list, list[by:])
	copy(list[len(list)-by:], head)
}

// rankIndex is the index as one rank tells it.
type rankIndex struct {
	*index
	rank int
}

// Add implements simrank.Index.
func (r rankIndex) Add(block uint64) { r.add(r.rank, block) }

// Remove implements simrank.Index.
func (r rankIndex) Remove(block uint64) { r.remove(r.rank, block) }
