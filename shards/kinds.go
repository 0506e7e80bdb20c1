package shards

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Kind is what of a worker decides which load makes its ranks busy. A pool has few
// kinds, mostly one.
type Kind struct{ MaxBatchedTokens, TotalKVBlocks int64 }

// Kinds numbers the kinds of workers that some tables have or had, so that what follows
// from a kind is computed once for each. Numbers never change: every number in a table
// has its kind here.
type Kinds struct {
	mu struct {
		sync.Mutex
		numbers map[Kind]int32
		list    []Kind // by number; what is in it stays as it is
	}
}

func newKinds() *Kinds {
	k := &Kinds{}
	k.mu.numbers = make(map[Kind]int32)
	return k
}

// All returns the kinds by number. They must not be changed.
func (k *Kinds) All() []Kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clip(k.mu.list)
}

// number returns the number of a kind, a new one if it has none.
func (k *Kinds) number(kind Kind) int32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	number, found := k.mu.numbers[kind]
	if !found {
		number = int32(len(k.mu.list))
		k.mu.numbers[kind] = number
		k.mu.list = append(k.mu.list, kind)
	}
	return number
}

// full reports whether most kinds are of workers that have gone, of so many that
// there are.
func (k *Kinds) full(workers int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.mu.list) > 2*workers+64
}

// KindsInUse are the numbers of the kinds that a table has.
type KindsInUse struct{ Numbers []int32 }

// Kinds returns the numbering of the table's kinds, and the last that it may have.
func (t *Table) Kinds() (kinds *Kinds, last int32) { return t.kinds, t.lastKind }

// KindsInUse returns the kinds that the table has: the same pointer for tables with
// the same workers. It is made when it is first asked for.
func (t *Table) KindsInUse() *KindsInUse {
	if found := t.inUse.Load(); found != nil {
		return found
	}
	seen := make([]bool, len(t.kinds.All()))
	made := &KindsInUse{}
	for _, at := range t.first[:len(t.workers)] {
		if kind := t.slots[at].Kind; !seen[kind] {
			seen[kind] = true
			made.Numbers = append(made.Numbers, kind)
		}
	}
	t.inUse.CompareAndSwap(nil, made)
	return t.inUse.Load()
}

// inUse is where successive tables with the same workers keep their KindsInUse: written
// by the first caller that asks, read by all.
type inUse = atomic.Pointer[KindsInUse]
