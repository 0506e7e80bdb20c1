package pool

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// hookedRand does something when it is asked for the second time.
type hookedRand struct {
	calls  int
	second func()
}

func (r *hookedRand) Uint64() uint64 {
	if r.calls++; r.calls == 2 {
		r.second()
	}
	return 1
}

// indexedWhileMoving takes a look by way of the index, and books on the rank that it
// names as the cheapest, after it named it and before that is read. All other ranks
// are as cheap but one, which has part of the prompt in its cache and is dear for its
// blocks: the look names that as well, and for it looks up the least prefill last.
func indexedWhileMoving(t *testing.T, tokens int64) (l *Look, named *shards.Shard) {
	t.Helper()
	p := newIndexedPool(t, 200, rand.New(rand.NewPCG(1, 1)))
	slots := p.world.Table.Slots()
	for i := range slots {
		if i == 100 {
			slots[i].Shard.Lock()
			slots[i].Shard.BookLocked(&lifecycle.Booking{Expected: lifecycle.NoDuration}, make([]uint64, 100))
			slots[i].Shard.Unlock()
		} else {
			bookTokens(slots[i].Shard, 1)
		}
	}
	r := &Request{ISL: 8, Tracked: true, Params: p.params(), Expected: lifecycle.NoDuration}
	r.Params.CreditDecay = 1
	r.Overlaps = []lifecycle.Overlap{{Rank: rank(100, 0), Device: 1}}
	l = &Look{}
	l.Rand = &hookedRand{second: func() {
		require.Len(t, l.places, 2)
		named = slots[l.places[1]].Shard
		bookTokens(named, tokens)
	}}
	require.True(t, l.takeIndexed(p.world, r, 0, At(0)))
	require.NotNil(t, named)
	return l, named
}

func bookTokens(s *shards.Shard, n int64) {
	s.Lock()
	defer s.Unlock()
	if n > 0 {
		s.BookLocked(&lifecycle.Booking{Tokens: n, Tracked: true, Expected: lifecycle.NoDuration}, nil)
	}
}

// The rank that the index names becomes dearer before it is read: then it is not
// known to be the least any more.
func TestIndexedLookSeesWhatMovedOnTheWay(t *testing.T) {
	t.Parallel()
	l, named := indexedWhileMoving(t, 1000)
	choice, failed := l.Choose(l.Rand)
	require.Nil(t, failed)
	require.NotEqual(t, named, l.Slot(choice.Candidate).Shard)
	chosen := l.Candidate(choice.Candidate)
	require.EqualValues(t, 1, chosen.ActivePrefill)
	require.Zero(t, chosen.ActiveBlocks)
}

// It becomes dearer after it was chosen: there are others as cheap as it was.
func TestIndexedChoiceIsConfirmedAgainstAllRanks(t *testing.T) {
	t.Parallel()
	l, named := indexedWhileMoving(t, 0)
	choice, failed := l.Choose(l.Rand)
	require.Nil(t, failed)
	require.Equal(t, named, l.Slot(choice.Candidate).Shard)
	bookTokens(named, 50) // dearer than the others, but not than the one with the cache
	named.Lock()
	defer named.Unlock()
	load := named.LoadLocked()
	require.False(t, l.StandsLocked(choice, &load))
}

// An overloaded rank is no witness, however idle.
func TestIndexedGateLooksPastOverload(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	p := newIndexedPool(t, 200, rnd)
	for i := range p.world.Table.Slots() {
		if i != 7 {
			bookTokens(p.world.Table.Slots()[i].Shard, 31)
		}
	}
	r := &Request{ISL: 8, Tracked: true, Params: p.params(), Expected: lifecycle.NoDuration}
	mustWait := func() bool {
		gate, ok := (&Look{Rand: rnd, World: p.world, Request: r, Class: 0, Instant: At(0)}).gateIndexed()
		require.True(t, ok)
		return gate.MustWait
	}
	require.False(t, mustWait())
	p.change(func(t *shards.Table) (*shards.Table, []*shards.Shard) { return t.WithOverloaded([]uint64{7}), nil })
	require.True(t, mustWait())
	p.change(func(t *shards.Table) (*shards.Table, []*shards.Shard) { return t.WithOverloaded(nil), nil })
	require.False(t, mustWait())
}
