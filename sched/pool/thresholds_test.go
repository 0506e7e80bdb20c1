package pool

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Worlds that follow one another with other workers, flags and profiles say of each
// rank and class what the rules say.
func TestThresholdsFollowTableAndProfile(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(4, 2))
	profiles := []*policy.Profile{profile(t), manyClasses(t, 3)}
	f := newFleet(t)
	differ := 0
	for step := range 1500 {
		world := *f.world
		switch rnd.IntN(8) {
		case 0:
			world.Profile = profiles[rnd.IntN(2)]
		case 1:
			world.Table = world.Table.WithOverloaded([]uint64{rnd.Uint64N(6)})
		case 2:
			if next, _, ok := world.Table.Without(rnd.Uint64N(6)); ok {
				world.Table = next
			}
		default:
			w := shards.Worker{ID: rnd.Uint64N(6), Ranks: 1, MaxBatchedTokens: 100 + 50*(rnd.Int64N(4)/3), TotalKVBlocks: rnd.Int64N(2000) / 1990}
			if step%100 > 50 {
				w.MaxBatchedTokens = 1 + rnd.Int64N(1000) // many kinds, mostly of workers that were
			}
			next, _, err := world.Table.With([]shards.Worker{w}, f.newShard)
			require.NoError(t, err)
			world.Table = next
		}
		before := f.world
		f.world = world.Made()
		if before.Profile == f.world.Profile && before.Table == f.world.Table {
			require.Same(t, before.busy, f.world.busy)
		}
		class := rnd.IntN(f.world.Profile.Len()) // of the others some were computed for an earlier table
		rules := f.world.Profile.Class(class)
		slots := f.world.Table.Slots()
		most, want := f.world.busyWhatever(class), lifecycle.BusyAbove{}
		for i := range slots {
			w := slots[i].Worker
			above := busyAbove(rules, &shards.Kind{MaxBatchedTokens: w.MaxBatchedTokens, TotalKVBlocks: w.TotalKVBlocks})
			require.Equal(t, above, *f.world.BusyAbove(class, &slots[i]))
			want.Prefill, want.Requests, want.Blocks = max(want.Prefill, above.Prefill), max(want.Requests, above.Requests), max(want.Blocks, above.Blocks)
			if above != *f.world.BusyAbove(class, &slots[0]) {
				differ++
			}
		}
		require.Equal(t, want, *most)
	}
	require.Greater(t, differ, 100)
}

// A world with another table computes nothing for the classes of its profile, and a
// look at all ranks only for its own class. All were computed for each worker: with
// 1,000 classes and 512 ranks 12 MB.
func TestWorldsDoNotPayForIdleClasses(t *testing.T) {
	workers := make([]shards.Worker, 512)
	for i := range workers {
		workers[i] = shards.Worker{ID: uint64(i), Ranks: 1, MaxBatchedTokens: int64(1000 + i%2)}
	}
	f := newFleet(t, workers...)
	world := *f.world
	world.Profile = manyClasses(t, 1000)
	f.world = world.Made()
	look, r := &Look{}, &Request{ISL: 4, Tracked: true, Params: params()}
	for id := range uint64(4) {
		next := *f.world
		next.Table = next.Table.WithOverloaded([]uint64{id})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f.world = next.Made()
		look.TakeAll(f.world, r, 1, At(0))
		look.TakeAll(f.world, r, 700, At(0))
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; id > 0 && bytes > 4096 {
			t.Errorf("world %d takes %d bytes", id, bytes)
		}
	}
	computed := 0
	for class := range f.world.busy.classes {
		if f.world.busy.classes[class].Load() != nil {
			computed++
		}
	}
	require.Equal(t, 2, computed)
}

// manyClasses is a profile of so many classes with a threshold that depends on the
// worker.
func manyClasses(t testing.TB, n int) *policy.Profile {
	var text strings.Builder
	text.WriteString("default_policy_family: c0\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes:\n" +
		"  - {name: c0, policy_family: c0, cache_bucket: all, quantum: 1, prefill_busy_threshold_frac: 0.25}\n")
	for i := range n - 1 {
		fmt.Fprintf(&text, "  - {name: c%d, quantum: 1, prefill_busy_threshold_frac: 0.5}\n", i+1)
	}
	file, err := policy.Parse([]byte(text.String()))
	require.NoError(t, err)
	return file.For("")
}
