package shards

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// LiveHeap returns how many bytes are reachable.
func LiveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what only a finalizer held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Short prompts that stay must not keep the hashes of long ones that have gone.
func TestEdgesLetGoOfLongPrompts(t *testing.T) {
	env := &Env{Now: func() int64 { return 0 }}
	s := NewShard(lifecycle.RankID{Worker: 1}, env)
	before := LiveHeap()
	var kept []*lifecycle.Booking
	for i := range 500 {
		path := make([]uint64, 10000)
		for j := range path {
			path[j] = uint64(i*100000 + j)
		}
		long, short := &lifecycle.Booking{}, &lifecycle.Booking{}
		s.Lock()
		s.BookLocked(long, path)
		s.BookLocked(short, path[:1])
		s.ReleaseLocked(long)
		s.Unlock()
		kept = append(kept, short)
	}
	after := LiveHeap()
	if after > before && (after-before)>>20 > 2 {
		t.Errorf("%d bookings of one block each keep %d MiB", len(kept), (after-before)>>20)
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(env)
}

// Of bookings that have ended nothing stays, on the ranks and in the index, however
// long their prompts were and whatever these shared.
func TestReleasedPromptsLeaveNothing(t *testing.T) {
	const ranks, bookings, blocks = 200, 40, 500
	env := &Env{Now: func() int64 { return 0 }}
	all := make([]*Shard, ranks)
	for i := range all {
		all[i] = NewShard(lifecycle.RankID{Worker: uint64(i)}, env)
	}
	before := LiveHeap()
	path := make([]uint64, blocks)
	for i, s := range all {
		var live []*lifecycle.Booking
		for k := range bookings {
			for j := range path {
				if path[j] = uint64(j); j > 20 {
					path[j] = uint64(i*bookings+k)<<32 | uint64(j)
				}
			}
			b := &lifecycle.Booking{}
			s.Lock()
			s.BookLocked(b, path)
			s.Unlock()
			live = append(live, b)
		}
		if i%2 == 0 {
			defer func() { runtime.KeepAlive(live) }() // nor in a record that somebody still has
		}
		for _, b := range live {
			s.Lock()
			s.ReleaseLocked(b)
			s.Unlock()
		}
	}
	records := uint64(ranks / 2 * bookings * int(unsafe.Sizeof(lifecycle.Booking{})+16))
	if after := LiveHeap(); after > before+records+ranks*512 {
		t.Errorf("%d bytes stay for each rank", (after-before-records)/ranks)
	}
	runtime.KeepAlive(env)
	runtime.KeepAlive(all)
}

// The same while long and short prompts come and go, so that edges are split and
// tightened while others hold and look for them: in the end the index says of each
// rank what the rank says itself, and nothing is left.
func TestEdgesAreTightenedUnderHammering(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 12
	}
	for round := range rounds {
		env := &Env{Now: func() int64 { return 0 }}
		const ranks = 4
		var ss [ranks]*Shard
		for i := range ss {
			ss[i] = NewShard(lifecycle.RankID{Worker: uint64(i)}, env)
		}
		path := func(r *rand.Rand) []uint64 {
			n := 1 + r.IntN(40)
			if r.IntN(2) == 0 {
				n = 1 + r.IntN(400)
			}
			p := make([]uint64, n)
			for i := range p {
				p[i] = uint64(i + 1)
			}
			if k := r.IntN(n + 1); k < n {
				for i := k; i < n; i++ {
					p[i] += 1000 * uint64(k+1) * uint64(1+r.IntN(2))
				}
			}
			return p
		}
		var stop atomic.Bool
		var wg, rg sync.WaitGroup
		live := [ranks][]*lifecycle.Booking{}
		for w := range ranks {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(round), uint64(w)))
				s := ss[w]
				for range 150 {
					if len(live[w]) < 6 && r.IntN(2) == 0 {
						b := &lifecycle.Booking{Tracked: true, Tokens: 5, Expected: -1}
						p := path(r)
						s.Lock()
						s.BookLocked(b, p)
						s.Unlock()
						live[w] = append(live[w], b)
					} else if len(live[w]) > 0 {
						i := r.IntN(len(live[w]))
						s.Lock()
						s.ReleaseLocked(live[w][i])
						s.Unlock()
						live[w] = append(live[w][:i], live[w][i+1:]...)
					}
				}
			})
		}
		rg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(round), 99))
			var walk PrefixWalk
			for !stop.Load() {
				if p := env.Prefixes(); p != nil {
					walk.Find(p, path(r))
				}
			}
		})
		wg.Wait()
		stop.Store(true)
		rg.Wait()
		r := rand.New(rand.NewPCG(uint64(round), 98))
		for range 100 {
			q := path(r)
			var walk PrefixWalk
			walk.Find(env.Prefixes(), q)
			for w, s := range ss {
				depth := walk.Depth(s)
				s.Lock()
				want := s.LivePrefixLocked(q)
				s.Unlock()
				if depth != want {
					t.Fatalf("round %d rank %d: index %d, rank %d", round, w, depth, want)
				}
			}
		}
		for w, s := range ss {
			for _, b := range live[w] {
				s.Lock()
				s.ReleaseLocked(b)
				s.Unlock()
			}
		}
		if n := env.Prefixes().Len(); n != 0 {
			t.Fatalf("round %d: %d edges left", round, n)
		}
	}
}
