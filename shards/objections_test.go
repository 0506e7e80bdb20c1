package shards_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/shards"
)

// The first objection is the check that fails, and who has none is eligible,
// whatever the constraints and the sets.
func TestObjectionsAgreeWithTheChecks(t *testing.T) {
	t.Parallel()
	checks := map[string]shards.Check{
		"not-allowed": shards.NotAllowed, "excluded": shards.NotAllowed, "draining": shards.Unavailable,
		"unavailable": shards.Unavailable, "lacks-taint": shards.Untainted, "overloaded": shards.Overloaded, "set-aside": shards.Overloaded,
	}
	r := seeded(11)
	some := func(of []uint64) []uint64 {
		var ids []uint64
		for _, id := range of {
			if r.IntN(2) == 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	ids := []uint64{1, 2, 3}
	for range 2000 {
		table := with(t, shards.NewTable(), timeless(), worker(1, "gpu"), worker(2, "gpu", "fast"), worker(3))
		table = table.WithOverloaded(some(ids))
		if r.IntN(2) == 0 {
			table = table.WithAvailable(append([]uint64{}, some(ids)...))
		}
		for _, id := range some(ids) {
			table, _ = table.WithDraining(id, r.IntN(3) == 0)
		}
		for _, id := range some(ids) {
			if r.IntN(3) == 0 {
				table = table.WithAside(id, 1)
			}
		}
		c := shards.Constraints{Excluded: some(ids)}
		if r.IntN(2) == 0 {
			c.Allowed = append([]uint64{}, some(ids)...)
		}
		for _, taint := range []string{"gpu", "fast", "gpu"} {
			if r.IntN(3) == 0 {
				c.RequiredTaints = append(c.RequiredTaints, taint)
			}
		}
		if r.IntN(4) == 0 {
			c.Pinned, c.Pin = true, rank(uint64(r.IntN(3)+1), 0)
		}
		eligible := table.Selection(&c, new(shards.Selection)).Places
		for i := range table.Slots() {
			id := table.Slots()[i].Shard.ID()
			got := table.Objections(&c, i)
			rest := slices.DeleteFunc(slices.Clone(got), func(o shards.Objection) bool { return o.Rule == "pinned-elsewhere" })
			want := shards.Eligible
			if len(rest) > 0 {
				want = checks[rest[0].Rule]
			}
			require.Equal(t, want, table.CheckRank(&c, id), "rank %v of %+v: %v", id, c, got)
			require.Equal(t, c.Pinned && c.Pin != id, len(rest) < len(got))
			lets := !slices.ContainsFunc(got, func(o shards.Objection) bool { return o.Rule != "overloaded" && o.Rule != "set-aside" })
			require.Equal(t, lets, slices.Contains(eligible, int32(i)), "rank %v of %+v: %v", id, c, got)
		}
	}
}
