package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// strictFleet has a class 0 that guards, and some workers of one rank.
func strictFleet(t *testing.T, workers int) *World {
	t.Helper()
	f := newFleet(t)
	list := make([]shards.Worker, workers)
	for i := range list {
		list[i] = shards.Worker{ID: uint64(i), Ranks: 1, Taints: []string{"a", "b"}}
	}
	f.setWorkers(list...)
	threshold := int64(0)
	profile, err := policy.New(policy.Config{
		DefaultFamily: "f",
		Buckets:       []policy.Bucket{{Name: "all"}},
		Classes: []policy.Class{
			{Name: "f", Family: "f", Bucket: "all", Quantum: 1, BusyThreshold: &threshold, GuardAfter: 1},
			{Name: "g", Quantum: 1, BusyThreshold: &threshold},
		},
	})
	require.NoError(t, err)
	next := *f.world
	next.Profile = profile
	return next.Made()
}

// A lane that begins or ceases to guard costs what it names, not what the pool has;
// another table costs nothing.
func TestGuardsCostWhatIsNamed(t *testing.T) {
	w := strictFleet(t, 2_048)
	for name, c := range map[string]shards.Constraints{
		"all":      {},
		"excluded": {Excluded: []uint64{3, 7, 3}},
		"allowed":  {Allowed: []uint64{3, 7}, Excluded: []uint64{7}},
		"pinned":   {Pinned: true, Pin: lifecycle.RankID{Worker: 9}},
		"tainted":  {RequiredTaints: []string{"b", "a"}},
	} {
		var g Guards
		g.Reset(w)
		g.Begin(0, &shards.Constraints{Excluded: []uint64{1}}) // so that there is another
		named, freed := 0, 0
		allocs := testing.AllocsPerRun(10, func() {
			named = max(named, g.Begin(0, &c))
			g.Follow(w)
			named = max(named, g.End(0, &c, func(*lifecycle.RankID) { freed++ }))
		})
		require.LessOrEqual(t, allocs, 16.0, "%s: the room for a list of all ranks grows more often than that", name)
		require.LessOrEqual(t, freed, 3*11, name)
		require.LessOrEqual(t, named, 3, name)
	}
}

// What is said to be free when a guard ends has every rank that is guarded no longer,
// and none if there is none.
func TestGuardsThatEnd(t *testing.T) {
	t.Parallel()
	w := strictFleet(t, 4)
	free := func(g *Guards, c *shards.Constraints) (ranks []uint64, all bool) {
		g.End(0, c, func(rank *lifecycle.RankID) {
			if rank == nil {
				all = true
			} else {
				ranks = append(ranks, rank.Worker)
			}
		})
		return ranks, all
	}
	for _, test := range []struct {
		name  string
		stay  []shards.Constraints
		ends  shards.Constraints
		ranks []uint64
		all   bool
	}{
		{name: "the last", all: true},
		{name: "one of two", stay: []shards.Constraints{{}}},
		{
			name: "one that used what the other excludes", stay: []shards.Constraints{{Excluded: []uint64{2}}},
			ends: shards.Constraints{Excluded: []uint64{1}}, all: true,
		},
		{
			name: "both exclude the same", stay: []shards.Constraints{{Excluded: []uint64{2}}},
			ends: shards.Constraints{Excluded: []uint64{2, 1}},
		},
		{name: "allowed", ends: shards.Constraints{Allowed: []uint64{3, 1, 2}, Excluded: []uint64{2}}, ranks: []uint64{1, 3}},
		{
			name: "allowed, of which others cover one", stay: []shards.Constraints{{Allowed: []uint64{1}}},
			ends: shards.Constraints{Allowed: []uint64{1, 2}}, ranks: []uint64{2},
		},
		{
			name: "allowed, beside one that may use all but one", stay: []shards.Constraints{{Excluded: []uint64{2}}},
			ends: shards.Constraints{Allowed: []uint64{1, 2}}, ranks: []uint64{2},
		},
		{name: "pinned", ends: shards.Constraints{Pinned: true, Pin: lifecycle.RankID{Worker: 1}}, ranks: []uint64{1}},
		{
			name: "pinned beside an equal", stay: []shards.Constraints{{Pinned: true, Pin: lifecycle.RankID{Worker: 1}}},
			ends: shards.Constraints{Pinned: true, Pin: lifecycle.RankID{Worker: 1}},
		},
		{
			name: "pinned to what it may not use",
			ends: shards.Constraints{Pinned: true, Pin: lifecycle.RankID{Worker: 1}, Excluded: []uint64{1}},
		},
		{
			name: "other taints", stay: []shards.Constraints{{RequiredTaints: []string{"a"}}},
			ends: shards.Constraints{RequiredTaints: []string{"b", "a"}}, all: true,
		},
	} {
		var g Guards
		g.Reset(w)
		g.Begin(0, &test.ends)
		for i := range test.stay {
			g.Begin(0, &test.stay[i])
		}
		ranks, all := free(&g, &test.ends)
		require.Equal(t, test.ranks, ranks, test.name)
		require.Equal(t, test.all, all, test.name)
		for i := range test.stay {
			free(&g, &test.stay[i])
		}
		require.False(t, g.Binds(1), test.name)
		require.Equal(t, []guarding{{}, {}}, stripped(&g), test.name)
	}
}

// stripped is what is left of the guards but for maps that are empty.
func stripped(g *Guards) []guarding {
	for i := range g.classes {
		if len(g.classes[i].tainted) == 0 {
			g.classes[i].tainted = nil
		}
	}
	return g.classes
}

// An allowed set that is large is freed at once.
func TestGuardsThatEndWithManyRanks(t *testing.T) {
	t.Parallel()
	w := strictFleet(t, 2_048)
	var g Guards
	g.Reset(w)
	c := shards.Constraints{}
	for id := range uint64(1_024) {
		c.Allowed = append(c.Allowed, id)
	}
	require.Equal(t, 1_024, g.Begin(0, &c))
	var freed []*lifecycle.RankID
	g.End(0, &c, func(rank *lifecycle.RankID) { freed = append(freed, rank) })
	require.Equal(t, []*lifecycle.RankID{nil}, freed)
}
