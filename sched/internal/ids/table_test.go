package ids

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

type record struct {
	id    string
	entry Entry[*record]
}

func newTable() *Table[*record] { return New(func(r *record) string { return r.id }) }

// Against a map, while the table grows and shrinks.
func TestIDsAgainstAMap(t *testing.T) {
	t.Parallel()
	table := newTable()
	want := map[string]*record{}
	gone := map[string]*record{}
	rnd := rand.New(rand.NewPCG(1, 1))
	for step := range 200_000 {
		id := fmt.Sprint(rnd.IntN(40_000))
		// By turns there are more who come and more who go.
		if rnd.IntN(10) < 2+6*(step/50_000%2) {
			rec := &record{id: id}
			_, taken := want[id]
			require.Equal(t, !taken, table.Claim(rec, &rec.entry))
			if !taken {
				want[id] = rec
			}
		} else if rec := want[id]; rec != nil {
			table.Free(&rec.entry)
			delete(want, id)
			gone[id] = rec
		} else if rec := gone[id]; rec != nil {
			table.Free(&rec.entry) // once more
		}
		require.True(t, want[id] == table.Find(id))
	}
	require.Equal(t, len(want), table.Len())
	for id, rec := range want {
		require.Same(t, rec, table.Find(id))
		table.Free(&rec.entry)
	}
	require.Zero(t, table.Len())
	for i := range table.stripes {
		require.LessOrEqual(t, len(table.stripes[i].buckets), minBuckets, "it shrinks after a spike")
	}
}

// A record that lost its id before does not free it for another's.
func TestFreeFreesOnlyTheEntrysID(t *testing.T) {
	t.Parallel()
	table := newTable()
	first, second := &record{id: "r"}, &record{id: "r"}
	require.True(t, table.Claim(first, &first.entry))
	require.False(t, table.Claim(second, &second.entry))
	table.Free(&first.entry)
	require.True(t, table.Claim(second, &second.entry))
	table.Free(&first.entry)
	require.Same(t, second, table.Find("r"))
}

// Many contend for few ids: each is held by one at a time.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	table := newTable()
	var held [8]int // guarded by having claimed the id; the race detector watches
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(caller), 1))
			for range 2000 {
				n := rnd.IntN(len(held))
				rec := &record{id: fmt.Sprint(n)}
				if table.Claim(rec, &rec.entry) {
					held[n]++
					table.Find(rec.id)
					table.Free(&rec.entry)
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, table.Len())
}

// Attempts of one id grow, whoever claims it.
func TestAttemptsGrow(t *testing.T) {
	t.Parallel()
	table := newTable()
	last := uint64(0)
	for range 100 {
		rec := &record{id: "r"}
		require.True(t, table.Claim(rec, &rec.entry))
		for range 3 {
			next := table.NextAttempt(&rec.entry)
			require.Greater(t, next, last)
			last = next
		}
		table.Free(&rec.entry)
	}
}

func BenchmarkClaimAndFree(b *testing.B) {
	table := newTable()
	rec := &record{id: "a request"}
	b.ReportAllocs()
	for b.Loop() {
		table.Claim(rec, &rec.entry)
		table.Free(&rec.entry)
	}
}
