package pool

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Whatever lanes guard, a rank is guarded for a class just if one of another class may
// use it and calls it busy by its prefill; it is not chosen then, and counts for the
// gate, also in a pool that has a load index.
func TestGuardsAgainstEachRank(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(12, 1))
	guarded, waits := 0, 0
	for range 400 {
		f := newFleet(t)
		workers := make([]shards.Worker, 1+rnd.IntN(2*shards.IndexedFrom))
		for i := range workers {
			workers[i] = shards.Worker{ID: uint64(i), Ranks: 1 + rnd.Uint32N(2)}
		}
		f.setWorkers(workers...)
		f.change(func(table *shards.Table) *shards.Table { return table.WithOverloaded([]uint64{rnd.Uint64N(8)}) })
		cfg := f.world.Profile.Config()
		for i := range cfg.Classes {
			c := &cfg.Classes[i]
			if c.HasPrefillThreshold() && c.BusyWorkerRatio == 0 && rnd.IntN(2) == 0 {
				c.GuardAfter = 1
			}
		}
		profile, err := policy.New(cfg)
		require.NoError(t, err)
		next := *f.world
		next.Profile = profile
		next.Index = next.Table.Reindex(nil, IndexWeights(params()))
		f.world = next.Made()
		if f.world.Index != nil {
			f.world.CountBusy(nil)
			f.world.Table.Shown(f.world.Index)
		}
		for i := range f.world.Table.Slots() {
			if rnd.IntN(3) > 0 {
				f.book(f.world.Table.Slots()[i].Rank, rnd.Int64N(50), lifecycle.NoDuration)
			}
		}
		type lane struct {
			class int
			c     shards.Constraints
		}
		var lanes []lane
		var guards Guards
		guards.Reset(f.world)
		for range rnd.IntN(6) {
			l := lane{class: rnd.IntN(profile.Len())}
			if !profile.Class(l.class).Guards() {
				continue
			}
			l.c = randomRequest(rnd).Constraints
			lanes = append(lanes, l)
			guards.Begin(l.class, &l.c)
		}
		for len(lanes) > 0 && rnd.IntN(2) == 0 {
			guards.End(lanes[0].class, &lanes[0].c, func(*lifecycle.RankID) {})
			lanes = lanes[1:]
		}
		l, r := &Look{Rand: rnd, Guards: &guards}, randomRequest(rnd)
		r.Constraints.Pinned = false
		for class := range profile.Len() {
			blocked, held, eligible := 0, 0, f.eligible(r)
			barred := make(map[lifecycle.RankID]bool)
			for _, slot := range eligible {
				have, _ := load(slot.Shard, nil)
				active := have.Prefill.Active(0)
				is := false
				for _, other := range lanes {
					c := profile.Class(other.class)
					above, _ := c.BusyAbove(slot.Worker.MaxBatchedTokens)
					check := f.world.Table.CheckRank(&other.c, slot.Rank)
					uses := (check == shards.Eligible || check == shards.Overloaded) && (!other.c.Pinned || other.c.Pin == slot.Rank)
					is = is || other.class != class && uses && active > above
				}
				is = is && profile.Class(class).BoundByGuards()
				switch {
				case slot.Overloaded || f.busyFor(class, slot, active):
					blocked++
				case is:
					held++
				}
				if is {
					guarded++
					barred[slot.Rank] = true
				}
			}
			must := f.mustWait(class, blocked, len(eligible)) || held > 0 && blocked+held == len(eligible)
			if must {
				waits++
			}
			require.Equal(t, must, l.Gate(f.world, r, class, At(0), false).MustWait)
			l.Take(f.world, r, class, At(0))
			require.Equal(t, must, l.MustWait())
			for i := range l.Candidates() {
				require.False(t, barred[l.Candidate(i).Rank])
			}
		}
	}
	require.Positive(t, guarded)
	require.Positive(t, waits)
}
