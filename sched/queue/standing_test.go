package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A class with one lane that can run is served in the order of its standings.
func TestStandingsAreTheOrderOfService(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 1))
	for round := range 300 {
		spec := ClassSpec{Order: Order(r.IntN(3)), Quantum: 1}
		if r.IntN(2) == 0 {
			spec.MaxAge = int64(1 + r.IntN(20))
		}
		b := newBench(t, spec)
		b.now = 20
		var entries []*Entry[string]
		for i := range 1 + r.IntN(20) {
			e := named(fmt.Sprint(i), uint64(i+1), cost(int64(1+r.IntN(5))))
			e.Arrival, e.Priority, e.Jump = int64(r.IntN(20)), uint32(r.IntN(2)), int64(r.IntN(3))
			if r.IntN(3) == 0 {
				e.Due = int64(21 + r.IntN(5))
			}
			entries = append(entries, e)
			b.Add(0, e)
		}
		slices.SortFunc(entries, func(x, y *Entry[string]) int {
			if StandingOf(spec, x, b.now).Before(StandingOf(spec, y, b.now)) {
				return -1
			}
			return 1
		})
		for _, want := range entries {
			got := b.next()
			if got != want {
				t.Fatalf("round %d: served %s, want %s", round, got.Value, want.Value)
			}
			b.Commit()
		}
	}
}
