package shards

import (
	"math/bits"
	"sync/atomic"
)

// scan returns which keys of a group equal key, and the least of the others.
func scan(groupKeys []atomic.Int64, key int64) (equal uint64, others int64) {
	others = hiddenKey
	for i := range groupKeys {
		if k := groupKeys[i].Load(); k == key {
			equal |= 1 << i
		} else {
			others = min(others, k)
		}
	}
	return equal, others
}

// scanAmong is scan of some of the group's ranks.
func scanAmong(groupKeys []atomic.Int64, among uint64, key int64) (equal uint64, others int64) {
	others = hiddenKey
	for ; among != 0; among &= among - 1 {
		i := bits.TrailingZeros64(among)
		if k := groupKeys[i].Load(); k == key {
			equal |= 1 << i
		} else {
			others = min(others, k)
		}
	}
	return equal, others
}

// leastAmong returns the least key of some of a group's ranks, which have it, and
// the least of the others. Inlined it would keep its variables in memory.
//
//go:noinline
func leastAmong(groupKeys []atomic.Int64, among uint64) (least int64, equal uint64, others int64) {
	least, others = hiddenKey, hiddenKey
	bit := uint64(1)
	for i := range groupKeys {
		if among&bit != 0 {
			if k := groupKeys[i].Load(); k > least {
				others = min(others, k)
			} else if k == least {
				equal |= bit
			} else {
				least, equal, others = k, bit, least
			}
		}
		bit <<= 1
	}
	return least, equal, others
}
