package replay

import (
	"context"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// floorSlack is how many more requests than the least a rank may have and still
// be chosen for what it has cached.
const floorSlack = 4

// Floor is an engine that costs next to nothing: under one lock it places each request
// on the rank that holds most of its prompt, or if that has many more requests than
// others on the one with the fewest, and no request ever waits. It shows what the
// replay itself costs. It has of an engine what a replay calls.
type Floor struct {
	engine.Engine // nil: what is not below must not be called

	mu struct {
		sync.Mutex
		ranks  []sched.RankID
		places map[sched.RankID]int
		counts []int64
		from   int // where the search for the least begins, so that ties rotate
		live   map[string]int
	}
}

// NewFloor returns a Floor without workers.
func NewFloor() *Floor {
	f := &Floor{}
	f.mu.live = make(map[string]int)
	return f
}

// SetWorkers implements engine.Engine. It must be called before any Schedule.
func (f *Floor) SetWorkers(workers []sched.Worker) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ranks, f.mu.places = nil, make(map[sched.RankID]int)
	for _, w := range workers {
		for i := range w.Ranks {
			id := sched.RankID{Worker: w.ID, Rank: w.StartRank + i}
			f.mu.places[id] = len(f.mu.ranks)
			f.mu.ranks = append(f.mu.ranks, id)
		}
	}
	f.mu.counts = make([]int64, len(f.mu.ranks))
	return nil
}

// Schedule implements engine.Engine.
func (f *Floor) Schedule(_ context.Context, r *sched.Request) (engine.Booking, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.mu.counts)
	if n == 0 {
		return nil, &sched.Error{Code: sched.ErrNoEndpoints, Request: r.ID}
	}
	f.mu.from = (f.mu.from + 1) % n
	best := f.mu.from
	for i := range n {
		if at := (f.mu.from + i) % n; f.mu.counts[at] < f.mu.counts[best] {
			best = at
		}
	}
	longest := 0.0
	for _, o := range r.Overlaps {
		if at := f.mu.places[o.Rank]; o.Device > longest && f.mu.counts[at] <= f.mu.counts[best]+floorSlack {
			longest, best = o.Device, at
		}
	}
	f.mu.counts[best]++
	f.mu.live[r.ID] = best
	return &floorBooking{floor: f, id: r.ID, rank: f.mu.ranks[best]}, nil
}

// Release implements engine.Engine.
func (f *Floor) Release(id string, _ uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.mu.live[id]
	if !ok {
		return sched.ErrNotFound
	}
	delete(f.mu.live, id)
	f.mu.counts[at]--
	return nil
}

// Loads implements engine.Engine.
func (f *Floor) Loads() []sched.RankLoad {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]sched.RankLoad, len(f.mu.ranks))
	for i := range out {
		out[i] = sched.RankLoad{Rank: f.mu.ranks[i], Requests: f.mu.counts[i]}
	}
	return out
}

// Stats implements engine.Engine.
func (f *Floor) Stats() sched.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return sched.Stats{Live: int64(len(f.mu.live))}
}

// Settle implements engine.Engine.
func (f *Floor) Settle(context.Context) error { return nil }

// Close implements engine.Engine.
func (f *Floor) Close() error { return nil }

type floorBooking struct {
	engine.Booking // nil, as in Floor

	floor *Floor
	id    string
	rank  sched.RankID
}

// ID implements engine.Booking.
func (b *floorBooking) ID() string { return b.id }

// Placement implements engine.Booking.
func (b *floorBooking) Placement() sched.Placement { return sched.Placement{Rank: b.rank, Attempt: 1} }

// PrefillDone implements engine.Booking.
func (b *floorBooking) PrefillDone() error { return nil }

// AddOutputBlock implements engine.Booking.
func (b *floorBooking) AddOutputBlock() error { return nil }

// Release implements engine.Booking.
func (b *floorBooking) Release() error { return b.floor.Release(b.id, 0) }
