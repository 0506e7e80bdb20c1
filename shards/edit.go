package shards

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// A table follows from another by changes of some workers, or of what is said of
// some. It costs what changes, but for copying: what does not change is neither
// computed nor looked at again.
//
//   - Workers that come after all others, as they do when a fleet is announced one
//     by one, are appended to the arrays that the two tables then share: an array
//     only grows behind what its older tables see of it, and only the newest may
//     append (room). That is O(1) amortised for each.
//   - Other changes copy the arrays: stretches of ranks between the changes are
//     moved in one piece, some 60 bytes a rank.
//   - To announce what is known already makes no table at all.
//
// What the load index must learn of is a list of the workers concerned, so that it
// looks at their ranks and no others (edit).
//
// Tried before: to build each table anew, with a map of all workers, a sort and
// four look-ups of sets for each rank; and to take every rank's lock twice for the
// index. 4,096 workers one by one took 10 s.

// room says how much of the arrays that successive tables share is in use, in
// workers: the table that has them all may append.
type room struct{ workers atomic.Int64 }

func newRoom(workers int) *room {
	r := &room{}
	r.workers.Store(int64(workers))
	return r
}

// claim takes room for some more workers, for a table that has so many. It reports
// false if another table has it.
func (r *room) claim(have, more int) bool {
	return r.workers.CompareAndSwap(int64(have), int64(have+more))
}

// edit lists workers whose ranks, or what is said of them, may differ from the table
// before, in a chain that goes back to the table that the load index knows. It is read
// and cut off, when the index has learned of it, by the goroutine that changes tables,
// one at a time.
type edit struct {
	workers []uint64
	before  *edit
}

// change is what becomes of one worker.
type change struct {
	at  int     // where it stands among the workers, or would
	old *Worker // nil: it comes
	now *Worker // nil: it goes
}

// With returns the table with the workers added or updated, and the shards of
// the ranks that are gone. One that is known to be another process than the one of
// its id takes that one's place: its ranks are others, whether or not they have the
// same numbers. If nothing changes it is the same table.
func (t *Table) With(workers []Worker, newShard func(lifecycle.RankID) *Shard) (*Table, []*Shard, error) {
	normal, err := normalizeAll(workers)
	if err != nil {
		return nil, nil, err
	}
	changes := make([]change, 0, len(normal))
	for _, w := range normal {
		at, found := t.find(w.ID)
		changes = t.appendChange(changes, at, found, w)
	}
	next, gone := t.changed(changes, newShard)
	return next, gone, nil
}

// Replaced returns a table with just these workers, and the shards of the ranks
// that are gone. If nothing changes it is the same table.
func (t *Table) Replaced(workers []Worker, newShard func(lifecycle.RankID) *Shard) (*Table, []*Shard, error) {
	normal, err := normalizeAll(workers)
	if err != nil {
		return nil, nil, err
	}
	var changes []change
	at := 0
	for _, w := range normal {
		for ; at < len(t.ids) && t.ids[at] < w.ID; at++ {
			changes = append(changes, change{at: at, old: t.workers[at]})
		}
		found := at < len(t.ids) && t.ids[at] == w.ID
		changes = t.appendChange(changes, at, found, w)
		if found {
			at++
		}
	}
	for ; at < len(t.ids); at++ {
		changes = append(changes, change{at: at, old: t.workers[at]})
	}
	next, gone := t.changed(changes, newShard)
	return next, gone, nil
}

// Without returns the table without a worker, and the shards that are gone. It
// is not ok if there is no such worker.
func (t *Table) Without(id uint64) (next *Table, gone []*Shard, ok bool) {
	at, found := t.find(id)
	if !found {
		return nil, nil, false
	}
	next, gone = t.changed([]change{{at: at, old: t.workers[at]}}, nil)
	return next, gone, true
}

// appendChange appends what becomes of a worker that is announced, if anything. The
// incarnation that is known is kept if the worker names none. REQUIRES: w is not
// published yet.
func (t *Table) appendChange(changes []change, at int, found bool, w *Worker) []change {
	if !found {
		return append(changes, change{at: at, now: w})
	}
	known := t.workers[at]
	if w.Incarnation == "" {
		w.Incarnation = known.Incarnation // w is not published yet: known is another
	}
	if w.equal(known) {
		return changes
	}
	return append(changes, change{at: at, old: known, now: w})
}

// normalizeAll checks the workers and returns them by id. Its error joins the
// *WorkerError of each worker that breaks a rule.
func normalizeAll(workers []Worker) ([]*Worker, error) {
	seen := make(map[uint64]struct{}, len(workers))
	normal := make([]*Worker, 0, len(workers))
	var faults []error
	for _, w := range workers {
		n, err := w.normalize()
		if err != nil {
			faults = append(faults, err)
		}
		if _, repeated := seen[w.ID]; repeated {
			faults = append(faults, &WorkerError{ID: w.ID, Rule: fmt.Sprintf("id %d is given twice", w.ID)})
		}
		seen[w.ID] = struct{}{}
		normal = append(normal, &n)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	slices.SortFunc(normal, func(a, b *Worker) int { return cmp.Compare(a.ID, b.ID) })
	return normal, nil
}

// changed returns the table with some changes, which come in the order of ids, and
// the shards of the ranks that are gone.
func (t *Table) changed(changes []change, newShard func(lifecycle.RankID) *Shard) (next *Table, gone []*Shard) {
	if len(changes) == 0 {
		return t, nil
	}
	copied := *t
	next = &copied
	next.inUse = &inUse{}
	next.last = &edit{before: t.last}
	if n := len(t.workers); n > 0 && changes[0].old == nil && changes[0].at == n && t.room.claim(n, len(changes)) {
		for _, c := range changes {
			next.add(t, c, newShard)
		}
		next.chooseMore(t.all, len(t.slots))
		return next, nil
	}
	if t.kinds.full(len(t.workers)) {
		next.kinds, next.lastKind = newKinds(), -1
	}
	more := len(changes)
	next.workers = make([]*Worker, 0, len(t.workers)+more)
	next.ids = make([]uint64, 0, len(t.ids)+more)
	next.first = append(make([]int, 0, len(t.first)+more), 0)
	next.slots = make([]Slot, 0, len(t.slots)+more)
	next.dropFlags(t, changes)
	at := 0
	for _, c := range changes {
		next.move(t, at, c.at)
		at = c.at
		if c.old != nil {
			gone = append(gone, next.leaving(t, c)...)
			at++
		}
		if c.now != nil {
			next.add(t, c, newShard)
		}
	}
	next.move(t, at, len(t.workers))
	next.least = 0
	if len(next.ids) > 0 {
		next.least = next.ids[0]
	}
	next.room = newRoom(len(next.workers))
	next.chooseAll()
	return next, gone
}

// move appends the workers from..to of another table with their ranks.
func (t *Table) move(from *Table, start, end int) {
	if start == end {
		return
	}
	byWorkers, at := len(t.workers)-start, len(t.slots)
	bySlots := at - from.first[start]
	t.workers = append(t.workers, from.workers[start:end]...)
	t.ids = append(t.ids, from.ids[start:end]...)
	t.slots = append(t.slots, from.slots[from.first[start]:from.first[end]]...)
	for _, slot := range from.first[start+1 : end+1] {
		t.first = append(t.first, slot+bySlots)
	}
	if byWorkers != 0 {
		for i := at; i < len(t.slots); i++ {
			t.slots[i].WorkerIndex += byWorkers
		}
	}
	if t.kinds != from.kinds {
		for i := at; i < len(t.slots); i++ {
			t.slots[i].Kind = t.kinds.number(t.slots[i].Worker.kind())
			t.lastKind = max(t.lastKind, t.slots[i].Kind)
		}
	}
}

// add appends a worker that comes or is updated. If the arrays are shared, the room
// in them must have been claimed.
func (t *Table) add(from *Table, c change, newShard func(lifecycle.RankID) *Shard) {
	w := c.now
	slot := Slot{Worker: w, WorkerIndex: len(t.workers), Kind: t.kinds.number(w.kind())}
	slot.Available, slot.Overloaded = t.flags(w.ID)
	t.lastKind = max(t.lastKind, slot.Kind)
	same := c.old != nil && !c.old.Another(w.Incarnation)
	for rank := range w.Ranks {
		slot.Rank = lifecycle.RankID{Worker: w.ID, Rank: w.StartRank + rank}
		if at := from.Slot(slot.Rank); at >= 0 && same {
			slot.Shard = from.slots[at].Shard
		} else {
			slot.Shard = newShard(slot.Rank)
		}
		t.slots = append(t.slots, slot)
	}
	t.workers = append(t.workers, w)
	t.ids = append(t.ids, w.ID)
	t.first = append(t.first, len(t.slots))
	t.last.workers = append(t.last.workers, w.ID)
}

// leaving returns the shards of a worker's ranks that do not stay.
func (t *Table) leaving(from *Table, c change) (gone []*Shard) {
	for i := from.first[c.at]; i < from.first[c.at+1]; i++ {
		rank := from.slots[i].Rank.Rank
		stays := c.now != nil && !c.old.Another(c.now.Incarnation) &&
			rank >= c.now.StartRank && rank-c.now.StartRank < c.now.Ranks
		if !stays {
			gone = append(gone, from.slots[i].Shard)
		}
	}
	return gone
}

// dropFlags forgets what is said, beside the sets of ids, of workers that go or are
// another process now.
func (t *Table) dropFlags(from *Table, changes []change) {
	for _, c := range changes {
		if c.old == nil || c.now != nil && !c.old.Another(c.now.Incarnation) {
			continue
		}
		id := c.old.ID
		if _, draining := t.draining[id]; draining {
			if len(t.draining) == len(from.draining) {
				t.draining = maps.Clone(t.draining)
			}
			delete(t.draining, id)
		}
		if _, aside := t.aside[id]; aside {
			if len(t.aside) == len(from.aside) {
				t.aside = maps.Clone(t.aside)
			}
			delete(t.aside, id)
			t.asideEnd = t.firstEnd()
		}
	}
}

// flags says what the sets make of a worker.
func (t *Table) flags(id uint64) (available, overloaded bool) {
	available = true
	if t.available != nil {
		_, available = t.available[id]
	}
	if _, draining := t.draining[id]; draining {
		available = false
	}
	if _, overloaded = t.overloaded[id]; !overloaded {
		_, overloaded = t.aside[id]
	}
	return available, overloaded
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
	return copied.flagged(slices.Values([]uint64{id})), true
}

// WithAllDraining returns the table with just those of the workers draining that
// are listed.
func (t *Table) WithAllDraining(ids []uint64) *Table {
	copied := *t
	copied.draining = setOf(ids)
	maps.DeleteFunc(copied.draining, func(id uint64, _ struct{}) bool { return t.Worker(id) == nil })
	return copied.flagged(either(t.draining, copied.draining))
}

// WithOverloaded returns the table with another set of overloaded workers. The
// ids need not exist.
func (t *Table) WithOverloaded(ids []uint64) *Table {
	copied := *t
	copied.overloaded = setOf(ids)
	return copied.flagged(either(t.overloaded, copied.overloaded))
}

// WithAvailable returns the table with another set of available workers; nil
// means all. The ids need not exist.
func (t *Table) WithAvailable(ids []uint64) *Table {
	copied := *t
	copied.available = nil
	if ids != nil {
		copied.available = setOf(ids)
	}
	if t.available == nil || ids == nil {
		return copied.flagged(slices.Values(t.ids))
	}
	return copied.flagged(either(t.available, copied.available))
}

func setOf(ids []uint64) map[uint64]struct{} {
	set := make(map[uint64]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return set
}

// either yields the members of either set that the other lacks.
func either(a, b map[uint64]struct{}) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for _, sets := range [2][2]map[uint64]struct{}{{a, b}, {b, a}} {
			for id := range sets[0] {
				if _, both := sets[1][id]; !both && !yield(id) {
					return
				}
			}
		}
	}
}

// flagged fills in what the sets say of some workers, and returns the table.
// REQUIRES: t is not published yet; its arrays may be another's, and its last edit
// is that one's.
func (t *Table) flagged(ids iter.Seq[uint64]) *Table {
	t.asideEnd = t.firstEnd()
	var touched []uint64
	for id := range ids {
		from, to := t.WorkerSlots(id)
		if from == to {
			continue
		}
		available, overloaded := t.flags(id)
		if t.slots[from].Available == available && t.slots[from].Overloaded == overloaded {
			continue
		}
		if len(touched) == 0 {
			// The other arrays are still shared: they are copied before anything is appended.
			t.slots, t.room = slices.Clone(t.slots), newRoom(len(t.workers))
			t.workers, t.ids, t.first = slices.Clip(t.workers), slices.Clip(t.ids), slices.Clip(t.first)
		}
		for i := from; i < to; i++ {
			t.slots[i].Available, t.slots[i].Overloaded = available, overloaded
		}
		touched = append(touched, id)
	}
	if len(touched) > 0 {
		t.last = &edit{touched, t.last}
		t.chooseAll()
	}
	return t
}

// since yields the ranks that may differ from those of the table that was the
// newest at an edit: all, if that is not known any more.
func (t *Table) since(known *edit) iter.Seq[*Slot] {
	return func(yield func(*Slot) bool) {
		e := t.last
		for e != nil && e != known {
			e = e.before
		}
		if e == nil {
			for i := range t.slots {
				if !yield(&t.slots[i]) {
					return
				}
			}
			return
		}
		for e := t.last; e != known; e = e.before {
			for _, id := range e.workers {
				from, to := t.WorkerSlots(id)
				for i := from; i < to; i++ {
					if !yield(&t.slots[i]) {
						return
					}
				}
			}
		}
	}
}
