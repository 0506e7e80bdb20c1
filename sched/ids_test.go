package sched

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Against a map, while the table grows and shrinks.
func TestIDsAgainstAMap(t *testing.T) {
	t.Parallel()
	table := ids{seed: maphash.MakeSeed()}
	want := map[string]*record{}
	gone := map[string]*record{}
	rnd := rand.New(rand.NewPCG(1, 1))
	for step := range 200_000 {
		id := fmt.Sprint(rnd.IntN(40_000))
		// By turns there are more who come and more who go.
		if rnd.IntN(10) < 2+6*(step/50_000%2) {
			rec := &record{}
			rec.ID = id
			_, taken := want[id]
			require.Equal(t, !taken, table.claim(rec))
			if !taken {
				want[id] = rec
			}
		} else if rec := want[id]; rec != nil {
			table.unclaim(rec)
			delete(want, id)
			gone[id] = rec
		} else if rec := gone[id]; rec != nil {
			table.unclaim(rec) // once more
		}
		require.True(t, want[id] == table.find(id))
	}
	require.Equal(t, len(want), table.len())
	for id, rec := range want {
		require.Same(t, rec, table.find(id))
		table.unclaim(rec)
	}
	require.Zero(t, table.len())
	for i := range table.stripes {
		require.LessOrEqual(t, len(table.stripes[i].buckets), minBuckets, "it shrinks after a spike")
	}
}

// A record that lost its id before does not free it for another's.
func TestUnclaimFreesOnesOwnIDOnly(t *testing.T) {
	t.Parallel()
	table := ids{seed: maphash.MakeSeed()}
	first, second := &record{}, &record{}
	first.ID, second.ID = "r", "r"
	require.True(t, table.claim(first))
	require.False(t, table.claim(second))
	table.unclaim(first)
	require.True(t, table.claim(second))
	table.unclaim(first)
	require.Same(t, second, table.find("r"))
}

// Many contend for few ids: each is held by one at a time.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	table := ids{seed: maphash.MakeSeed()}
	var held [8]int // guarded by having claimed the id; the race detector watches
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(caller), 1))
			for range 2000 {
				n := rnd.IntN(len(held))
				rec := &record{}
				rec.ID = fmt.Sprint(n)
				if table.claim(rec) {
					held[n]++
					table.find(rec.ID)
					table.unclaim(rec)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, table.len())
}
