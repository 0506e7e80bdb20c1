package pool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// loaded returns a pool whose ranks all have some load, no two the same.
func loaded(t *testing.T, ranks int) *indexedPool {
	t.Helper()
	p := newIndexedPool(t, ranks, rand.New(rand.NewPCG(1, 2)))
	for i, at := range p.rnd.Perm(ranks) {
		bookTokens(p.world.Table.Slots()[at].Shard, int64(1000+i))
	}
	return p
}

// A look at a large pool reads the load of a few ranks, whatever constrains the
// request, decays, or is out of the range of keys, and however the selector chooses.
func TestLooksReadFewRanks(t *testing.T) {
	t.Parallel()
	const ranks = 2048
	half := make([]uint64, ranks/2)
	for i := range half {
		half[i] = uint64(2 * i)
	}
	for name, test := range map[string]struct {
		selector selector.Selector
		set      func(*indexedPool)
		request  func(*Request)
		most     int
		decaying int
	}{
		"plain":          {most: 1},
		"one excluded":   {request: func(r *Request) { r.Constraints.Excluded = []uint64{7} }, most: 1},
		"half excluded":  {request: func(r *Request) { r.Constraints.Excluded = half }, most: 1},
		"half allowed":   {request: func(r *Request) { r.Constraints.Allowed = half }, most: 1},
		"required taint": {request: func(r *Request) { r.Constraints.RequiredTaints = []string{"half"} }, most: 1},
		"ISL 0":          {request: func(r *Request) { r.ISL = 0 }, most: 1},
		"not tracked":    {request: func(r *Request) { r.Tracked = false }, most: 1},
		"credit decay": {request: func(r *Request) {
			r.Params.CreditDecay = 1
			r.Overlaps = []lifecycle.Overlap{{Rank: rank(7, 0), Device: 1}, {Rank: rank(9, 0), Host: 1}}
		}, most: 3},
		"modelled prefill": {set: func(p *indexedPool) {
			for i := range 50 {
				p.bookFor(40*i, 500, time.Second)
			}
		}, most: 51, decaying: 50},
		"modelled prefill, others idle": {set: func(p *indexedPool) {
			p.idle()
			for i := range ranks / 2 {
				p.bookFor(2*i, 500, time.Second)
			}
		}, most: 12, decaying: ranks / 2},
		"2^60 tokens":         {set: func(p *indexedPool) { p.bookFor(7, 1<<60, lifecycle.NoDuration) }, most: 1},
		"random":              {selector: selector.Random(), most: 1},
		"round robin":         {selector: selector.RoundRobin(), most: 1},
		"power of two":        {selector: selector.PowerOfTwo(), most: 2},
		"random, one out":     {selector: selector.Random(), request: func(r *Request) { r.Constraints.Excluded = []uint64{7} }, most: 1},
		"round robin, half":   {selector: selector.RoundRobin(), request: func(r *Request) { r.Constraints.Allowed = half }, most: 1},
		"least loaded, taint": {selector: selector.LeastLoaded(), request: func(r *Request) { r.Constraints.RequiredTaints = []string{"half"} }, most: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := loaded(t, ranks)
			if test.set != nil {
				test.set(p)
			}
			if test.selector != nil {
				next := *p.world
				next.Selector = test.selector
				p.world = next.Made()
			}
			l := &Look{Rand: p.rnd}
			for range 20 {
				for class := -1; class < p.world.Profile.Len(); class++ {
					r := &Request{ISL: 8, Tracked: true, Params: p.params(), Expected: lifecycle.NoDuration}
					if test.request != nil {
						test.request(r)
					}
					l.scanned, l.indexed.query.Read = 0, 0
					l.Take(p.world, r, class, At(100))
					_, failed := l.Choose(p.rnd)
					require.Nil(t, failed)
					// A gate of ranks that are busy reads the keys of those that may be idle.
					most := test.most + 2
					if class >= 0 && counts(p.world.Profile.Class(class)) {
						most += test.decaying // all are counted
					}
					require.LessOrEqual(t, l.scanned, most, "class %d", class)
					require.LessOrEqual(t, l.indexed.query.Read, 2*ranks+500, "class %d", class)
					l.Reset()
				}
			}
		})
	}
}

func (p *indexedPool) bookFor(i int, tokens int64, d time.Duration) {
	s := p.world.Table.Slots()[i].Shard
	s.Lock()
	s.BookLocked(&lifecycle.Booking{Tokens: tokens, Tracked: true, Expected: d}, nil)
	s.Unlock()
}

// idle takes all load away.
func (p *indexedPool) idle() {
	slots := p.world.Table.Slots()
	for i := range slots {
		s := slots[i].Shard
		s.Lock()
		for b := range s.BookingsLocked() {
			s.ReleaseLocked(b)
		}
		s.Unlock()
	}
}

// Equals have equal chances: among few ranks, which are scanned, and many, also
// those that a request excludes some of, beside ranks that are busy, and against a
// rank whose cache makes up for its load.
func TestEqualsHaveEqualChances(t *testing.T) {
	t.Parallel()
	type situation struct {
		ranks   int
		set     func(*indexedPool)
		request func(*Request)
	}
	tests := map[string]situation{
		"7":                   {ranks: 7},
		"64":                  {ranks: 64},
		"200":                 {ranks: 200},
		"200, three excluded": {ranks: 200, request: func(r *Request) { r.Constraints.Excluded = []uint64{0, 64, 199} }},
		"200, most excluded": {ranks: 200, request: func(r *Request) {
			for i := range uint64(150) {
				r.Constraints.Excluded = append(r.Constraints.Excluded, i)
			}
		}},
		"200, taint": {ranks: 200, request: func(r *Request) { r.Constraints.RequiredTaints = []string{"half"} }},
		"200, some busy": {ranks: 200, set: func(p *indexedPool) {
			for i := range 66 {
				p.bookFor(3*i, 50, lifecycle.NoDuration)
			}
		}},
		"200, a cache that makes up for a load": {ranks: 200, set: func(p *indexedPool) { p.bookFor(5, 4, lifecycle.NoDuration) }, request: func(r *Request) {
			r.Overlaps = []lifecycle.Overlap{{Rank: rank(5, 0), Device: 3}} // 4 tokens and a request's weight
		}},
		"200, overloaded": {ranks: 200, set: func(p *indexedPool) {
			p.change(func(t *shards.Table) (*shards.Table, []*shards.Shard) {
				return t.WithOverloaded([]uint64{1, 2, 3, 50, 51, 52}), nil
			})
		}},
		"2048": {ranks: 2048},
	}
	if !testing.Short() {
		tests["2048, half allowed"] = situation{ranks: 2048, request: func(r *Request) {
			for i := range uint64(1024) {
				r.Constraints.Allowed = append(r.Constraints.Allowed, i)
			}
		}}
		tests["16384"] = situation{ranks: 16384}
	}
	for _, s := range []selector.Selector{selector.KV(), selector.LeastLoaded(), selector.Random(), selector.PowerOfTwo()} {
		for name, test := range tests {
			if s != selector.KV() && (test.set != nil || test.ranks > 2048) {
				continue
			}
			t.Run(selector.Name(s)+", "+name, func(t *testing.T) {
				t.Parallel()
				p := newIndexedPool(t, test.ranks, rand.New(rand.NewPCG(3, uint64(test.ranks))))
				if test.set != nil {
					test.set(p)
				}
				next := *p.world
				next.Selector = s
				p.world = next.Made()
				r := &Request{ISL: 8, Tracked: true, Params: p.params(), Expected: lifecycle.NoDuration}
				if test.request != nil {
					test.request(r)
				}
				scan := &Look{}
				scan.TakeWhole(p.world, r, -1, At(0))
				chances := make([]float64, scan.Candidates())
				_, failed := scan.Choose(p.rnd)
				require.Nil(t, failed)
				require.True(t, selector.Chances(s, &scan.input, chances))
				want := map[lifecycle.RankID]int{}
				for i, chance := range chances {
					if chance > 0 {
						want[scan.Candidate(i).Rank] = 0
					}
				}
				const each = 20
				l := &Look{Rand: p.rnd}
				for range each * len(want) {
					l.Take(p.world, r, -1, At(0))
					choice, failed := l.Choose(p.rnd)
					require.Nil(t, failed)
					chosen := l.Candidate(choice.Candidate).Rank
					if _, tied := want[chosen]; !tied {
						t.Fatalf("%v is not one of those that are tied", chosen)
					}
					want[chosen]++
					l.Reset()
				}
				require.Equal(t, test.ranks > 7, l.indexed.used, "by way of the index")
				chi := 0.0
				for _, n := range want {
					chi += float64((n-each)*(n-each)) / each
				}
				// Mean k, deviation √2k: six deviations either way.
				k := float64(len(want) - 1)
				require.InDelta(t, k, chi, 6*math.Sqrt(2*k)+3, "%d tied ranks", len(want))
			})
		}
	}
}
