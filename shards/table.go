package shards

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Slot is one rank in a table.
type Slot struct {
	Rank  lifecycle.RankID
	Shard *Shard
	// Worker is shared by the worker's slots; WorkerIndex is its place in the
	// table.
	Worker      *Worker
	WorkerIndex int
	// Available: the worker is in the available set and is not draining.
	Available bool
	// Overloaded: the worker is in the overloaded set or set aside.
	Overloaded bool
}

// Table is one immutable state of the pool: workers, ranks and the sets that
// concern them. A change makes a new table; ranks that stay keep their shard.
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
}

// NewTable returns a table without workers.
func NewTable() *Table { return &Table{asideEnd: NeverEnds, all: &Selection{}} }

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

// With returns the table with the workers added or updated, and the shards of
// the ranks that are gone. One that is known to be another process than the one of
// its id takes that one's place: its ranks are others, whether or not they have the
// same numbers.
func (t *Table) With(workers []Worker, newShard func(lifecycle.RankID) *Shard) (*Table, []*Shard, error) {
	updated, err := normalizeAll(workers)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range t.workers {
		if _, found := updated[w.ID]; !found {
			updated[w.ID] = w
		}
	}
	next, gone := t.rebuild(updated, newShard)
	return next, gone, nil
}

// Replaced returns a table with just these workers, and the shards of the ranks
// that are gone.
func (t *Table) Replaced(workers []Worker, newShard func(lifecycle.RankID) *Shard) (*Table, []*Shard, error) {
	updated, err := normalizeAll(workers)
	if err != nil {
		return nil, nil, err
	}
	next, gone := t.rebuild(updated, newShard)
	return next, gone, nil
}

// Without returns the table without a worker, and the shards that are gone. It
// is not ok if there is no such worker.
func (t *Table) Without(id uint64) (next *Table, gone []*Shard, ok bool) {
	if _, found := t.find(id); !found {
		return nil, nil, false
	}
	kept := make(map[uint64]*Worker, len(t.workers))
	for _, w := range t.workers {
		if w.ID != id {
			kept[w.ID] = w
		}
	}
	next, gone = t.rebuild(kept, nil)
	return next, gone, true
}

// WithDraining returns the table with a worker's draining begun or ended. It is
// not ok if there is no such worker.
func (t *Table) WithDraining(id uint64, draining bool) (next *Table, ok bool) {
	if _, found := t.find(id); !found {
		return nil, false
	}
	copied := *t
	copied.draining = maps.Clone(t.draining)
	if copied.draining == nil {
		copied.draining = make(map[uint64]struct{})
	}
	if draining {
		copied.draining[id] = struct{}{}
	} else {
		delete(copied.draining, id)
	}
	return copied.flagged(), true
}

// WithAllDraining returns the table with just those of the workers draining that
// are listed.
func (t *Table) WithAllDraining(ids []uint64) *Table {
	copied := *t
	copied.draining = setOf(ids)
	maps.DeleteFunc(copied.draining, func(id uint64, _ struct{}) bool { return t.Worker(id) == nil })
	return copied.flagged()
}

// WithOverloaded returns the table with another set of overloaded workers. The
// ids need not exist.
func (t *Table) WithOverloaded(ids []uint64) *Table {
	copied := *t
	copied.overloaded = setOf(ids)
	return copied.flagged()
}

// WithAvailable returns the table with another set of available workers; nil
// means all. The ids need not exist.
func (t *Table) WithAvailable(ids []uint64) *Table {
	copied := *t
	copied.available = nil
	if ids != nil {
		copied.available = setOf(ids)
	}
	return copied.flagged()
}

func setOf(ids []uint64) map[uint64]struct{} {
	set := make(map[uint64]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return set
}

func normalizeAll(workers []Worker) (map[uint64]*Worker, error) {
	byID := make(map[uint64]*Worker, len(workers))
	for _, w := range workers {
		normal, err := w.normalize()
		if err != nil {
			return nil, err
		}
		if _, repeated := byID[w.ID]; repeated {
			return nil, &WorkerError{ID: w.ID, Rule: fmt.Sprintf("id %d is given twice", w.ID)}
		}
		byID[w.ID] = &normal
	}
	return byID, nil
}

func (t *Table) rebuild(workers map[uint64]*Worker, newShard func(lifecycle.RankID) *Shard) (*Table, []*Shard) {
	next := &Table{overloaded: t.overloaded, available: t.available}
	for _, w := range workers {
		next.workers = append(next.workers, w)
	}
	slices.SortFunc(next.workers, func(a, b *Worker) int { return cmp.Compare(a.ID, b.ID) })
	for i, w := range next.workers {
		known := t.Worker(w.ID)
		same := known == nil || !known.Another(w.Incarnation)
		if same && known != nil && w.Incarnation == "" && known.Incarnation != "" {
			w.Incarnation = known.Incarnation // w is not published yet: known is another
		}
		next.ids = append(next.ids, w.ID)
		next.first = append(next.first, len(next.slots))
		for rank := range w.Ranks {
			id := lifecycle.RankID{Worker: w.ID, Rank: w.StartRank + rank}
			slot := Slot{Rank: id, Worker: w, WorkerIndex: i}
			if at := t.Slot(id); at >= 0 && same {
				slot.Shard = t.slots[at].Shard
			} else {
				slot.Shard = newShard(id)
			}
			next.slots = append(next.slots, slot)
		}
		if same {
			next.keepFlags(t, w.ID)
		}
	}
	next.first = append(next.first, len(next.slots))
	if len(next.ids) > 0 {
		next.least = next.ids[0]
	}
	var gone []*Shard
	for i := range t.slots {
		if at := next.Slot(t.slots[i].Rank); at < 0 || next.slots[at].Shard != t.slots[i].Shard {
			gone = append(gone, t.slots[i].Shard)
		}
	}
	return next.flagged(), gone
}

// keepFlags takes over what another table says of one worker beside the sets of
// ids.
func (t *Table) keepFlags(from *Table, id uint64) {
	if _, draining := from.draining[id]; draining {
		if t.draining == nil {
			t.draining = make(map[uint64]struct{})
		}
		t.draining[id] = struct{}{}
	}
	if until, aside := from.aside[id]; aside {
		t.hold(id, until)
	}
}

// flagged fills in what the sets say of each slot. REQUIRES: t is not published
// yet; its slots may be another table's.
func (t *Table) flagged() *Table {
	t.slots = slices.Clone(t.slots)
	places, open := make([]int32, 0, len(t.slots)), 0
	t.asideEnd = NeverEnds
	for _, until := range t.aside {
		t.asideEnd = min(t.asideEnd, until)
	}
	for i := range t.slots {
		id := t.slots[i].Worker.ID
		_, draining := t.draining[id]
		_, listed := t.available[id]
		_, overloaded := t.overloaded[id]
		t.slots[i].Available = !draining && (t.available == nil || listed)
		if _, aside := t.aside[id]; aside {
			overloaded = true
		}
		t.slots[i].Overloaded = overloaded
		if t.slots[i].Available {
			places = append(places, int32(i))
			if !overloaded {
				open++
			}
		}
	}
	t.chooseAll(places, open)
	return t
}
