package shards

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// indexedPool is a table with an index, and what its ranks are known to carry.
type indexedPool struct {
	table *Table
	index *LoadIndex
	rnd   *rand.Rand
	now   int64
	live  []*lifecycle.Booking
	on    []*Shard // where each is
	query Query
}

func newIndexedPool(t testing.TB, ranks int, seed uint64) *indexedPool {
	t.Helper()
	p := &indexedPool{rnd: rand.New(rand.NewPCG(seed, 9))}
	env := &Env{Now: func() int64 { return p.now }}
	workers := make([]Worker, ranks)
	for i := range workers {
		workers[i] = Worker{ID: uint64(i), Ranks: 1}
	}
	var err error
	p.table, _, err = NewTable().With(workers, func(id lifecycle.RankID) *Shard { return NewShard(id, env) })
	if err != nil {
		t.Fatal(err)
	}
	p.index = p.table.Reindex(nil, Weights{Prefill: 1, Block: 16, Request: 3})
	p.table.Shown(p.index)
	p.query = Query{Rand: p.rnd, Judge: p}
	return p
}

func (p *indexedPool) change(table *Table) {
	p.table = table
	if index := p.table.Reindex(p.index, p.index.Weights()); index != p.index {
		panic("another index")
	}
	p.table.Shown(p.index)
}

func (p *indexedPool) Key(s *Shard, d Dimension) int64 {
	v := s.View()
	return p.index.Key(d, v.Prefill.Active(p.now), v.Blocks, v.Requests)
}

func (p *indexedPool) Take(s *Shard) bool {
	return p.Key(s, ByPrefill) <= 40 && p.Key(s, ByRequests) <= 1
}

// step books or ends something, or lets time pass.
func (p *indexedPool) step() {
	if n := len(p.live); n > 0 && p.rnd.IntN(2) == 0 {
		i := p.rnd.IntN(n)
		b, s := p.live[i], p.on[i]
		s.Lock()
		if p.rnd.IntN(3) == 0 {
			s.PrefillDoneLocked(b)
		} else {
			s.ReleaseLocked(b)
			p.live[i], p.on[i] = p.live[n-1], p.on[n-1]
			p.live, p.on = p.live[:n-1], p.on[:n-1]
		}
		s.Unlock()
		return
	}
	s := p.table.slots[p.rnd.IntN(len(p.table.slots))].Shard
	b := &lifecycle.Booking{Tokens: p.rnd.Int64N(60), Tracked: true, Expected: lifecycle.NoDuration}
	switch p.rnd.IntN(6) {
	case 0:
		b.Expected = time.Duration(p.rnd.IntN(50))
	case 1:
		if p.rnd.IntN(10) == 0 {
			b.Tokens = 1 << (38 + p.rnd.IntN(25))
		}
	}
	s.Lock()
	s.BookLocked(b, make([]uint64, p.rnd.IntN(3)))
	s.Unlock()
	p.live, p.on = append(p.live, b), append(p.on, s)
	p.now += int64(p.rnd.IntN(5))
}

// What a search finds is what a look at all ranks finds: the least key, how many
// have it, a bound that no other is below, and somebody who is taken.
func TestIndexAgreesWithTheScan(t *testing.T) {
	t.Parallel()
	steps := 20000
	if testing.Short() {
		steps = 4000
	}
	for _, ranks := range []int{9, 52, 60, 300} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			t.Parallel()
			p := newIndexedPool(t, ranks, uint64(ranks))
			ended := 0
			for i := range steps {
				p.step()
				if i%500 == 0 {
					p.change(p.table.WithOverloaded([]uint64{p.rnd.Uint64N(uint64(ranks)), p.rnd.Uint64N(uint64(ranks))}))
				}
				d := Dimension(p.rnd.IntN(int(dimensions)))
				among := map[*Shard]bool{}
				p.query.Among, p.query.By = nil, d
				if p.rnd.IntN(2) == 0 {
					p.query.Among = make([]uint64, p.index.Words())
					for i := range p.query.Among {
						if p.query.Among[i] = p.rnd.Uint64(); p.rnd.IntN(2) == 0 {
							p.query.Among[i] &= p.rnd.Uint64() & p.rnd.Uint64() & p.rnd.Uint64()
						}
					}
				}
				least, ties, second := int64(math.MaxInt64), 0, int64(math.MaxInt64)
				taken := false
				for j := range p.table.slots {
					s := p.table.slots[j].Shard
					if at := s.Spot(); p.table.slots[j].Overloaded || p.query.Among != nil && p.query.Among[at/64]>>(at%64)&1 == 0 {
						continue
					}
					among[s] = true
					taken = taken || p.Take(s)
					switch key := p.Key(s, d); {
					case key < least:
						least, ties, second = key, 1, least
					case key == least:
						ties++
						second = key
					default:
						second = min(second, key)
					}
				}
				if s := p.index.Any(&p.query, 40, 1); (s != nil) != taken || s != nil && (!among[s] || !p.Take(s)) {
					t.Fatalf("step %d: found %v to take, and there is one: %t", i, s, taken)
				}
				found, ok := p.index.Least(&p.query)
				switch {
				case len(among) == 0:
					if !ok || found.Shard != nil {
						t.Fatalf("step %d: found %v, %t among none", i, found, ok)
					}
					continue
				case least == beyond:
					if ok {
						t.Fatalf("step %d: found %v, though all are out of range", i, found)
					}
					continue
				}
				if !ok || !among[found.Shard] || p.Key(found.Shard, d) != least || found.Key != least || found.Others > second {
					t.Fatalf("step %d: found %+v, %t, the key being %d; want the key %d, another %d", i, found, ok, p.Key(found.Shard, d), least, second)
				}
				if got := p.index.Ties(&p.query, least); got != ties {
					t.Fatalf("step %d: %d are tied, not %d", i, ties, got)
				}
				ended++
			}
			if ended < steps/2 {
				t.Errorf("only %d of %d steps compared", ended, steps)
			}
		})
	}
}

// However the ranks stand in their groups, and whatever else is left out or loose,
// those that are tied have equal chances.
func TestTiedRanksAreDrawnEvenly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ranks int
		set   func(*indexedPool)
	}{
		"one group":    {ranks: 16},
		"many":         {ranks: 200},
		"few of many":  {ranks: 300, set: func(p *indexedPool) { p.load(func(i int) bool { return i%97 != 0 }, lifecycle.NoDuration) }},
		"uneven":       {ranks: 300, set: func(p *indexedPool) { p.load(func(i int) bool { return i > 40 && i%5 != 0 }, lifecycle.NoDuration) }},
		"half allowed": {ranks: 300, set: func(p *indexedPool) { p.among(func(i int) bool { return i%2 == 0 }) }},
		"few allowed":  {ranks: 300, set: func(p *indexedPool) { p.among(func(i int) bool { return i%37 == 0 }) }},
		// Some decay and are done by now: they are tied with those that are idle.
		"decayed": {ranks: 100, set: func(p *indexedPool) { p.load(func(i int) bool { return i%3 == 0 }, 10); p.now = 20 }},
		// Most decay, and few of these are done.
		"decaying": {ranks: 100, set: func(p *indexedPool) {
			p.load(func(i int) bool { return i > 8 }, 1000)
			p.load(func(i int) bool { return i > 4 && i <= 8 }, 10)
			p.now = 20
		}},
		"all decay": {ranks: 100, set: func(p *indexedPool) { p.load(func(int) bool { return true }, 10); p.now = 20 }},
		"decayed and left out": {ranks: 200, set: func(p *indexedPool) {
			p.load(func(i int) bool { return i%3 == 0 }, 10)
			p.now = 20
			p.among(func(i int) bool { return i%4 != 0 })
		}},
		"decayed and one left out": {ranks: 200, set: func(p *indexedPool) {
			p.load(func(i int) bool { return i%3 == 0 }, 10)
			p.now = 20
			p.among(func(i int) bool { return i != 77 })
		}},
		"few decayed, none else": {ranks: 200, set: func(p *indexedPool) {
			p.load(func(i int) bool { return i%40 != 0 }, 1000)
			p.load(func(i int) bool { return i%40 == 0 }, 10)
			p.now = 20
			p.among(func(i int) bool { return i != 77 && i != 0 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIndexedPool(t, test.ranks, 1)
			if test.set != nil {
				test.set(p)
			}
			p.query.By = ByPrefill
			want := map[*Shard]int{}
			for i := range p.table.slots {
				s := p.table.slots[i].Shard
				if at := s.Spot(); p.Key(s, ByPrefill) == 0 && (p.query.Among == nil || p.query.Among[at/64]>>(at%64)&1 != 0) {
					want[s] = 0
				}
			}
			const each = 400
			for range each * len(want) {
				f, ok := p.index.Least(&p.query)
				if _, tied := want[f.Shard]; !ok || !tied {
					t.Fatalf("found %v, %t", f, ok)
				}
				want[f.Shard]++
			}
			chi := 0.0
			for _, n := range want {
				chi += float64((n-each)*(n-each)) / each
			}
			// Mean k, deviation √2k: five deviations are chance once in a million times.
			if k := float64(len(want) - 1); chi > k+5*math.Sqrt(2*k)+5 {
				t.Errorf("χ² is %.0f for %d tied ranks: %v", chi, len(want), want)
			}
		})
	}
}

func (p *indexedPool) load(which func(int) bool, d time.Duration) {
	for i := range p.table.slots {
		if which(i) {
			s := p.table.slots[i].Shard
			s.Lock()
			s.BookLocked(&lifecycle.Booking{Tokens: 30, Tracked: true, Expected: d}, nil)
			s.Unlock()
		}
	}
}

func (p *indexedPool) among(which func(int) bool) {
	p.query.Among = make([]uint64, p.index.Words())
	for i := range p.table.slots {
		if at := p.table.slots[i].Shard.Spot(); which(i) {
			p.query.Among[at/64] |= 1 << (at % 64)
		}
	}
}

// A search reads little of a large pool, whatever is left out of it and whatever
// decays in it.
func TestSearchReadsLittle(t *testing.T) {
	t.Parallel()
	const ranks = 2048
	for name, test := range map[string]struct {
		set          func(*indexedPool)
		read, judged int
	}{
		"idle":         {read: 200},
		"loaded":       {set: func(p *indexedPool) { p.loadRandomly() }, read: 200},
		"one left out": {set: func(p *indexedPool) { p.loadRandomly(); p.among(func(i int) bool { return i != 77 }) }, read: 200},
		"half, idle":   {set: func(p *indexedPool) { p.among(func(i int) bool { return i%2 == 0 }) }, read: 1000},
		"half":         {set: func(p *indexedPool) { p.loadRandomly(); p.among(func(i int) bool { return i%2 == 0 }) }, read: 2000},
		"one decays":   {set: func(p *indexedPool) { p.loadRandomly(); p.load(func(i int) bool { return i == 77 }, 1000) }, read: 250, judged: 1},
		"a few decay":  {set: func(p *indexedPool) { p.loadRandomly(); p.load(func(i int) bool { return i%100 == 0 }, 1000) }, read: 250, judged: 21},
		"half decay":   {set: func(p *indexedPool) { p.query.By = ByPrefill; p.load(func(i int) bool { return i%2 == 0 }, 1000) }, read: 1300, judged: 24},
		"some decay, one left out": {set: func(p *indexedPool) {
			p.query.By = ByPrefill
			p.load(func(i int) bool { return i%16 == 0 }, 1000)
			p.among(func(i int) bool { return i != 77 })
		}, read: 300, judged: 2},
		"one out of range": {set: func(p *indexedPool) { p.book(77, 1<<60) }, read: 250},
		"most out of range": {set: func(p *indexedPool) {
			for i := range 2000 {
				p.book(i, 1<<60)
			}
		}, read: 2200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newIndexedPool(t, ranks, 1)
			if test.set != nil {
				test.set(p)
			}
			const looks = 100
			for range looks {
				if _, ok := p.index.Least(&p.query); !ok {
					t.Fatal("not found")
				}
			}
			if read, judged := p.query.Read/looks, p.query.Judged/looks; read > test.read || judged > test.judged {
				t.Errorf("%d keys read and %d ranks looked at, on average, more than %d and %d", read, judged, test.read, test.judged)
			}
		})
	}
}

func (p *indexedPool) loadRandomly() {
	for i := range p.table.slots {
		p.book(i, 1000+p.rnd.Int64N(100000))
	}
}

func (p *indexedPool) book(i int, tokens int64) {
	s := p.table.slots[i].Shard
	s.Lock()
	s.BookLocked(&lifecycle.Booking{Tokens: tokens, Tracked: true, Expected: lifecycle.NoDuration}, nil)
	s.Unlock()
}

// A rank on its way from a load that is known to one that decays, or back, is found
// all the while: it is the least at every moment.
func TestRankIsNeverMissedOnItsWay(t *testing.T) {
	t.Parallel()
	for _, ranks := range []int{20, 200} {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			t.Parallel()
			p := newIndexedPool(t, ranks, 1)
			for i := range ranks {
				p.book(i, 20)
			}
			s := p.table.slots[7].Shard
			s.Lock()
			for b := range s.BookingsLocked() {
				s.ReleaseLocked(b)
			}
			s.Unlock()
			change := func(do func()) {
				s.Lock()
				do()
				s.Unlock()
			}
			known := &lifecycle.Booking{Tokens: 5, Tracked: true, Expected: lifecycle.NoDuration}
			change(func() { s.BookLocked(known, nil) })
			var rounds atomic.Int64
			done, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for ; ; rounds.Add(1) {
					select {
					case <-done:
						return
					default:
					}
					// By turns 5 known, 10 known, 5 that decay, 10 that decay.
					decaying := &lifecycle.Booking{Tokens: 5, Tracked: true, Expected: time.Hour}
					change(func() { s.BookLocked(decaying, nil) })
					change(func() { s.ReleaseLocked(known) })
					known = &lifecycle.Booking{Tokens: 5, Tracked: true, Expected: lifecycle.NoDuration}
					change(func() { s.BookLocked(known, nil) })
					change(func() { s.ReleaseLocked(decaying) })
				}
			}()
			defer func() { close(done); <-stopped }()
			p.query.By = ByPrefill
			wanted, looks, found := int64(5000), 0, 0
			if testing.Short() {
				wanted = 500
			}
			for ; rounds.Load() < wanted; looks++ {
				f, ok := p.index.Least(&p.query)
				if !ok {
					continue // moved too fast
				}
				if found++; f.Key > 10 && f.Others > 10 {
					t.Fatalf("found %+v: the least was missed", f)
				}
			}
			if found < looks/10 {
				t.Errorf("the index could tell in %d of %d looks", found, looks)
			}
		})
	}
}
