package shards

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func selectionTable(t *testing.T, n int) *Table {
	t.Helper()
	env := &Env{Now: func() int64 { return 0 }}
	workers := make([]Worker, n)
	for i := range workers {
		workers[i] = Worker{ID: uint64(3 * i), Ranks: 1 + uint32(i%3)}
		if i%2 == 0 {
			workers[i].Taints = []string{"even"}
		}
	}
	table, _, err := NewTable().With(workers, func(id lifecycle.RankID) *Shard { return NewShard(id, env) })
	if err != nil {
		t.Fatal(err)
	}
	table = table.WithOverloaded([]uint64{3, 9})
	table, _ = table.WithDraining(6, true)
	return table
}

// A selection holds what the checks of each rank say, kept or not, however often its
// lists come, in whatever order, and whatever lists come in between.
func TestSelectionAgreesWithTheChecks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	table := selectionTable(t, 150)
	ids := func() []uint64 {
		ids := make([]uint64, r.IntN(120))
		for i := range ids {
			ids[i] = r.Uint64N(500)
		}
		return ids
	}
	var lists []Constraints
	for range 60 {
		c := Constraints{Excluded: ids()}
		if r.IntN(2) == 0 {
			c.Allowed = ids()
		}
		if r.IntN(4) == 0 {
			c.RequiredTaints = []string{[]string{"even", "odd"}[r.IntN(2)]}
		}
		lists = append(lists, c)
	}
	var scratch Selection
	kept := 0
	for range 2000 {
		c := lists[r.IntN(len(lists))]
		if r.IntN(10) == 0 && len(c.Excluded) > 0 {
			// Nearly the same lists.
			c.Excluded = slices.Clone(c.Excluded)
			c.Excluded[r.IntN(len(c.Excluded))] = r.Uint64N(500)
		}
		s := table.Selection(&c, &scratch)
		if s != &scratch {
			kept++
		}
		var places, open []int32
		for i := range table.slots {
			check := table.CheckRank(&c, table.slots[i].Rank)
			if check == Eligible || check == Overloaded {
				places = append(places, int32(i))
			}
			if check == Eligible {
				open = append(open, int32(i))
			}
			if got := s.Has(&table.slots[i]); got != (check == Eligible || check == Overloaded) {
				t.Fatalf("%v is in the selection: %t, but %v for %v", table.slots[i].Rank, got, check, &c)
			}
		}
		if !slices.Equal(s.Places, places) || !slices.Equal(s.Open, open) {
			t.Fatalf("%v of which %v, want %v of which %v, for %v", s.Places, s.Open, places, open, &c)
		}
	}
	if kept < 200 {
		t.Errorf("%d of 2000 were kept", kept)
	}
}

// A set that comes again is made once, also in another slice; what is kept is bounded
// and holds nothing of a request's.
func TestSelectionOfASetThatComesAgainIsMadeOnce(t *testing.T) {
	table := selectionTable(t, 150)
	lists := func(from uint64) Constraints {
		c := Constraints{}
		for i := range uint64(100) {
			c.Allowed = append(c.Allowed, from+3*i)
		}
		return c
	}
	c, scratch := lists(0), Selection{}
	if table.Selection(&c, &scratch) != &scratch {
		t.Error("kept the first time")
	}
	first := table.Selection(&c, &scratch)
	if first == &scratch {
		t.Fatal("not kept though it came again")
	}
	again := lists(0)
	c.Allowed[0], c.Allowed[99] = 1, 2
	if table.Selection(&again, &scratch) != first {
		t.Error("made again for another slice with the same members")
	}
	few := Constraints{Excluded: []uint64{1, 2, 3}}
	many := Constraints{Excluded: make([]uint64, 5*150)}
	for range 3 {
		for _, c := range []*Constraints{&few, &many} {
			if table.Selection(c, &scratch) != &scratch {
				t.Errorf("a list of %d is kept", len(c.Excluded))
			}
		}
		for i := range uint64(100) {
			c := lists(i)
			table.Selection(&c, &scratch)
			table.Selection(&c, &scratch)
		}
	}
	places := 0
	for i := range table.kept.places {
		if table.kept.places[i].Load() != nil {
			places++
		}
	}
	if places == 0 || places > keptMost {
		t.Errorf("%d selections are kept", places)
	}
	if n := testing.AllocsPerRun(100, func() { table.Selection(&again, &scratch); table.Selection(&again, &scratch) }); n != 0 {
		t.Errorf("%v allocations for what is kept", n)
	}
}

func BenchmarkSelection(b *testing.B) {
	env := &Env{Now: func() int64 { return 0 }}
	workers := make([]Worker, 2048)
	for i := range workers {
		workers[i] = Worker{ID: uint64(i), Ranks: 1}
	}
	table, _, err := NewTable().With(workers, func(id lifecycle.RankID) *Shard { return NewShard(id, env) })
	if err != nil {
		b.Fatal(err)
	}
	half := make([]uint64, 1024)
	for i := range half {
		half[i] = uint64(2 * i)
	}
	var scratch Selection
	for name, c := range map[string]Constraints{"allowed": {Allowed: half}, "excluded": {Excluded: half}} {
		for _, kept := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/kept=%t", name, kept), func(b *testing.B) {
				for b.Loop() {
					if kept {
						table.Selection(&c, &scratch)
					} else {
						table.fill(&c, &scratch)
					}
				}
			})
		}
	}
}
