package shards

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// An edge's holders against a map, in all sizes and back.
func TestHoldersAgainstAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		most := []int32{4, 9, 70, 1000}[seed%4]
		p, e, want := newPrefixes(), newEdge(1, []uint64{1, 2}, 2), map[int32]bool{}
		key := edgeKey{0, 1}
		p.edges.Store(key, e)
		wide := false
		for step := range 2000 {
			s := &Shard{}
			number := 1 + rnd.Int32N(most)
			s.seat.word.Store(uint64(number))
			grows := step/250%2 == 0
			switch {
			case !want[number] && (grows || rnd.IntN(4) == 0):
				if !e.enter(number) {
					t.Fatal("a live edge says that it is gone")
				}
				want[number] = true
			case want[number] && (!grows || rnd.IntN(4) == 0):
				if !p.leave(key, e, s) {
					t.Fatal("a live edge says that it is gone")
				}
				delete(want, number)
			}
			if e.mu.gone {
				if len(want) > 0 || e.enter(number) || p.Len() != 0 {
					t.Fatalf("seed %d: the edge is gone with %d holders, or can be entered or found", seed, len(want))
				}
				e = newEdge(1, []uint64{1, 2}, 2)
				p.edges.Store(key, e)
			}
			h := e.holders.Load()
			wide = wide || h.words != nil
			if int(h.count.Load()) != len(want) || h.words != nil && len(want) <= fewAgain {
				t.Fatalf("seed %d: %d of %d holders, bitmap: %t", seed, h.count.Load(), len(want), h.words != nil)
			}
			got := map[int32]bool{}
			h.each(func(number int32) bool { got[number] = true; return true })
			if !maps.Equal(got, want) {
				t.Fatalf("seed %d: holders %v, not %v", seed, got, want)
			}
			for number := int32(1); number <= most+64; number += 1 + int32(step%7) {
				if h.has(number) != want[number] {
					t.Fatalf("seed %d: has %d: %t", seed, number, h.has(number))
				}
			}
		}
		if wide != (most > fewHolders) {
			t.Fatalf("seed %d: a bitmap: %t", seed, wide)
		}
	}
}

// Ranks enter and leave one edge, which grows and shrinks; whoever stays is seen
// all the time.
func TestHoldersWhoStayAreSeen(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 60
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	env := &Env{Now: func() int64 { return 0 }}
	ranks := make([]*Shard, 80)
	for i := range ranks {
		ranks[i] = NewShard(lifecycle.RankID{Worker: uint64(i)}, env)
	}
	book := func(s *Shard) *lifecycle.Booking {
		b := &lifecycle.Booking{Tokens: 1, Tracked: true, Expected: lifecycle.NoDuration}
		s.Lock()
		s.BookLocked(b, []uint64{1, 2, 3})
		s.Unlock()
		return b
	}
	// Those that stay come neither first nor last.
	for _, s := range ranks[:3] {
		book(s)
	}
	stays := ranks[40]
	book(stays)
	for _, s := range ranks[:3] {
		s.Lock()
		for b := range s.BookingsLocked() {
			s.ReleaseLocked(b)
		}
		s.Unlock()
	}
	var wg sync.WaitGroup
	var stop atomic.Bool
	for part := range 2 {
		wg.Go(func() {
			for range rounds {
				var live []*lifecycle.Booking
				mine := slices.DeleteFunc(slices.Clone(ranks[part*40:part*40+40]), func(s *Shard) bool { return s == stays })
				for _, s := range mine {
					live = append(live, book(s))
				}
				for i, s := range mine {
					s.Lock()
					s.ReleaseLocked(live[i])
					s.Unlock()
				}
			}
		})
	}
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var walk PrefixWalk
			for !stop.Load() {
				walk.Find(env.Prefixes(), []uint64{1, 2, 3, 4})
				seen := false
				for s := range walk.Each(0) {
					seen = seen || s == stays
				}
				if depth := walk.Depth(stays); depth != 3 || !seen {
					t.Errorf("the rank that stays holds %d; met among the holders: %t", depth, seen)
					return
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	readers.Wait()
}

// A rank that takes the seat of one that died is not mistaken for it by who looked
// before; and however many ranks come and go, there are no more seats than ranks.
func TestSeatsAreUsedAgain(t *testing.T) {
	t.Parallel()
	env := &Env{Now: func() int64 { return 0 }}
	booking := func() *lifecycle.Booking {
		return &lifecycle.Booking{Tokens: 1, Tracked: true, Expected: lifecycle.NoDuration}
	}
	path := []uint64{1, 2, 3}
	steady, old := NewShard(lifecycle.RankID{Worker: 1}, env), NewShard(lifecycle.RankID{Worker: 2}, env)
	steady.Lock()
	steady.BookLocked(booking(), path)
	steady.Unlock()
	var walk PrefixWalk
	for i := range uint64(1000) {
		old.Lock()
		old.BookLocked(booking(), path)
		number := old.seat.load()
		walk.Find(env.Prefixes(), path)
		found := walk.levels[0].edge.holders.Load()
		seen := newEdge(9, path, 3) // as of now
		seen.copyHolders(found)
		release := func() {
			for b := range old.BookingsLocked() {
				old.ReleaseLocked(b)
			}
		}
		if i%2 == 0 { // as a pool drops it, or idle
			old.KillLocked()
			release()
		} else {
			release()
			old.KillLocked()
		}
		old.Unlock()
		next := NewShard(lifecycle.RankID{Worker: 3 + i}, env)
		next.Lock()
		next.BookLocked(booking(), []uint64{7})
		if got := next.seat.load(); got != number {
			t.Fatalf("the seat %d is not used again, but %d", number, got)
		}
		next.Unlock()
		walk.levels[0].edge = seen
		if depth := walk.Depth(next); depth != 0 {
			t.Fatalf("a rank has %d blocks of the one whose seat it got", depth)
		}
		if depth := walk.Depth(steady); depth != 3 {
			t.Fatalf("a rank that does not change has %d blocks", depth)
		}
		old = next
	}
	if last := env.Prefixes().seats.mu.last; last != 2 {
		t.Fatalf("%d seats for 2 ranks", last)
	}
}
