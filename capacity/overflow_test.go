package capacity

import (
	"slices"
	"testing"
)

// Sources that overflow the ring while it is drained are heard of in the next
// drain at the latest.
func TestOverflowDuringADrainIsSeenByTheNext(t *testing.T) {
	t.Parallel()
	r, sources := newRing(2, 6)
	heard := make(map[int]bool)
	drains := func() (overflowed bool) {
		return r.Drain(func(s *source) {
			heard[s.id] = true
			if s.id == 0 {
				for _, other := range sources[1:] {
					r.Record(other) // the ring is empty: two fit in
				}
			}
		})
	}
	r.Record(sources[0])
	overflowed := drains()
	if r.Pending() {
		overflowed = drains() || overflowed
	}
	if !overflowed {
		t.Fatalf("no overflow, and only %d of %d sources were heard of", len(heard), len(sources))
	}
	r.ClearAll(slices.Values(sources))
	if r.Pending() {
		t.Fatal("something is still under way")
	}
}
