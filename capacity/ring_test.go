package capacity

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// source is something whose load changes under its lock.
type source struct {
	id   int
	mu   sync.Mutex
	mark Mark
	load atomic.Int64 // version; written under mu
	seen int64        // the drainer's
}

func newRing(size, sources int) (*Ring[*source], []*source) {
	all := make([]*source, sources)
	for i := range all {
		all[i] = &source{id: i}
	}
	return NewRing(size, func(s *source) *Mark { return &s.mark }), all
}

// drain returns the ids that were visited, and whether the rest is to be visited
// too. Each mark must be clear by the time of the visit.
func drain(t *testing.T, r *Ring[*source]) (visited []int, overflowed bool) {
	t.Helper()
	overflowed = r.Drain(func(s *source) {
		if s.mark.Set() {
			t.Errorf("source %d is visited with its mark set", s.id)
		}
		visited = append(visited, s.id)
	})
	return visited, overflowed
}

func TestHintsComeOutInOrderAndOnce(t *testing.T) {
	t.Parallel()
	r, sources := newRing(DefaultSize, 4)
	if r.Pending() || sources[0].mark.Set() {
		t.Fatal("a new ring has something under way")
	}
	for _, i := range []int{2, 0, 2, 3, 0, 2} {
		r.Record(sources[i])
		if !sources[i].mark.Set() || !r.Pending() {
			t.Fatalf("source %d was recorded without a mark", i)
		}
	}
	if r.marked.Load() != 3 {
		t.Fatalf("%d marks are counted", r.marked.Load())
	}
	if got, overflowed := drain(t, r); overflowed || !slices.Equal(got, []int{2, 0, 3}) {
		t.Fatalf("got %v, overflow: %t", got, overflowed)
	}
	if r.Pending() {
		t.Fatal("something is still under way")
	}
	if got, overflowed := drain(t, r); overflowed || got != nil {
		t.Fatalf("got %v, overflow: %t", got, overflowed)
	}
	// And once more, now that the marks are clear.
	r.Record(sources[2])
	if got, _ := drain(t, r); !slices.Equal(got, []int{2}) {
		t.Fatalf("got %v", got)
	}
}

func TestRingOverflowsWithOneSourceTooMany(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sources int
		want    bool
	}{{DefaultSize - 1, false}, {DefaultSize, false}, {DefaultSize + 1, true}, {3 * DefaultSize, true}} {
		t.Run(fmt.Sprint(test.sources), func(t *testing.T) {
			t.Parallel()
			r, sources := newRing(DefaultSize, test.sources)
			for range 2 {
				for _, s := range sources {
					r.Record(s)
				}
				visited, overflowed := drain(t, r)
				if overflowed != test.want {
					t.Fatalf("overflow: %t", overflowed)
				}
				if len(visited) != min(test.sources, DefaultSize) {
					t.Fatalf("visited %d", len(visited))
				}
				if overflowed {
					if !r.Pending() {
						t.Fatal("nothing is under way, but not all were visited")
					}
					r.ClearAll(slices.Values(sources))
				}
				// Marks, count and flag are as new: it overflows as late as before.
				if r.Pending() || r.marked.Load() != 0 {
					t.Fatalf("%d marks are counted", r.marked.Load())
				}
			}
			if got := r.Overflows() != 0; got != test.want {
				t.Fatalf("%d overflows", r.Overflows())
			}
		})
	}
}

func TestRingHasRoomForOneAtLeast(t *testing.T) {
	t.Parallel()
	for _, size := range []int{-1, 0, 1} {
		r, sources := newRing(size, 2)
		r.Record(sources[0])
		r.Record(sources[1])
		if got, overflowed := drain(t, r); !overflowed || !slices.Equal(got, []int{0}) {
			t.Fatalf("size %d: got %v, overflow: %t", size, got, overflowed)
		}
	}
}

func TestForgetLeavesNothingOfASource(t *testing.T) {
	t.Parallel()
	r, sources := newRing(DefaultSize, 2)
	r.Record(sources[0])
	r.Forget(sources[0])
	r.Forget(sources[0])
	if sources[0].mark.Set() || r.marked.Load() != 0 {
		t.Fatalf("still marked, %d counted", r.marked.Load())
	}
	// What it left in the ring is a visit too many, and no overflow.
	r.Record(sources[1])
	if got, overflowed := drain(t, r); overflowed || !slices.Equal(got, []int{0, 1}) {
		t.Fatalf("got %v, overflow: %t", got, overflowed)
	}
	if r.Pending() {
		t.Fatal("something is still under way")
	}
}

// A pop that finds nothing while a mark is set proves nothing: the producer may
// stand between the mark and its push.
func TestMarkWithoutHintCountsAsOverflow(t *testing.T) {
	t.Parallel()
	r, sources := newRing(DefaultSize, 2)
	r.marked.Add(1)
	sources[0].mark.set.Store(true) // the first half of Record
	if !r.Pending() {
		t.Fatal("nothing is under way")
	}
	if _, overflowed := drain(t, r); !overflowed {
		t.Fatal("the producer in between was missed")
	}
	r.ClearAll(slices.Values(sources))
	r.queue.TryEnqueue(sources[0]) // the second half, late: a hint too many
	r.Record(sources[0])           // and a new one beside it
	if got, overflowed := drain(t, r); overflowed || !slices.Equal(got, []int{0, 0}) {
		t.Fatalf("got %v, overflow: %t", got, overflowed)
	}
	if r.marked.Load() != 0 {
		t.Fatalf("%d marks are counted", r.marked.Load())
	}
}

func TestRingAllocatesNothing(t *testing.T) {
	r, sources := newRing(8, 9)
	visits := 0
	visit := func(*source) { visits++ }
	all := slices.Values(sources)
	if n := testing.AllocsPerRun(100, func() {
		for _, s := range sources {
			r.Record(s)
			r.Record(s)
		}
		if r.Drain(visit) {
			r.ClearAll(all)
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	if visits == 0 {
		t.Fatal("nothing was visited")
	}
}

// Producers change loads under their locks and record them; at the end the
// drainer must have read the last load of every source. More sources than the
// ring holds, fewer, and one that all fight for.
func TestNoHintIsLostUnderHammering(t *testing.T) {
	n := 60_000
	if testing.Short() {
		n /= 20
	}
	for _, procs := range []int{1, 2, 4, 8} {
		for _, sources := range []int{1, 3, DefaultSize + 1, 4 * DefaultSize} {
			t.Run(fmt.Sprintf("%d procs, %d sources", procs, sources), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				hammer(t, n, sources)
			})
		}
	}
}

func hammer(t *testing.T, n, sources int) {
	const producers = 4
	r, all := newRing(DefaultSize, sources)
	// Whoever recorded has the ring drained: by itself or by whoever is at it.
	var turn sync.Mutex
	var kicks, drained atomic.Int64
	drains := 0 // under turn
	drainAll := func(probe *source) {
		drains++
		// What was recorded before a drain is seen by it.
		probe.mu.Lock()
		owed := probe.load.Load()
		probe.mu.Unlock()
		if drains%3 == 0 {
			runtime.Gosched() // let hints pile up
		}
		if r.Drain(func(s *source) { s.seen = s.load.Load() }) {
			r.ClearAll(slices.Values(all))
			for _, s := range all {
				s.seen = s.load.Load()
			}
		}
		if probe.seen < owed {
			t.Errorf("drain %d: source %d was at %d, seen %d", drains, probe.id, owed, probe.seen)
		}
	}
	enter := func(probe *source) {
		kicks.Add(1)
		for drained.Load() != kicks.Load() && turn.TryLock() {
			upTo := kicks.Load()
			drainAll(probe)
			drained.Store(upTo)
			turn.Unlock()
		}
	}
	var running sync.WaitGroup
	for p := range producers {
		running.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(p), uint64(sources)))
			for range n / producers {
				s := all[rnd.IntN(sources)]
				s.mu.Lock()
				s.load.Add(1)
				r.Record(s)
				s.mu.Unlock()
				if rnd.IntN(4) == 0 {
					enter(s)
				}
			}
			enter(all[0])
		})
	}
	running.Wait()
	for _, s := range all {
		if s.seen != s.load.Load() {
			t.Errorf("source %d is at %d, seen %d", s.id, s.load.Load(), s.seen)
		}
	}
	if r.Pending() || r.marked.Load() != 0 {
		t.Errorf("something is still under way: %d marks, flag %t", r.marked.Load(), r.overflow.Load())
	}
	t.Logf("%d drains, %d overflows", drains, r.Overflows())
}
