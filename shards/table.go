package shards

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Slot is one rank in a table.
type Slot struct {
	Rank  lifecycle.RankID
	Shard *Shard
	// Worker is shared by the worker's slots; WorkerIndex is its place in the
	// table, Kind the number of its kind.
	Worker      *Worker
	WorkerIndex int
	Kind        int32
	// Available: the worker is in the available set and is not draining.
	Available bool
	// Overloaded: the worker is in the overloaded set or set aside.
	Overloaded bool
}

// Table is one immutable state of the pool: workers, ranks and the sets that
// concern them. A change makes a new table; ranks that stay keep their shard.
//
// Readers have everything in arrays, in the order of worker and rank, so that the
// place of a rank is an index and a look at many ranks is a scan. How a table is
// made of another, and what they share, is told in edit.go.
type Table struct {
	workers []*Worker // by id
	ids     []uint64  // of the workers, ascending
	least   uint64    // the first of them
	first   []int     // first slot of each worker, and their number
	slots   []Slot    // in worker/rank order

	draining   map[uint64]struct{} // ids of workers in the table
	overloaded map[uint64]struct{}
	available  map[uint64]struct{} // nil means all
	aside      map[uint64]int64    // workers in the table that are set aside, until when in ns
	asideEnd   int64               // the first of those times, NeverEnds for none

	// What the flags of the slots come to: the available ranks.
	all  *Selection
	kept *keptSelections

	kinds    *Kinds
	lastKind int32 // no slot has a greater number
	inUse    *inUse
	room     *room
	last     *edit
}

// NewTable returns a table without workers.
func NewTable() *Table {
	return &Table{asideEnd: NeverEnds, all: &Selection{}, kinds: newKinds(), lastKind: -1, inUse: &inUse{}, room: newRoom(0)}
}

// Slots returns the ranks in worker/rank order. They must not be changed.
func (t *Table) Slots() []Slot { return t.slots }

// Eligible returns how many ranks an unconstrained request may have, overload
// aside, and how many of those are overloaded.
func (t *Table) Eligible() (ranks, overloaded int) { return len(t.all.Places), t.all.Overloaded() }

// Workers returns the workers by id. They must not be changed.
func (t *Table) Workers() []*Worker { return t.workers }

// Worker returns one worker, nil if there is none of that id.
func (t *Table) Worker(id uint64) *Worker {
	if i, found := t.find(id); found {
		return t.workers[i]
	}
	return nil
}

// Slot returns the place of a rank in Slots, −1 if it does not exist.
func (t *Table) Slot(rank lifecycle.RankID) int {
	// Most pools number their workers one by one, with one rank each.
	if at := rank.Worker - t.least; at < uint64(len(t.slots)) && t.slots[at].Rank == rank {
		return int(at)
	}
	return t.search(rank)
}

// AppendPlaces appends to dst the place of each overlap's rank, −1 for one that
// does not exist.
func (t *Table) AppendPlaces(dst []int32, overlaps []lifecycle.Overlap) []int32 {
	for i := range overlaps {
		rank := overlaps[i].Rank
		at := int(rank.Worker - t.least) // as in Slot, without a call for each
		if uint64(at) >= uint64(len(t.slots)) || t.slots[at].Rank != rank {
			at = t.search(rank)
		}
		dst = append(dst, int32(at))
	}
	return dst
}

func (t *Table) search(rank lifecycle.RankID) int {
	i, found := t.find(rank.Worker)
	if !found {
		return -1
	}
	from, to := t.first[i], t.first[i+1]
	start := t.slots[from].Rank.Rank
	if rank.Rank < start || rank.Rank-start >= uint32(to-from) {
		return -1
	}
	return from + int(rank.Rank-start)
}

// WorkerSlots returns the range of a worker's slots, empty if there is none of
// that id.
func (t *Table) WorkerSlots(id uint64) (from, to int) {
	i, found := t.find(id)
	if !found {
		return 0, 0
	}
	return t.first[i], t.first[i+1]
}

func (t *Table) find(id uint64) (int, bool) {
	if len(t.ids) == 0 {
		return 0, false
	}
	if at := id - t.least; at < uint64(len(t.ids)) && t.ids[at] == id {
		return int(at), true
	}
	return slices.BinarySearch(t.ids, id)
}

// Shards yields the shard of every rank.
func (t *Table) Shards(yield func(*Shard) bool) {
	for i := range t.slots {
		if !yield(t.slots[i].Shard) {
			return
		}
	}
}
