package pool

import (
	"math/rand/v2"
	"testing"
	"time"

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

// indexedWhileMoving takes a look by way of the index, and books on the two ranks
// that it names as the cheapest, after it named them and before they are read. Of
// the other ranks all are as cheap but one, which has the least prefill and is
// dear for its blocks: the look names that as well.
func indexedWhileMoving(t *testing.T, tokens ...int64) (l *Look, named []*shards.Shard) {
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
	l = &Look{}
	l.Rand = &hookedRand{second: func() {
		for i, place := range l.places {
			named = append(named, slots[place].Shard)
			bookTokens(slots[place].Shard, tokens[i])
		}
	}}
	require.True(t, l.takeIndexed(p.world, r, 0, At(0)))
	require.Len(t, named, 2)
	require.Len(t, l.candidates, 3)
	return l, named
}

func bookTokens(s *shards.Shard, n int64) {
	s.Lock()
	defer s.Unlock()
	if n > 0 {
		s.BookLocked(&lifecycle.Booking{Tokens: n, Tracked: true, Expected: lifecycle.NoDuration}, nil)
	}
}

// Both ranks that the index names become dearer before they are read: then they
// are not known to be the least any more.
func TestIndexedLookSeesWhatMovedOnTheWay(t *testing.T) {
	t.Parallel()
	l, _ := indexedWhileMoving(t, 1000, 1000)
	choice, failed := l.Choose(l.Rand)
	require.Nil(t, failed)
	chosen := l.Candidate(choice.Candidate)
	require.EqualValues(t, 1, chosen.ActivePrefill)
	require.Zero(t, chosen.ActiveBlocks)
}

// The second becomes dearer before it is read: there are others as cheap as it was.
func TestIndexedChoiceIsConfirmedAgainstAllRanks(t *testing.T) {
	t.Parallel()
	l, named := indexedWhileMoving(t, 0, 1000)
	choice, failed := l.Choose(l.Rand)
	require.Nil(t, failed)
	require.Equal(t, named[0], l.Slot(choice.Candidate).Shard)
	bookTokens(named[0], 50) // dearer than the others, but not than the second
	named[0].Lock()
	defer named[0].Unlock()
	load := named[0].LoadLocked()
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

// Load that moves with time alone is nothing the index knows of.
func TestIndexIsNotUsedWhileLoadsDecay(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	p := newIndexedPool(t, 200, rnd)
	r := &Request{ISL: 8, Tracked: true, Params: p.params(), Expected: lifecycle.NoDuration}
	usable := func() bool {
		l := &Look{Rand: rnd}
		look := l.takeIndexed(p.world, r, 0, At(0))
		_, gate := (&Look{Rand: rnd, World: p.world, Request: r, Class: 0, Instant: At(0)}).gateIndexed()
		require.Equal(t, look, gate)
		return look
	}
	require.True(t, usable())
	s := p.world.Table.Slots()[7].Shard
	b := &lifecycle.Booking{Tokens: 100, Tracked: true, Expected: time.Second}
	s.Lock()
	s.BookLocked(b, nil)
	s.Unlock()
	require.False(t, usable())
	s.Lock()
	s.ReleaseLocked(b)
	s.Unlock()
	require.True(t, usable())
}
