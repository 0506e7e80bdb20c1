package kvevents

import (
	"math/bits"
	"sync"
)

// table says of each block which ranks hold it in one tier. Any number of goroutines
// may read and write. Most blocks are held by one rank: its number stands in the map,
// and only what several hold has a set of bits, a row.
//
// Content hashes are uniform, so they spread over the shards by themselves, and a
// writer that never rests keeps readers from one block in 256.
type table struct {
	shards [256]shard
}

type shard struct {
	mu struct {
		sync.RWMutex
		holders map[uint64]uint32 // a rank's slot, or shared and a row
		rows    rows
	}
	_ [40]byte // the next shard's lock is another cache line's
}

// shared marks the number of a row.
const shared = 1 << 31

func newTable() *table {
	t := new(table)
	for i := range t.shards {
		t.shards[i].mu.holders = make(map[uint64]uint32)
	}
	return t
}

func (t *table) shard(block uint64) *shard { return &t.shards[block>>56] }

// get writes who holds the block into set, a bit for each slot. Slots beyond set are
// left out.
func (t *table) get(block uint64, set []uint64) {
	clear(set)
	s := t.shard(block)
	s.mu.RLock()
	defer s.mu.RUnlock()
	holder, ok := s.mu.holders[block]
	switch {
	case !ok:
	case holder&shared != 0:
		copy(set, s.mu.rows.at(holder&^shared))
	case int(holder/64) < len(set):
		set[holder/64] = 1 << (holder % 64)
	}
}

func (t *table) add(block uint64, slot uint32) {
	s := t.shard(block)
	s.mu.Lock()
	defer s.mu.Unlock()
	holder, ok := s.mu.holders[block]
	switch {
	case !ok:
		s.mu.holders[block] = slot
		return
	case holder == slot:
		return
	case holder&shared == 0:
		s.mu.rows.widen(int(max(holder, slot)/64) + 1)
		row := s.mu.rows.add()
		s.mu.rows.at(row)[holder/64] |= 1 << (holder % 64)
		holder = row | shared
		s.mu.holders[block] = holder
	default:
		s.mu.rows.widen(int(slot/64) + 1)
	}
	s.mu.rows.at(holder &^ shared)[slot/64] |= 1 << (slot % 64)
}

func (t *table) remove(block uint64, slot uint32) {
	s := t.shard(block)
	s.mu.Lock()
	defer s.mu.Unlock()
	holder, ok := s.mu.holders[block]
	if !ok {
		return
	}
	if holder&shared == 0 {
		if holder == slot {
			delete(s.mu.holders, block)
		}
		return
	}
	set := s.mu.rows.at(holder &^ shared)
	if int(slot/64) >= len(set) {
		return
	}
	set[slot/64] &^= 1 << (slot % 64)
	left, last := 0, 0
	for i, word := range set {
		if word != 0 {
			left += bits.OnesCount64(word)
			last = i*64 + bits.TrailingZeros64(word)
		}
	}
	if left == 1 {
		s.mu.holders[block] = uint32(last)
		s.mu.rows.drop(holder &^ shared)
	}
}
