package shards_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

func TestEmptyTable(t *testing.T) {
	t.Parallel()
	table := shards.NewTable()
	if len(table.Slots()) != 0 || len(table.Workers()) != 0 || table.Worker(1) != nil || table.Slot(rank(1, 0)) != -1 {
		t.Fatal("something is in it")
	}
	if from, to := table.WorkerSlots(1); from != to {
		t.Fatalf("slots %d to %d", from, to)
	}
	if _, _, ok := table.Without(1); ok {
		t.Fatal("a worker that is not there was removed")
	}
	if _, ok := table.WithDraining(1, true); ok {
		t.Fatal("a worker that is not there drains")
	}
	if next, gone, err := table.Replaced(nil, nil); err != nil || gone != nil || len(next.Slots()) != 0 {
		t.Fatalf("gone: %v, error: %v", gone, err)
	}
}

func TestSlotsAreInWorkerAndRankOrder(t *testing.T) {
	t.Parallel()
	table := with(t, shards.NewTable(), timeless(),
		shards.Worker{ID: 7, Ranks: 1}, shards.Worker{ID: 2, StartRank: 4, Ranks: 3}, shards.Worker{ID: math.MaxUint64, Ranks: 2})
	if got := ranksOf(table); got != "2/4 2/5 2/6 7/0 18446744073709551615/0 18446744073709551615/1 " {
		t.Fatalf("the ranks are %s", got)
	}
	for i := range table.Slots() {
		slot := &table.Slots()[i]
		if got := table.Slot(slot.Shard.ID()); got != i {
			t.Errorf("rank %v is at %d, found at %d", slot.Shard.ID(), i, got)
		}
		if table.Workers()[slot.WorkerIndex] != slot.Worker || slot.Worker != table.Worker(slot.Worker.ID) {
			t.Errorf("rank %v has another worker than it says", slot.Shard.ID())
		}
		if !slot.Available || slot.Overloaded {
			t.Errorf("rank %v: available %t, overloaded %t", slot.Shard.ID(), slot.Available, slot.Overloaded)
		}
	}
	for _, missing := range []lifecycle.RankID{rank(2, 3), rank(2, 7), rank(3, 0), rank(7, 1), rank(0, 0), rank(2, math.MaxUint32)} {
		if at := table.Slot(missing); at != -1 {
			t.Errorf("rank %v is found at %d", missing, at)
		}
	}
	for id, want := range map[uint64][2]int{2: {0, 3}, 7: {3, 4}, math.MaxUint64: {4, 6}, 5: {0, 0}} {
		if from, to := table.WorkerSlots(id); [2]int{from, to} != want {
			t.Errorf("worker %d has slots %d to %d", id, from, to)
		}
	}
	var walked []*shards.Shard
	for s := range table.Shards {
		if walked = append(walked, s); len(walked) == 4 {
			break
		}
	}
	if got := idsOf(walked); got != "2/4 2/5 2/6 7/0 " {
		t.Fatalf("the shards are %s", got)
	}
}

func TestDefaultsOfAWorker(t *testing.T) {
	t.Parallel()
	given := shards.Worker{
		ID: 1, Ranks: 1, Taints: []string{"b", "a", "b"}, Endpoint: "here", TotalKVBlocks: 9,
	}
	table := with(t, shards.NewTable(), timeless(), given)
	w := table.Worker(1)
	if w.MaxBatchedTokens != shards.DefaultMaxBatchedTokens || w.Endpoint != "here" || w.TotalKVBlocks != 9 {
		t.Fatalf("%+v", w)
	}
	if !w.HasTaint("a") || !w.HasTaint("b") || w.HasTaint("") || w.HasTaint("c") || len(w.Taints) != 2 {
		t.Fatalf("taints %q", w.Taints)
	}
	if !slices.Equal(given.Taints, []string{"b", "a", "b"}) {
		t.Fatalf("the caller's taints were changed to %q", given.Taints)
	}
	given.Taints[0], given.Taints[1] = "x", "x"
	if !w.HasTaint("a") {
		t.Fatal("the table shares memory with its caller")
	}
}

func TestUpsertKeepsShards(t *testing.T) {
	t.Parallel()
	env := timeless()
	table := with(t, shards.NewTable(), env, shards.Worker{ID: 1, StartRank: 2, Ranks: 3}, worker(2))
	before := slices.Clone(table.Slots())

	next, gone, err := table.With([]shards.Worker{{ID: 1, StartRank: 3, Ranks: 3, Endpoint: "moved"}, worker(3)}, maker(env))
	if err != nil {
		t.Fatal(err)
	}
	if got := ranksOf(next); got != "1/3 1/4 1/5 2/0 2/1 3/0 3/1 " {
		t.Fatalf("the ranks are %s", got)
	}
	if got := idsOf(gone); got != "1/2 " || gone[0] != before[0].Shard {
		t.Fatalf("gone are %s", got)
	}
	for i, want := range []*shards.Shard{before[1].Shard, before[2].Shard, nil, before[3].Shard, before[4].Shard} {
		if got := next.Slots()[i].Shard; want != nil && got != want {
			t.Errorf("rank %v has another shard", got.ID())
		}
	}
	if next.Worker(1).Endpoint != "moved" || table.Worker(1).Endpoint != "" {
		t.Fatal("the worker was not updated, or in the old table too")
	}
	if got := ranksOf(table); got != "1/2 1/3 1/4 2/0 2/1 " {
		t.Fatalf("the old table has changed: %s", got)
	}
}

func TestRemovedAndAddedAgainIsAnother(t *testing.T) {
	t.Parallel()
	env := timeless()
	table := with(t, shards.NewTable(), env, worker(1), worker(2))
	old := table.Slots()[0].Shard
	next, gone, ok := table.Without(1)
	if !ok || idsOf(gone) != "1/0 1/1 " || gone[0] != old || ranksOf(next) != "2/0 2/1 " {
		t.Fatalf("gone are %s, left are %s", idsOf(gone), ranksOf(next))
	}
	again := with(t, next, env, worker(1))
	if s := again.Slots()[0].Shard; s == old || s.Ordinal() <= old.Ordinal() {
		t.Fatalf("the generation is %d, was %d", s.Ordinal(), old.Ordinal())
	}
	if _, _, ok := next.Without(1); ok {
		t.Fatal("removed twice")
	}
}

func TestReplaced(t *testing.T) {
	t.Parallel()
	env := timeless()
	table := with(t, shards.NewTable(), env, worker(1), worker(2), worker(3))
	kept := table.Slots()[2].Shard
	next, gone, err := table.Replaced([]shards.Worker{worker(4), {ID: 2, Ranks: 1}}, maker(env))
	if err != nil || ranksOf(next) != "2/0 4/0 4/1 " || idsOf(gone) != "1/0 1/1 2/1 3/0 3/1 " {
		t.Fatalf("left are %s, gone are %s, error: %v", ranksOf(next), idsOf(gone), err)
	}
	if next.Slots()[0].Shard != kept {
		t.Fatal("rank 2/0 has another shard")
	}
	next, gone, err = next.Replaced(nil, maker(env))
	if err != nil || len(next.Slots()) != 0 || len(gone) != 3 {
		t.Fatalf("left are %s, gone are %s, error: %v", ranksOf(next), idsOf(gone), err)
	}
}

// flags lists each worker with d, if it is not available, and o, if overloaded.
func flags(table *shards.Table) string {
	var parts []string
	for _, w := range table.Workers() {
		from, to := table.WorkerSlots(w.ID)
		part := fmt.Sprint(w.ID)
		if !table.Slots()[from].Available {
			part += "-"
		}
		if table.Slots()[from].Overloaded {
			part += "o"
		}
		for i := from; i < to; i++ {
			if table.Slots()[i].Available != table.Slots()[from].Available || table.Slots()[i].Overloaded != table.Slots()[from].Overloaded {
				part += "?"
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func TestDraining(t *testing.T) {
	t.Parallel()
	env := timeless()
	table := with(t, shards.NewTable(), env, worker(1), worker(2))
	step := func(want string) {
		t.Helper()
		if got := flags(table); got != want {
			t.Fatalf("the workers are %q, want %q", got, want)
		}
	}
	drain := func(id uint64, draining bool) {
		t.Helper()
		next, ok := table.WithDraining(id, draining)
		if !ok {
			t.Fatalf("no worker %d", id)
		}
		table = next
	}
	before := table
	drain(1, true)
	step("1- 2")
	drain(1, true) // again changes nothing
	step("1- 2")
	if got := flags(before); got != "1 2" {
		t.Fatalf("the old table says %q", got)
	}
	table = with(t, table, env, worker(1, "new"), worker(3))
	step("1- 2 3") // an upsert leaves it draining
	table, _, _ = table.Replaced([]shards.Worker{worker(1), worker(2)}, maker(env))
	step("1- 2") // so does a reconcile that keeps it
	table = table.WithOverloaded([]uint64{1}).WithAvailable([]uint64{1})
	step("1-o 2-")
	drain(1, false)
	step("1o 2-")
	table = table.WithAvailable(nil)
	step("1o 2")
	drain(1, true)
	table, _, _ = table.Without(1)
	table = with(t, table, env, worker(1))
	step("1o 2") // removal ends it; what was said of its id stands
}

func TestOverloadedAndAvailableSets(t *testing.T) {
	t.Parallel()
	env := timeless()
	table := with(t, shards.NewTable(), env, worker(1), worker(2), worker(3))
	step := func(next *shards.Table, want string) {
		t.Helper()
		before := flags(table)
		if got := flags(next); got != want {
			t.Fatalf("the workers are %q, want %q", got, want)
		}
		if got := flags(table); got != before {
			t.Fatalf("the old table went from %q to %q", before, got)
		}
		table = next
	}
	step(table.WithOverloaded([]uint64{2, 99, 2}), "1 2o 3") // ids need not exist
	step(table.WithAvailable([]uint64{3, 2, 77}), "1- 2o 3")
	step(with(t, table, env, worker(77), worker(99), worker(5)), "1- 2o 3 5- 77 99-o")
	step(table.WithOverloaded(nil), "1- 2 3 5- 77 99-")
	step(table.WithAvailable([]uint64{}), "1- 2- 3- 5- 77- 99-") // none, not all
	step(table.WithAvailable(nil), "1 2 3 5 77 99")
	ids := []uint64{1}
	next := table.WithOverloaded(ids)
	ids[0] = 2
	step(next, "1o 2 3 5 77 99")
}

func TestInvalidWorkersLeaveEverythingUnchanged(t *testing.T) {
	t.Parallel()
	env := timeless()
	table := with(t, shards.NewTable(), env, worker(1), worker(2))
	for _, test := range []struct {
		name string
		w    shards.Worker
		want string
	}{
		{"no ranks", shards.Worker{ID: 5}, "worker 5: 0 ranks: must be 1 to 1024"},
		{"too many ranks", shards.Worker{ID: 5, Ranks: 1025}, "worker 5: 1025 ranks: must be 1 to 1024"},
		{"no end of ranks", shards.Worker{ID: 5, Ranks: math.MaxUint32}, "worker 5: 4294967295 ranks: must be 1 to 1024"},
		{
			"ranks beyond 32 bits", shards.Worker{ID: 5, StartRank: math.MaxUint32, Ranks: 1},
			"worker 5: start rank 4294967295 with 1 ranks: their sum must fit in 32 bits",
		},
		{
			"many ranks beyond 32 bits", shards.Worker{ID: 5, StartRank: math.MaxUint32 - 1023, Ranks: 1024},
			"worker 5: start rank 4294966272 with 1024 ranks: their sum must fit in 32 bits",
		},
		{
			"batched tokens", shards.Worker{ID: 5, Ranks: 1, MaxBatchedTokens: -1},
			"worker 5: max batched tokens -1: must not be negative",
		},
		{
			"KV blocks", shards.Worker{ID: 5, Ranks: 1, TotalKVBlocks: -2},
			"worker 5: total KV blocks -2: must not be negative",
		},
		{
			"several faults at once", shards.Worker{ID: 5, MaxBatchedTokens: -1, TotalKVBlocks: -2},
			"worker 5: 0 ranks: must be 1 to 1024; max batched tokens -1: must not be negative; total KV blocks -2: must not be negative",
		},
		{"a repeated id", shards.Worker{ID: 1, Ranks: 1}, "worker 1: id 1 is given twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			noShard := func(id lifecycle.RankID) *shards.Shard {
				t.Errorf("a shard was made for %v", id)
				return shards.NewShard(id, env)
			}
			workers := []shards.Worker{{ID: 1, Ranks: 1, Endpoint: "new"}, worker(9), test.w, worker(10)}
			for name, change := range map[string]func([]shards.Worker, func(lifecycle.RankID) *shards.Shard) (*shards.Table, []*shards.Shard, error){
				"upsert": table.With, "reconcile": table.Replaced,
			} {
				next, gone, err := change(workers, noShard)
				var fault *shards.WorkerError
				if !errors.As(err, &fault) || fault.ID != test.w.ID || err.Error() != test.want || next != nil || gone != nil {
					t.Errorf("%s: error %q, want %q; table %v, gone %v", name, err, test.want, next, gone)
				}
			}
			if ranksOf(table) != "1/0 1/1 2/0 2/1 " || table.Worker(1).Endpoint != "" {
				t.Errorf("the table is %s", ranksOf(table))
			}
		})
	}
}

func TestLargestWorkers(t *testing.T) {
	t.Parallel()
	table := with(t, shards.NewTable(), timeless(),
		shards.Worker{ID: 1, Ranks: shards.MaxRanks},
		shards.Worker{ID: 2, StartRank: math.MaxUint32 - shards.MaxRanks, Ranks: shards.MaxRanks})
	if len(table.Slots()) != 2*shards.MaxRanks {
		t.Fatalf("%d ranks", len(table.Slots()))
	}
	last := rank(2, math.MaxUint32-1)
	if at := table.Slot(last); at != len(table.Slots())-1 || table.Slots()[at].Shard.ID() != last {
		t.Fatalf("the last rank is at %d", at)
	}
	if table.Slot(rank(2, math.MaxUint32)) != -1 || table.Slot(rank(2, 0)) != -1 || table.Slot(rank(1, shards.MaxRanks)) != -1 {
		t.Fatal("a rank too many")
	}
}
