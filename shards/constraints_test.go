package shards_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Each case breaks one rule more than the one before, in the reverse order of
// the checks: the first that fails is the answer.
func TestChecksComeInTheirOrder(t *testing.T) {
	t.Parallel()
	env := timeless()
	base := with(t, shards.NewTable(), env, worker(1, "gpu"), worker(2, "gpu", "fast"))
	overloaded := base.WithOverloaded([]uint64{1})
	away := overloaded.WithAvailable([]uint64{2})
	draining, _ := overloaded.WithDraining(1, true)

	for _, test := range []struct {
		name  string
		table *shards.Table
		c     shards.Constraints
		rank  lifecycle.RankID
		want  shards.Check
	}{
		{"nothing wanted", base, shards.Constraints{}, rank(1, 0), shards.Eligible},
		{"all is well", base, shards.Constraints{Allowed: []uint64{2, 1}, RequiredTaints: []string{"gpu"}}, rank(1, 1), shards.Eligible},
		{"overloaded", overloaded, shards.Constraints{}, rank(1, 0), shards.Overloaded},
		{"and lacks a taint", overloaded, shards.Constraints{RequiredTaints: []string{"gpu", "fast"}}, rank(1, 0), shards.Untainted},
		{"no such rank", overloaded, shards.Constraints{RequiredTaints: []string{"fast"}}, rank(1, 2), shards.Missing},
		{"no such worker", overloaded, shards.Constraints{}, rank(3, 0), shards.Missing},
		{"not available", away, shards.Constraints{RequiredTaints: []string{"fast"}}, rank(1, 0), shards.Unavailable},
		{"no such rank, and not available", away, shards.Constraints{}, rank(1, 2), shards.Unavailable},
		{"drains", draining, shards.Constraints{RequiredTaints: []string{"fast"}}, rank(1, 0), shards.Unavailable},
		{"excluded", away, shards.Constraints{Excluded: []uint64{3, 1}}, rank(1, 2), shards.NotAllowed},
		{"not allowed", away, shards.Constraints{Allowed: []uint64{2}}, rank(1, 2), shards.NotAllowed},
		{"allowed and excluded", base, shards.Constraints{Allowed: []uint64{1}, Excluded: []uint64{1}}, rank(1, 0), shards.NotAllowed},
		{"none allowed", base, shards.Constraints{Allowed: []uint64{}}, rank(1, 0), shards.NotAllowed},
		{"not allowed, and no such worker", base, shards.Constraints{Allowed: []uint64{2}}, rank(9, 9), shards.NotAllowed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.table.CheckRank(&test.c, test.rank); got != test.want {
				t.Fatalf("%v, want %v", got, test.want)
			}
			// A pin to the rank says the same: nobody, or that rank alone.
			c := test.c
			c.Pinned, c.Pin = true, test.rank
			got := test.table.Selection(&c, new(shards.Selection)).Places
			want := test.want == shards.Eligible || test.want == shards.Overloaded
			if want && (len(got) != 1 || test.table.Slots()[got[0]].Shard.ID() != test.rank) || !want && len(got) != 0 {
				t.Fatalf("a pin has %v", got)
			}
		})
	}
}

func TestChecksAreNamed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := shards.Eligible; c <= shards.Overloaded+1; c++ {
		if seen[c.String()] {
			t.Errorf("%q is the name of two", c)
		}
		seen[c.String()] = true
	}
}

func TestPinAllowed(t *testing.T) {
	t.Parallel()
	pin := shards.Constraints{Pinned: true, Pin: rank(1, 0)}
	for _, test := range []struct {
		change func(*shards.Constraints)
		want   bool
	}{
		{func(*shards.Constraints) {}, true},
		{func(c *shards.Constraints) { c.Allowed = []uint64{2, 1} }, true},
		{func(c *shards.Constraints) { c.Allowed = []uint64{2} }, false},
		{func(c *shards.Constraints) { c.Allowed = []uint64{} }, false},
		{func(c *shards.Constraints) { c.Pinned, c.Allowed = false, []uint64{2} }, true},
		// Exclusion is a matter of eligibility.
		{func(c *shards.Constraints) { c.Excluded = []uint64{1} }, true},
	} {
		c := pin
		test.change(&c)
		if got := c.PinAllowed(); got != test.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// drawn returns random constraints over few workers and few taints, among them
// taints that would be one if they were only strung together.
func drawn(seed uint64) shards.Constraints {
	rnd := seeded(seed)
	ids := func() []uint64 {
		list := make([]uint64, rnd.IntN(4))
		for i := range list {
			list[i] = []uint64{0, 1, 2, 5, 1 << 40, 1<<64 - 1}[rnd.IntN(6)]
		}
		return list
	}
	var c shards.Constraints
	if rnd.IntN(3) == 0 {
		c.Pinned, c.Pin = true, rank(rnd.Uint64N(3), rnd.Uint32N(3))
	}
	if rnd.IntN(2) == 0 {
		c.Allowed = ids()
	}
	if rnd.IntN(2) == 0 {
		c.Excluded = ids()
	}
	if rnd.IntN(2) == 0 {
		tricky := []string{"", "a", "b", "ab", "a\x01b", "\x01a", "t", "t\x01a", "x", "p", "a\x00"}
		for range rnd.IntN(4) {
			c.RequiredTaints = append(c.RequiredTaints, tricky[rnd.IntN(len(tricky))])
		}
	}
	return c
}

// meaning says in full what constraints mean: equal for those that mean the same.
func meaning(c *shards.Constraints) string {
	sortedIDs := func(ids []uint64) []uint64 {
		out := slices.Sorted(slices.Values(ids))
		return slices.Compact(out)
	}
	taints := slices.Compact(slices.Sorted(slices.Values(c.RequiredTaints)))
	pin := ""
	if c.Pinned {
		pin = c.Pin.String()
	}
	return fmt.Sprintf("pin %s, any: %t, of %v, without %v, %q", pin, c.Allowed == nil, sortedIDs(c.Allowed), sortedIDs(c.Excluded), taints)
}

func TestKeyIsEqualForEqualMeaningOnly(t *testing.T) {
	t.Parallel()
	none := shards.Constraints{}
	byKey, byMeaning := map[string]string{"": meaning(&none)}, map[string]string{meaning(&none): ""}
	for seed := range uint64(20_000) {
		c := drawn(seed)
		key, m := c.Key(), meaning(&c)
		if other, known := byKey[key]; known && other != m {
			t.Fatalf("seed %d: one key, %q, for %s and %s", seed, key, m, other)
		}
		if other, known := byMeaning[m]; known && other != key {
			t.Fatalf("seed %d: two keys, %q and %q, for %s", seed, key, other, m)
		}
		byKey[key], byMeaning[m] = m, key
	}
	if len(byKey) < 2_000 {
		t.Fatalf("only %d different constraints were drawn", len(byKey))
	}
}

func TestKeyLeavesTheListsAsTheyAre(t *testing.T) {
	t.Parallel()
	c := shards.Constraints{Allowed: []uint64{3, 1, 2, 1}, Excluded: []uint64{9, 8}, RequiredTaints: []string{"b", "a"}}
	_ = c.Key()
	if !slices.Equal(c.Allowed, []uint64{3, 1, 2, 1}) || !slices.Equal(c.Excluded, []uint64{9, 8}) || !slices.Equal(c.RequiredTaints, []string{"b", "a"}) {
		t.Fatalf("%+v", c)
	}
}

// Against a filter that asks for each rank of the table.
func TestEligibleRanksAgainstAFilter(t *testing.T) {
	t.Parallel()
	seeds := uint64(4_000)
	if testing.Short() {
		seeds /= 10
	}
	found := 0
	for seed := range seeds {
		rnd := seeded(seed)
		table := shards.NewTable()
		var workers []shards.Worker
		for _, id := range []uint64{0, 1, 2, 5, 1 << 40} {
			if rnd.IntN(4) > 0 {
				var taints []string
				for _, taint := range []string{"", "a", "b", "ab"} {
					if rnd.IntN(2) == 0 {
						taints = append(taints, taint)
					}
				}
				workers = append(workers, shards.Worker{ID: id, StartRank: rnd.Uint32N(2), Ranks: 1 + rnd.Uint32N(3), Taints: taints})
			}
		}
		table = with(t, table, timeless(), workers...)
		if rnd.IntN(2) == 0 {
			table = table.WithAvailable([]uint64{1, 2, 7, 1 << 40})
		}
		if rnd.IntN(2) == 0 {
			table = table.WithOverloaded([]uint64{2, 5, 9})
		}
		if next, ok := table.WithDraining(1, true); ok && rnd.IntN(3) == 0 {
			table = next
		}
		c := drawn(seed)
		c.Tried = rnd.IntN(len(c.Excluded) + 1)

		var want []int32
		var counts [shards.Overloaded + 1]int
		tried := 0
		for i := range table.Slots() {
			slot := &table.Slots()[i]
			id := slot.Shard.ID()
			ok := slot.Available && (c.Allowed == nil || slices.Contains(c.Allowed, id.Worker)) &&
				!slices.Contains(c.Excluded, id.Worker) && (!c.Pinned || c.Pin == id)
			for _, taint := range c.RequiredTaints {
				ok = ok && slices.Contains(slot.Worker.Taints, taint)
			}
			if ok {
				want = append(want, int32(i))
			}
			check := table.CheckRank(&c, id)
			withoutTries := c
			withoutTries.Excluded = c.Excluded[:len(c.Excluded)-c.Tried]
			if check == shards.NotAllowed && withoutTries.Allows(id.Worker) {
				tried++
			} else {
				counts[check]++
			}
			if (!c.Pinned || c.Pin == id) && ok != (check == shards.Eligible || check == shards.Overloaded) {
				t.Fatalf("seed %d: %v is %v for %s", seed, id, check, meaning(&c))
			}
		}
		found += len(want)
		if got, gotTried := table.CountChecks(&c); !c.Pinned && (got != counts || gotTried != tried) {
			t.Fatalf("seed %d: %v and %d tried, want %v and %d, for %s", seed, got, gotTried, counts, tried, meaning(&c))
		}
		if got := table.Selection(&c, new(shards.Selection)).Places; !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v for %s", seed, got, want, meaning(&c))
		}
	}
	if found == 0 {
		t.Fatal("nobody was ever eligible")
	}
}

func TestEligibleRanksWithoutAllocation(t *testing.T) {
	table := with(t, shards.NewTable(), timeless(), worker(1, "a"), worker(2, "a"), worker(3))
	var scratch shards.Selection
	var dst []int32
	for _, c := range []shards.Constraints{
		{}, {Pinned: true, Pin: rank(1, 1)}, {Allowed: []uint64{3, 1}}, {Excluded: []uint64{2}}, {RequiredTaints: []string{"a"}},
	} {
		if n := testing.AllocsPerRun(100, func() { dst = table.Selection(&c, &scratch).Places }); n != 0 {
			t.Errorf("%+v: %v allocations", c, n)
		}
		if len(dst) == 0 {
			t.Errorf("%+v: nobody", c)
		}
	}
}
