package shards

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// pool says, in the simplest way, what a table must say.
type pool struct {
	workers                         map[uint64]Worker
	shards                          map[lifecycle.RankID]*Shard
	draining, overloaded, available map[uint64]struct{}
	aside                           map[uint64]int64
}

func (p *pool) clone() *pool {
	return &pool{
		maps.Clone(p.workers), maps.Clone(p.shards), maps.Clone(p.draining), maps.Clone(p.overloaded),
		maps.Clone(p.available), maps.Clone(p.aside),
	}
}

func has(set map[uint64]struct{}, id uint64) bool {
	_, found := set[id]
	return found
}

// announce notes a worker; made are the shards that were made for it.
func (p *pool) announce(w Worker, made map[lifecycle.RankID]*Shard, gone map[*Shard]bool) {
	old, known := p.workers[w.ID]
	if known && old.Another(w.Incarnation) {
		p.remove(w.ID, gone)
		known = false
	}
	if w.Incarnation == "" && known {
		w.Incarnation = old.Incarnation
	}
	p.workers[w.ID] = w
	for rank := range uint32(8) {
		id := lifecycle.RankID{Worker: w.ID, Rank: rank}
		inside := rank >= w.StartRank && rank < w.StartRank+w.Ranks
		switch {
		case !inside && p.shards[id] != nil:
			gone[p.shards[id]] = true
			delete(p.shards, id)
		case inside && p.shards[id] == nil:
			p.shards[id] = made[id]
		}
	}
}

func (p *pool) remove(id uint64, gone map[*Shard]bool) {
	delete(p.workers, id)
	delete(p.draining, id)
	delete(p.aside, id)
	for rank, s := range p.shards {
		if rank.Worker == id {
			gone[s] = true
			delete(p.shards, rank)
		}
	}
}

// agrees compares a table with what it must say.
func (p *pool) agrees(t *testing.T, table *Table) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(p.workers))
	if !slices.Equal(table.ids, ids) || len(table.workers) != len(ids) {
		t.Fatalf("workers %v, not %v", table.ids, ids)
	}
	var ranks []lifecycle.RankID
	for rank := range p.shards {
		ranks = append(ranks, rank)
	}
	slices.SortFunc(ranks, lifecycle.RankID.Compare)
	if len(table.slots) != len(ranks) {
		t.Fatalf("%d ranks, not %d", len(table.slots), len(ranks))
	}
	kinds, last := table.Kinds()
	var places, open []int32
	inUse := map[int32]bool{}
	for i, rank := range ranks {
		w := p.workers[rank.Worker]
		available := (p.available == nil || has(p.available, w.ID)) && !has(p.draining, w.ID)
		_, aside := p.aside[w.ID]
		overloaded := has(p.overloaded, w.ID) || aside
		slot := table.slots[i]
		want := Slot{rank, p.shards[rank], slot.Worker, slices.Index(ids, w.ID), slot.Kind, available, overloaded}
		if slot != want || slot.Worker != table.workers[slot.WorkerIndex] || table.Worker(w.ID) != slot.Worker {
			t.Fatalf("slot %d is %+v, not %+v", i, slot, want)
		}
		if normal, _ := w.normalize(); !normal.equal(slot.Worker) {
			t.Fatalf("worker %+v, not %+v", slot.Worker, normal)
		}
		if slot.Kind > last || kinds.All()[slot.Kind] != slot.Worker.kind() {
			t.Fatalf("kind %d of %v, at most %d, for %+v", slot.Kind, kinds.All(), last, slot.Worker)
		}
		if table.Slot(rank) != i {
			t.Fatalf("rank %v stands at %d, not %d", rank, table.Slot(rank), i)
		}
		inUse[slot.Kind] = true
		if available {
			places = append(places, int32(i))
			if !overloaded {
				open = append(open, int32(i))
			}
		}
	}
	if !slices.Equal(table.all.Places, places) || !slices.Equal(table.all.Open, open) {
		t.Fatalf("eligible %v, open %v, not %v and %v", table.all.Places, table.all.Open, places, open)
	}
	if got := slices.Sorted(slices.Values(table.KindsInUse().Numbers)); !slices.Equal(got, slices.Sorted(maps.Keys(inUse))) {
		t.Fatalf("kinds %v in use, not %v", got, inUse)
	}
	for id := range uint64(14) {
		from, to := table.WorkerSlots(id)
		if w, found := p.workers[id]; to-from != int(w.Ranks) || found && table.slots[from].Rank.Worker != id {
			t.Fatalf("worker %d has the slots %d to %d", id, from, to)
		}
	}
	if len(kinds.All()) > 160 { // of some thousand that there are, with a few workers
		t.Fatalf("%d kinds for %d workers", len(kinds.All()), len(ids))
	}
}

// Whatever is changed, and whichever table it follows from, each table says what
// the simplest bookkeeping says, and goes on saying it.
func TestTablesAgainstTheSimplest(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 9))
		env := &Env{Now: func() int64 { return 0 }}
		type state struct {
			table *Table
			pool  *pool
		}
		states := []state{{NewTable(), &pool{
			map[uint64]Worker{}, map[lifecycle.RankID]*Shard{}, map[uint64]struct{}{}, map[uint64]struct{}{}, nil, map[uint64]int64{},
		}}}
		worker := func() Worker {
			return Worker{
				ID: rnd.Uint64N(12), StartRank: rnd.Uint32N(2), Ranks: 1 + rnd.Uint32N(3),
				MaxBatchedTokens: 1 + rnd.Int64N(3), TotalKVBlocks: rnd.Int64N(2) * rnd.Int64N(1000),
				Endpoint: []string{"", "a"}[rnd.IntN(2)], Incarnation: []string{"", "", "x", "y"}[rnd.IntN(4)],
			}
		}
		ids := func() []uint64 {
			list := make([]uint64, rnd.IntN(5))
			for i := range list {
				list[i] = rnd.Uint64N(13)
			}
			return list
		}
		for step := range 600 {
			from := states[max(0, len(states)-1-rnd.IntN(3)*rnd.IntN(3))] // mostly the newest
			table, p := from.table, from.pool.clone()
			made, goneWant := map[lifecycle.RankID]*Shard{}, map[*Shard]bool{}
			newShard := func(id lifecycle.RankID) *Shard {
				made[id] = NewShard(id, env)
				return made[id]
			}
			var gone []*Shard
			var err error
			switch rnd.IntN(12) {
			case 0, 1, 2, 3, 4:
				list := []Worker{worker()}
				if step%3 == 0 { // at the end, as a fleet is announced
					list[0].ID = 20 + uint64(step)
				}
				if rnd.IntN(3) == 0 {
					if other := worker(); other.ID != list[0].ID {
						list = append(list, other)
					}
				}
				table, gone, err = table.With(list, newShard)
				for _, w := range list {
					p.announce(w, made, goneWant)
				}
			case 5:
				list, kept := []Worker{}, map[uint64]bool{}
				for _, w := range []Worker{worker(), worker(), worker(), worker(), worker(), worker()} {
					if !kept[w.ID] {
						list, kept[w.ID] = append(list, w), true
					}
				}
				table, gone, err = table.Replaced(list, newShard)
				for id := range maps.Clone(p.workers) {
					if !kept[id] {
						p.remove(id, goneWant)
					}
				}
				for _, w := range list {
					p.announce(w, made, goneWant)
				}
			case 6:
				id := rnd.Uint64N(13)
				next, left, ok := table.Without(id)
				if _, known := p.workers[id]; ok != known {
					t.Fatalf("removed %d: %t", id, ok)
				}
				if ok {
					table, gone = next, left
					p.remove(id, goneWant)
				}
			case 7:
				id := rnd.Uint64N(13)
				if next, ok := table.WithDraining(id, rnd.IntN(2) == 0); ok {
					table = next
					delete(p.draining, id)
					if next.Draining(id) {
						p.draining[id] = struct{}{}
					}
				}
			case 8:
				set := ids()
				table, p.overloaded = table.WithOverloaded(set), setOf(set)
			case 9:
				set := ids()
				if rnd.IntN(3) == 0 {
					table, p.available = table.WithAvailable(nil), nil
				} else {
					table, p.available = table.WithAvailable(set), setOf(set)
				}
			case 10:
				id := rnd.Uint64N(13)
				if _, known := p.workers[id]; known {
					table, p.aside[id] = table.WithAside(id, 5), 5
				}
			default:
				set := ids()
				table, p.draining = table.WithAllDraining(set), setOf(set)
				maps.DeleteFunc(p.draining, func(id uint64, _ struct{}) bool { _, known := p.workers[id]; return !known })
			}
			if err != nil {
				t.Fatal(err)
			}
			left := map[*Shard]bool{}
			for _, s := range gone {
				left[s] = true
			}
			if !maps.Equal(left, goneWant) || len(gone) != len(left) ||
				!slices.IsSortedFunc(gone, func(a, b *Shard) int { return cmp.Or(a.id.Compare(b.id)) }) {
				t.Fatalf("seed %d step %d: %d ranks are gone, not %d", seed, step, len(gone), len(goneWant))
			}
			states = append(states, state{table, p})
			if len(states) > 8 {
				states = states[1:]
			}
			for _, s := range states {
				s.pool.agrees(t, s.table)
			}
		}
	}
}

// All that a worker says is compared when it is announced again.
func TestAnnouncedAgain(t *testing.T) {
	t.Parallel()
	env := &Env{Now: func() int64 { return 0 }}
	newShard := func(id lifecycle.RankID) *Shard { return NewShard(id, env) }
	w := Worker{ID: 1, StartRank: 1, Ranks: 2, MaxBatchedTokens: 3, TotalKVBlocks: 4, Taints: []string{"a", "b"}, Endpoint: "e", Incarnation: "i"}
	table, _, err := NewTable().With([]Worker{w, {ID: 2, Ranks: 1}}, newShard)
	if err != nil {
		t.Fatal(err)
	}
	again := w
	again.Taints = []string{"b", "a", "b"}
	if next, gone, err := table.With([]Worker{again}, newShard); next != table || len(gone) > 0 || err != nil {
		t.Errorf("what is known already makes another table, or an error: %v", err)
	}
	fields := reflect.TypeFor[Worker]()
	for i := range fields.NumField() {
		other := w
		field := reflect.ValueOf(&other).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString(field.String() + "!")
		case reflect.Uint32, reflect.Uint64:
			field.SetUint(field.Uint() + 1)
		case reflect.Int64:
			field.SetInt(field.Int() + 1)
		case reflect.Slice:
			field.Set(reflect.ValueOf([]string{"a"}))
		default:
			t.Fatalf("a field of kind %v", field.Kind())
		}
		if next, _, err := table.With([]Worker{other}, newShard); err != nil || next == table {
			t.Errorf("another %s makes no other table; error: %v", fields.Field(i).Name, err)
		}
	}
}

// A fleet that is announced one by one costs a step for each worker, in memory and
// in ranks that are looked at for the index; so does each change of what is said of
// a worker. Tables were built anew and all ranks locked twice: 3 GB and 17 million
// for 4,096 workers.
func TestAnnouncingCostsWhatChanges(t *testing.T) {
	const n = 4096
	env := &Env{Now: func() int64 { return 0 }}
	newShard := func(id lifecycle.RankID) *Shard { return NewShard(id, env) }
	weights := Weights{1, 1, 1}
	table, looked := NewTable(), 0
	var index *LoadIndex
	show := func() {
		old := 0
		if index != nil {
			old = index.looked
		}
		next := table.Reindex(index, weights)
		if next != index {
			index, old = next, 0
		}
		if table.Shown(index); index != nil {
			looked += index.looked - old
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for id := range uint64(n) {
		next, _, err := table.With([]Worker{{ID: id, Ranks: 1}}, newShard)
		if err != nil {
			t.Fatal(err)
		}
		table = next
		show()
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / n; per > 4096 {
		t.Errorf("each worker takes %d bytes", per)
	}
	if looked > 16*n {
		t.Errorf("%d ranks are looked at for %d workers", looked, n)
	}
	looked = 0
	for id := range uint64(100) {
		table = table.WithOverloaded([]uint64{id})
		show()
		table, _ = table.WithDraining(id, true)
		show()
		next, _, err := table.With([]Worker{{ID: id, Ranks: 1, Endpoint: fmt.Sprint(id)}}, newShard)
		if err != nil {
			t.Fatal(err)
		}
		table = next
		show()
	}
	if looked > 10*100 {
		t.Errorf("%d ranks are looked at for 300 changes of a worker", looked)
	}
}

// The load index has each rank of the newest table, shown if it may be chosen,
// whatever was changed since it last learned of one.
func TestIndexFollowsTables(t *testing.T) {
	t.Parallel()
	env := &Env{Now: func() int64 { return 0 }}
	newShard := func(id lifecycle.RankID) *Shard { return NewShard(id, env) }
	rnd := rand.New(rand.NewPCG(8, 8))
	table, indexes := NewTable(), 0
	var index *LoadIndex
	for range 2000 {
		var gone []*Shard
		for range 1 + rnd.IntN(3) { // several changes in one
			id := rnd.Uint64N(40)
			var left []*Shard
			switch rnd.IntN(7) {
			case 0:
				table = table.WithOverloaded([]uint64{id, rnd.Uint64N(40)})
			case 1:
				table = table.WithAvailable([][]uint64{nil, {id, 1, 2, 3, 4, 5, 6, 7, 8, 9}}[rnd.IntN(2)])
			case 2:
				if next, ok := table.WithDraining(id, rnd.IntN(2) == 0); ok {
					table = next
				}
			case 3:
				if next, ranks, ok := table.Without(id); ok {
					table, left = next, ranks
				}
			default:
				w := Worker{ID: id, Ranks: 1 + rnd.Uint32N(3), Incarnation: []string{"x", "y"}[rnd.IntN(8)/7]}
				table, left, _ = table.With([]Worker{w}, newShard)
			}
			gone = append(gone, left...)
		}
		next := table.Reindex(index, Weights{1, 1, 1})
		if next != index {
			index, indexes = next, indexes+1
		}
		for _, s := range gone {
			s.Lock()
			s.KillLocked()
			s.Unlock()
		}
		table.Shown(index)
		for i := range table.slots {
			slot := &table.slots[i]
			at := &slot.Shard.mu.spot
			if at.index != index || index != nil && at.hidden != (!slot.Available || slot.Overloaded) {
				t.Fatalf("rank %v is in the index: %t, hidden: %t; %+v", slot.Rank, at.index == index, at.hidden, slot)
			}
		}
	}
	if indexes < 3 {
		t.Fatalf("only %d indexes", indexes)
	}
}
