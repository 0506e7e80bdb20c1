package pool

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

func TestDistinct(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		rnd := rand.New(rand.NewPCG(uint64(n), 7))
		list := make([]lifecycle.Overlap, n)
		for i := range list {
			list[i].Rank = rank(uint64(i/3), uint32(i%3))
		}
		var scratch []lifecycle.RankID
		for range 2 {
			if given := slices.Clone(list); !Distinct(list, &scratch) || !slices.Equal(list, given) {
				t.Fatalf("%d different ranks: not distinct, or changed", n)
			}
			if n > 1 {
				twice := slices.Clone(list)
				to, from := rnd.IntN(n), rnd.IntN(n-1)
				if from >= to {
					from++
				}
				twice[to] = twice[from]
				if Distinct(twice, &scratch) {
					t.Fatalf("%d of %d stands twice, and is not seen", from, n)
				}
			}
			rnd.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
	}
}

func TestSortTaints(t *testing.T) {
	t.Parallel()
	if SortTaints(nil) != nil || SortTaints(map[string]float64{}) != nil {
		t.Fatal("taints out of nowhere")
	}
	got := SortTaints(map[string]float64{"b": 1, "": 2, "a": 3})
	if !slices.Equal(got, []TaintWeight{{"", 2}, {"a", 3}, {"b", 1}}) {
		t.Fatalf("%v", got)
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ isl, cached, want int64 }{
		{0, 0, 1}, {5, 5, 1}, {5, 9, 1}, {5, 4, 1}, {5, 3, 2}, {math.MaxInt64, 0, math.MaxInt64},
	} {
		if got := Cost(test.isl, test.cached); got != test.want {
			t.Errorf("%d with %d cached costs %d, want %d", test.isl, test.cached, got, test.want)
		}
	}
}

// Against the greatest over all ranks that may serve the request.
func TestBestCachedAgainstEachRank(t *testing.T) {
	t.Parallel()
	some := 0
	for seed := range uint64(1_000) {
		rnd := rand.New(rand.NewPCG(seed, 13))
		f := randomFleet(t, rnd)
		r := randomRequest(rnd)
		best := int64(0)
		for _, slot := range f.eligible(r) {
			id := slot.Shard.ID()
			best = max(best, cachedOf(r, id))
		}
		if got := r.BestCached(f.world.Table); got != best {
			t.Fatalf("seed %d: %d, want %d", seed, got, best)
		}
		class, cached := f.world.Classify("", r)
		want := "f-short"
		if r.ISL-best >= 100 {
			want = "f-long"
		}
		if name := f.world.Profile.Class(class).Name; cached != best || name != want {
			t.Fatalf("seed %d: class %q with %d cached, want %q, %d", seed, name, cached, want, best)
		}
		if best > 0 {
			some++
		}
	}
	if some == 0 {
		t.Fatal("nothing was ever cached")
	}
}

func TestBestCachedLooksPastOverload(t *testing.T) {
	t.Parallel()
	f := newFleet(t, shards.Worker{ID: 1, Ranks: 1}, shards.Worker{ID: 2, Ranks: 1})
	r := &Request{ISL: 100, Params: params(), Overlaps: []lifecycle.Overlap{{Rank: rank(1, 0), Device: 5}, {Rank: rank(2, 0), Device: 20}}}
	f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{2}) })
	if got := r.BestCached(f.world.Table); got != 80 {
		t.Fatalf("%d cached", got)
	}
	f.change(func(table *shards.Table) *shards.Table { return table.WithAvailable([]uint64{1}) })
	if got := r.BestCached(f.world.Table); got != 20 {
		t.Fatalf("%d cached", got)
	}
	// By an explicit name the buckets do not matter.
	if class, _ := f.world.Classify("open", r); f.world.Profile.Class(class).Name != "open" {
		t.Fatalf("class %d", class)
	}
}

// With lists as long as the pool is large, of which half the workers are left.
func TestBestCachedWithLongLists(t *testing.T) {
	t.Parallel()
	const workers = 256
	var all []shards.Worker
	for id := range uint64(workers) {
		all = append(all, shards.Worker{ID: id, Ranks: 2})
	}
	f := newFleet(t, all...)
	f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{3, 4}) })
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 14))
		r := &Request{ISL: 4_000, Params: params()}
		for id := range uint64(workers) {
			// Some are listed twice, and some are not in the pool.
			r.Constraints.Excluded = append(r.Constraints.Excluded, rnd.Uint64N(workers+9))
			if seed%2 == 0 {
				r.Constraints.Allowed = append(r.Constraints.Allowed, rnd.Uint64N(workers+9))
			}
			r.Overlaps = append(r.Overlaps, lifecycle.Overlap{Rank: rank(id+5, rnd.Uint32N(3)), Device: float64(rnd.IntN(900))})
		}
		best := int64(0)
		for _, slot := range f.eligible(r) {
			best = max(best, cachedOf(r, slot.Shard.ID()))
		}
		if got := r.BestCached(f.world.Table); got != best || best == 0 || !r.manyNamed(f.world.Table) {
			t.Fatalf("seed %d: %d, want %d", seed, got, best)
		}
	}
}
