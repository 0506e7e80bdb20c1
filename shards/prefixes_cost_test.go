package shards_test

import (
	"runtime"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/shards"
)

// bytesPer returns how many bytes f allocates, the least of some runs.
func bytesPer(f func()) uint64 {
	var before, after runtime.MemStats
	least := ^uint64(0)
	for range 20 {
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// bookAndRelease returns what it takes to book a prompt on a rank that holds
// nothing, and to release it.
func bookAndRelease(s *shards.Shard, blocks []uint64) uint64 {
	bk := tokens(1)
	return bytesPer(func() {
		s.Lock()
		s.BookLocked(bk, blocks)
		s.ReleaseLocked(bk)
		s.Unlock()
	})
}

// To come to hold what all ranks hold, and to cease to, costs no more than what
// nobody holds. The list of holders was copied: 74 KB at 2,048 ranks.
func TestSharedPromptCostsNoMoreThanOneOfItsOwn(t *testing.T) {
	const ranks = 2048
	list := newShards(timeless(), ranks)
	system := partedTrunk(list[1:], 20, false)
	shared := bookAndRelease(list[0], append(system, path(3, 0, 4)...))
	alone := bookAndRelease(list[0], path(4, 0, 24))
	if shared > 2*alone {
		t.Errorf("under a prompt that all hold %d bytes, else %d", shared, alone)
	}
}

// A prompt that has a parting point after each block costs a step for each, which
// the number of ranks that hold it does not multiply. The lists of holders were
// copied: 75 MB for 1,024 points and 2,048 ranks.
func TestPartingPointsAreNotMultipliedByRanks(t *testing.T) {
	const points = 256
	cost := func(ranks int) uint64 {
		list := newShards(timeless(), ranks)
		return bookAndRelease(list[0], append(partedTrunk(list[1:], points, true), path(3, 0, 4)...))
	}
	few, many := cost(8), cost(512)
	if many > few+few/4 {
		t.Errorf("%d parting points: %d bytes with 8 ranks, %d with 512", points, few, many)
	}
}

// Edges that are split again and again do not keep the prompt that they were made
// of, nor do edges whose ends are given up.
func TestHalvedPromptsLetGoOfTheWhole(t *testing.T) {
	const prompts, length = 50, 1 << 14
	env := timeless()
	s := shards.NewShard(rank(9, 0), env)
	before := shards.LiveHeap()
	for i := range uint64(prompts) {
		whole := path(i+1, 0, length)
		first := booked(s, tokens(1), whole...)
		longer := first
		for n := length / 2; n >= 8; n /= 2 {
			shorter := booked(s, tokens(1), whole[:n]...)
			s.Lock()
			s.ReleaseLocked(longer)
			s.Unlock()
			longer = shorter
		}
	}
	if after := shards.LiveHeap(); after > before && after-before > prompts*4096 {
		t.Errorf("%d prompts of which 8 blocks are left keep %d KiB", prompts, (after-before)>>10)
	}
	runtime.KeepAlive(env)
	runtime.KeepAlive(s)
}
