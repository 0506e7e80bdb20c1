package shards_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// depths returns what the index says of a prompt: how many leading blocks each
// rank holds that holds any.
func depths(p *shards.Prefixes, blocks []uint64) map[*shards.Shard]int {
	out := map[*shards.Shard]int{}
	if p == nil {
		return out
	}
	var walk shards.PrefixWalk
	walk.Find(p, blocks)
	for level := range walk.Levels() {
		for s := range walk.Each(level) {
			out[s] = walk.Depth(s)
		}
	}
	return out
}

// sameDepths compares the index with each rank's own walk.
func sameDepths(t *testing.T, list []*shards.Shard, blocks []uint64) {
	t.Helper()
	got := depths(list[0].Prefixes(), blocks)
	for _, s := range list {
		s.Lock()
		want := s.LivePrefixLocked(blocks)
		s.Unlock()
		if got[s] != want {
			t.Fatalf("of %v rank %v holds %d, by the index %d", blocks, s.ID(), want, got[s])
		}
		delete(got, s)
	}
	if len(got) != 0 {
		t.Fatalf("of %v the index names %d ranks too many", blocks, len(got))
	}
}

func newShards(env *shards.Env, n int) []*shards.Shard {
	list := make([]*shards.Shard, n)
	for i := range list {
		list[i] = shards.NewShard(rank(uint64(i), 0), env)
	}
	return list
}

func TestPrefixesOfAFewPrompts(t *testing.T) {
	t.Parallel()
	env := timeless()
	list := newShards(env, 3)
	if env.Prefixes() != nil || list[0].Prefixes() != nil {
		t.Fatal("an index before there were blocks")
	}
	booked(list[0], tokens(1)) // a prompt without blocks needs none
	if env.Prefixes() != nil {
		t.Fatal("an index without blocks")
	}
	long := booked(list[0], tokens(1), 1, 2, 3, 4)
	booked(list[1], tokens(1), 1, 2)
	booked(list[2], tokens(1), 1, 2, 9)
	check := func() {
		t.Helper()
		for _, prompt := range [][]uint64{
			nil, {1}, {2}, {1, 2}, {1, 2, 3}, {1, 2, 3, 4}, {1, 2, 3, 4, 5}, {1, 2, 9}, {1, 2, 9, 4}, {1, 2, 4}, {3, 4}, {1, 3},
		} {
			sameDepths(t, list, prompt)
		}
	}
	check()
	shards.LockBoth(list[0], list[1])
	list[0].TransferLocked(long, list[1], 1)
	shards.UnlockBoth(list[0], list[1])
	check()
	for _, s := range list {
		s.Lock()
		for b := range s.BookingsLocked() {
			s.ReleaseLocked(b)
		}
		s.Unlock()
		check()
	}
	if env.Prefixes().Len() != 0 {
		t.Fatalf("%d are left", env.Prefixes().Len())
	}
}

func TestWithoutPrefixIndex(t *testing.T) {
	t.Parallel()
	env := timeless()
	env.NoPrefixIndex = true
	s := shards.NewShard(rank(1, 0), env)
	b := booked(s, tokens(1), 1, 2)
	s.Lock()
	defer s.Unlock()
	if env.Prefixes() != nil || s.PrefixIndexed() || s.LivePrefixLocked([]uint64{1, 2, 3}) != 2 {
		t.Fatal("there is an index, or the rank knows nothing")
	}
	s.ReleaseLocked(b)
}

// prompt draws a prompt of which many share a beginning, and which part at all
// depths.
func prompt(rnd interface{ IntN(int) int }, length int) []uint64 {
	blocks := make([]uint64, rnd.IntN(length))
	for i := range blocks {
		if rnd.IntN(4) == 0 {
			blocks[i] = uint64(rnd.IntN(2))
		}
	}
	return blocks
}

// Against each rank's own walk over its own blocks.
func TestPrefixesAgainstEachRank(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if testing.Short() {
		seeds /= 10
	}
	for seed := range seeds {
		rnd := seeded(seed)
		env := timeless()
		list, most := newShards(env, 5), 20
		if seed%3 == 2 { // more than are listed one by one
			list, most = newShards(env, 90), 200
		}
		type held struct {
			b      *lifecycle.Booking
			at     *shards.Shard
			blocks []uint64
		}
		var live []held
		deepest := 0
		for range 300 {
			switch n := rnd.IntN(6); {
			case n < 3 && len(live) < most:
				h := held{tokens(1), list[rnd.IntN(len(list))], prompt(rnd, 9)}
				booked(h.at, h.b, h.blocks...)
				live = append(live, h)
			case n < 5 && len(live) > 0:
				i := rnd.IntN(len(live))
				live[i].at.Lock()
				live[i].at.ReleaseLocked(live[i].b)
				live[i].at.Unlock()
				live = slices.Delete(live, i, i+1)
			case len(live) > 0:
				h := &live[rnd.IntN(len(live))]
				to := list[rnd.IntN(len(list))]
				shards.LockBoth(h.at, to)
				h.at.TransferLocked(h.b, to, 1)
				shards.UnlockBoth(h.at, to)
				h.at = to
			}
			probes := [][]uint64{prompt(rnd, 9), prompt(rnd, 12)}
			if len(live) > 0 {
				probes = append(probes, live[rnd.IntN(len(live))].blocks)
			}
			for _, p := range probes {
				sameDepths(t, list, p)
				for _, d := range depths(env.Prefixes(), p) {
					deepest = max(deepest, d)
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		if deepest < 4 {
			t.Fatalf("seed %d: nobody shared more than %d blocks", seed, deepest)
		}
		for _, h := range live {
			h.at.Lock()
			h.at.ReleaseLocked(h.b)
			h.at.Unlock()
		}
		if n := env.Prefixes().Len(); n != 0 {
			t.Fatalf("seed %d: %d are left", seed, n)
		}
	}
}

// One rank parts from a run of blocks that another holds, in the very moment in
// which a third comes to hold it or gives it up; each time on new blocks. Had it
// more than one thing to do, the later would cover up for the earlier.
func TestPrefixesPartWhileHeld(t *testing.T) {
	n := int64(20_000)
	patience := 10_000 // to give the processor away sooner would be too late for the moment
	if testing.Short() || invariants.Enabled {
		n, patience = n/10, patience/10
	}
	env := timeless()
	list := newShards(env, 3)
	release := func(s *shards.Shard, b *lifecycle.Booking) {
		s.Lock()
		s.ReleaseLocked(b)
		s.Unlock()
	}
	var parted []uint64
	var parting *lifecycle.Booking
	var round, done atomic.Int64
	var walk shards.PrefixWalk
	reached := func(counter *atomic.Int64, i int64) {
		for spins := 0; counter.Load() < i; spins++ {
			if spins > patience {
				runtime.Gosched()
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := int64(1); ; i++ {
			if reached(&round, i); round.Load() > n {
				return
			}
			parting = booked(list[1], tokens(1), parted...)
			done.Store(i)
		}
	})
	defer func() { // also when the test fails halfway
		round.Store(n + 1)
		wg.Wait()
	}()
	for i := int64(1); i <= n; i++ {
		whole := make([]uint64, 40)
		for j := range whole {
			whole[j] = uint64(i)<<8 | uint64(j)
		}
		parted = slices.Clone(whole)
		parted[20]++
		first := booked(list[0], tokens(1), whole...)
		var third, kept *lifecycle.Booking
		if i%2 == 0 {
			third = booked(list[2], tokens(1), whole...)
		}
		if i%4 == 0 { // then it gives up the end of it only
			kept = booked(list[2], tokens(1), whole[:30]...)
		}
		round.Store(i)
		for range i % 97 * 8 { // now a little earlier, now a little later
			_ = done.Load()
		}
		if third == nil {
			third = booked(list[2], tokens(1), whole...)
		} else {
			release(list[2], third)
			third = nil
		}
		reached(&done, i)
		sameDepths(t, list, whole)
		sameDepths(t, list, parted)
		walk.Find(env.Prefixes(), whole)
		if blocks, _ := walk.HeldByAll(len(list)); (blocks > 0) != (third != nil || kept != nil) {
			t.Fatalf("round %d: all hold %d blocks", i, blocks)
		}
		if kept != nil {
			release(list[2], kept)
		}
		release(list[0], first)
		release(list[1], parting)
		if third != nil {
			release(list[2], third)
		}
		if left := env.Prefixes().Len(); left != 0 {
			t.Fatalf("round %d: %d are left", i, left)
		}
	}
}

// Everybody books and releases prompts that share beginnings, while others look.
// What a rank holds all the time is always seen in full; at the end nothing is
// left, and in between, whenever all pause, the index agrees with the ranks.
func TestPrefixesUnderHammering(t *testing.T) {
	rounds, n := 20, 500
	if testing.Short() {
		rounds, n = 4, 100
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	env := timeless()
	list := newShards(env, 6)
	// The first two ranks hold these throughout, in two lengths.
	steady := []uint64{0, 0, 0, 0, 0, 0}
	anchor := booked(list[0], tokens(1), steady...)
	short := booked(list[1], tokens(1), steady[:3]...)
	for round := range rounds {
		live := make([]map[*lifecycle.Booking]bool, len(list))
		var wg sync.WaitGroup
		for i, s := range list {
			live[i] = map[*lifecycle.Booking]bool{}
			wg.Go(func() {
				rnd := seeded(uint64(round*100 + i))
				for range n {
					if len(live[i]) < 4 || rnd.IntN(2) == 0 {
						live[i][booked(s, tokens(1), prompt(rnd, 9)...)] = true
						continue
					}
					for b := range live[i] {
						s.Lock()
						s.ReleaseLocked(b)
						s.Unlock()
						delete(live[i], b)
						break
					}
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				for range n {
					got := depths(env.Prefixes(), steady)
					if got[list[0]] != len(steady) || got[list[1]] < 3 {
						t.Errorf("round %d: the steady ranks have %d and %d", round, got[list[0]], got[list[1]])
						return
					}
				}
			})
		}
		wg.Wait()
		rnd := seeded(uint64(round))
		for range 50 {
			sameDepths(t, list, prompt(rnd, 9))
		}
		for i, s := range list {
			s.Lock()
			for b := range live[i] {
				s.ReleaseLocked(b)
			}
			s.Unlock()
		}
		sameDepths(t, list, steady)
	}
	for s, b := range map[*shards.Shard]*lifecycle.Booking{list[0]: anchor, list[1]: short} {
		s.Lock()
		s.ReleaseLocked(b)
		s.Unlock()
	}
	if n := env.Prefixes().Len(); n != 0 {
		t.Fatalf("%d are left", n)
	}
}
