package pool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// The look by way of the index chooses a rank that the look at all ranks finds no
// dearer than any, and says the same of the gate: whatever constrains the request,
// decays, or is out of the keys' range.
func TestIndexedLookAgreesWithTheScan(t *testing.T) {
	t.Parallel()
	seeds, looks := uint64(8), 2000
	if testing.Short() {
		seeds, looks = 4, 1000
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 5))
		p := newIndexedPool(t, int(seed%2)*100+shards.IndexedFrom+rnd.IntN(60), rnd)
		indexed, scan := &Look{Rand: rnd}, &Look{}
		used := make(map[string]int)
		for range looks {
			p.step()
			r := p.request()
			class := rnd.IntN(p.world.Profile.Len()+1) - 1
			at := At(p.now)
			scan.TakeWhole(p.world, r, class, at)
			gate := &Look{Rand: rnd, World: p.world, Request: r, Class: max(class, 0), Instant: at}
			got, ok := gate.gateIndexed()
			if counts(p.world.Profile.Class(gate.Class)) {
				if got, ok = gate.gateCounted(); ok {
					used["counted"]++
				}
			}
			if ok {
				all := &Look{}
				full := all.Gate(p.world, r, max(class, 0), at, true)
				require.Equal(t, full.MustWait, got.MustWait)
				require.Equal(t, full.AllOverloaded(), got.AllOverloaded())
				require.ElementsMatch(t, all.Retests(), gate.Retests())
				if got.HasWitness {
					use, _ := p.world.Use(r, max(class, 0), got.Witness, p.now, nil)
					require.Equal(t, queue.Usable, use)
				}
				require.Positive(t, got.Looked)
				used["gate"]++
			}
			if !indexed.takeIndexed(p.world, r, class, at) {
				continue
			}
			used[selector.Name(p.world.Selector)]++
			require.Equal(t, scan.Eligible, indexed.Eligible)
			require.Equal(t, scan.Overloaded, indexed.Overloaded)
			if class >= 0 {
				require.Equal(t, scan.MustWait(), indexed.MustWait())
				require.Equal(t, scan.AllOverloaded(), indexed.AllOverloaded())
			}
			choice, failed := indexed.Choose(rnd)
			require.Nil(t, failed)
			require.True(t, indexed.indexed.used, "the ranks found must not be dearer than the bound when nothing moves")
			want, failed := scan.Choose(rnd)
			require.Nil(t, failed)
			in := selector.Input{Params: r.Params, ISL: r.ISL, TrackPrefill: r.Tracked, LeastPrefill: scan.least()}
			chosen := indexed.Candidate(choice.Candidate)
			at2 := scan.Find(chosen.Rank)
			require.GreaterOrEqual(t, at2, 0, "the rank is not eligible")
			require.Equal(t, *scan.Candidate(at2), *chosen)
			switch w := p.world; {
			case choice.Forced:
				require.Equal(t, r.Prefer, chosen.Rank)
			case w.load == selector.LoadCost:
				require.Equal(t, selector.Cost(&in, scan.Candidate(want.Candidate)), selector.Cost(&in, chosen))
				require.LessOrEqual(t, choice.pick.RunnerUp, runnerUp(scan, &in, chosen.Rank))
			case w.load == selector.LoadRequests:
				require.Equal(t, scan.Candidate(want.Candidate).Requests, chosen.Requests)
			case w.load == selector.LoadTwo:
				require.LessOrEqual(t, float64(chosen.Requests), choice.pick.RunnerUp)
			case indexed.indexed.inTurn:
				require.Equal(t, scan.Candidate(want.Candidate).Rank, chosen.Rank)
			}
			if rnd.IntN(2) == 0 {
				require.True(t, indexed.TrackLocked(choice))
			}
		}
		for _, name := range []string{"kv", "least-loaded", "random", "round-robin", "power-of-two", "gate", "counted"} {
			require.Greater(t, used[name], looks/100, "seed %d: %s", seed, name)
		}
	}
}

// Who holds how much of a prompt is asked of the candidates alone, once each; and
// of no more of these than hold anything, if they are few. All holders of each
// level were looked up: with 64 parting points and 300 ranks 19,200.
func TestDepthsAreAskedOnceOfEachCandidate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ holders, points, atMost int }{
		{300, 64, 8}, {200, 64, 300}, {40, 64, 48}, {1, 1, 1 + 8},
	} {
		f, trunk := partedFleet(t, 300, tc.holders, tc.points)
		r := &Request{ISL: 4096, Blocks: append(trunk, 7, 8, 9), Tracked: true, Params: params()}
		look := &Look{Rand: rand.New(rand.NewPCG(1, 2))}
		look.Take(f.world, r, -1, At(0))
		require.LessOrEqual(t, look.asked, tc.atMost, "%+v", tc)
		require.Positive(t, look.asked)
		look.asked = 0
		look.TakeAll(f.world, r, -1, At(0))
		require.LessOrEqual(t, look.asked, 300, "%+v", tc)
		if tc.holders < 60 {
			require.LessOrEqual(t, look.asked, tc.holders, "%+v", tc)
		}
		for i := range look.Candidates() {
			c := look.Candidate(i)
			_, depth := load(f.shard(c.Rank), r.Blocks)
			require.Equal(t, c.ActiveBlocks+int64(len(r.Blocks)-depth), c.PotentialBlocks, "%+v", tc)
		}
	}
}

func runnerUp(l *Look, in *selector.Input, chosen lifecycle.RankID) float64 {
	least := math.Inf(1)
	for i := range l.Candidates() {
		if c := l.Candidate(i); c.Rank != chosen {
			least = min(least, selector.Cost(in, c))
		}
	}
	return least
}

// indexedPool is a pool with random load.
type indexedPool struct {
	t     *testing.T
	rnd   *rand.Rand
	env   *shards.Env
	now   int64
	world *World
	lists []shards.Constraints
	live  map[*lifecycle.Booking]*shards.Shard
}

const indexedPolicy = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1, prefill_busy_threshold: 30}
  - {name: open, quantum: 1}
  - {name: frac, quantum: 1, prefill_busy_threshold_frac: 0.5}
  - {name: tenth, quantum: 1, prefill_busy_threshold: 30, busy_worker_ratio: 0.1}
  - {name: half, quantum: 1, prefill_busy_threshold: 30, prefill_busy_threshold_frac: 0.9, max_requests_per_rank: 2, busy_worker_ratio: 0.5}
`

func newIndexedPool(t *testing.T, ranks int, rnd *rand.Rand) *indexedPool {
	p := &indexedPool{t: t, rnd: rnd, live: map[*lifecycle.Booking]*shards.Shard{}}
	p.env = &shards.Env{Now: func() int64 { return p.now }}
	p.world = World{Table: shards.NewTable(), Profile: withCaps(t, indexedPolicy), Selector: selector.KV()}.Made()
	p.setWorkers(ranks)
	return p
}

func (p *indexedPool) params() selector.Params {
	return selector.Params{
		BlockSize: 4, OverlapCredit: 1, PrefillScale: 1, RequestWeight: 2, Tiers: selector.DefaultTierWeights(),
	}
}

func (p *indexedPool) change(edit func(*shards.Table) (*shards.Table, []*shards.Shard)) {
	next := *p.world
	before := next.Profile
	if next.Index == nil {
		before = nil
	}
	var gone []*shards.Shard
	next.Table, gone = edit(next.Table)
	next.Index = next.Table.Reindex(next.Index, IndexWeights(p.params()))
	p.world = next.Made()
	for _, s := range gone {
		s.Lock()
		s.KillLocked()
		for b := range s.BookingsLocked() {
			s.ReleaseLocked(b)
			delete(p.live, b)
		}
		s.Unlock()
	}
	p.world.CountBusy(before)
	next.Table.Shown(next.Index)
}

func (p *indexedPool) setWorkers(n int) {
	p.change(func(t *shards.Table) (*shards.Table, []*shards.Shard) {
		workers := make([]shards.Worker, n)
		for i := range workers {
			workers[i] = shards.Worker{ID: uint64(i), Ranks: 1, MaxBatchedTokens: 50 + 50*int64(i%2), TotalKVBlocks: 12 * int64(i%3)}
			for j, taint := range []string{"most", "half", "rare"} {
				if i%(1+j*j) == 0 && (j > 0 || i%7 != 0) {
					workers[i].Taints = append(workers[i].Taints, taint)
				}
			}
		}
		next, gone, err := t.Replaced(workers, func(id lifecycle.RankID) *shards.Shard { return shards.NewShard(id, p.env) })
		require.NoError(p.t, err)
		return next, gone
	})
}

func (p *indexedPool) step() {
	slots := p.world.Table.Slots()
	switch p.rnd.IntN(40) {
	case 0:
		ids := []uint64{p.rnd.Uint64N(uint64(len(slots))), p.rnd.Uint64N(uint64(len(slots)))}
		p.change(func(t *shards.Table) (*shards.Table, []*shards.Shard) { return t.WithOverloaded(ids), nil })
	case 1:
		if p.rnd.IntN(10) == 0 {
			p.setWorkers(min(400, len(p.world.Table.Slots())/100*100+shards.IndexedFrom+p.rnd.IntN(60+len(p.world.Table.Slots()))))
		}
	case 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
		for b, s := range p.live {
			s.Lock()
			if p.rnd.IntN(2) == 0 {
				s.PrefillDoneLocked(b)
			} else {
				s.ReleaseLocked(b)
				delete(p.live, b)
			}
			s.Unlock()
			break
		}
	default:
		s := slots[p.rnd.IntN(len(slots))].Shard
		b := &lifecycle.Booking{Tokens: p.rnd.Int64N(60), Tracked: true, Expected: lifecycle.NoDuration}
		switch p.rnd.IntN(8) {
		case 0, 1:
			b.Expected = 0 // done at once, so it never decays
		case 2:
			b.Expected = time.Duration(1 + p.rnd.IntN(100))
		case 3:
			if p.rnd.IntN(10) == 0 {
				b.Tokens = 1 << (36 + p.rnd.IntN(27)) // out of the keys' range
			}
		}
		p.now += p.rnd.Int64N(4)
		s.Lock()
		s.BookLocked(b, p.blocks())
		s.Unlock()
		p.live[b] = s
	}
	if p.rnd.IntN(10) == 0 {
		next := *p.world
		next.Selector = []selector.Selector{
			selector.KV(), selector.KV(), selector.LeastLoaded(), selector.Random(), selector.RoundRobin(), selector.PowerOfTwo(),
		}[p.rnd.IntN(6)]
		p.world = next.Made()
	}
	switch p.rnd.IntN(300) {
	case 0:
		// All busy, for a while.
		for i := range slots {
			b := &lifecycle.Booking{Tokens: 31, Tracked: true, Expected: lifecycle.NoDuration}
			slots[i].Shard.Lock()
			slots[i].Shard.BookLocked(b, nil)
			slots[i].Shard.Unlock()
			p.live[b] = slots[i].Shard
		}
	case 1:
		for b, s := range p.live {
			s.Lock()
			s.PrefillDoneLocked(b)
			s.Unlock()
		}
	}
	if p.rnd.IntN(200) == 0 {
		// A prefix that is live on all ranks.
		for i := range slots {
			s := slots[i].Shard
			b := &lifecycle.Booking{Tracked: false, Expected: lifecycle.NoDuration}
			s.Lock()
			s.BookLocked(b, []uint64{1, 2})
			s.Unlock()
			p.live[b] = s
		}
	}
}

func (p *indexedPool) blocks() []uint64 {
	var blocks []uint64
	for i := range p.rnd.IntN(6) {
		blocks = append(blocks, uint64(1+i)+uint64(p.rnd.IntN(8)/7)*100)
	}
	return blocks
}

func (p *indexedPool) request() *Request {
	r := &Request{ISL: 1 + p.rnd.Int64N(100), Blocks: p.blocks(), Tracked: true, Params: p.params(), Expected: lifecycle.NoDuration}
	if p.rnd.IntN(2) == 0 {
		var overlaps []lifecycle.Overlap
		for range p.rnd.IntN(4) {
			overlaps = append(overlaps, lifecycle.Overlap{
				Rank:   lifecycle.RankID{Worker: p.rnd.Uint64N(uint64(len(p.world.Table.Slots())) + 3)},
				Device: float64(p.rnd.IntN(8)), Host: float64(p.rnd.IntN(3)),
			})
		}
		if Distinct(overlaps, new([]lifecycle.RankID)) {
			r.Overlaps = overlaps
		}
	}
	if p.rnd.IntN(10) == 0 {
		r.HasPrefer, r.Prefer = true, lifecycle.RankID{Worker: p.rnd.Uint64N(uint64(len(p.world.Table.Slots())))}
	}
	if p.rnd.IntN(8) == 0 {
		r.ISL = 0
	}
	if p.rnd.IntN(8) == 0 {
		r.Tracked = false
	}
	if p.rnd.IntN(8) == 0 {
		r.Params.CreditDecay = 1
	}
	n := len(p.world.Table.Slots())
	c := &r.Constraints
	switch p.rnd.IntN(12) {
	case 0, 1:
		c.Excluded = p.ids(1 + p.rnd.IntN(5))
	case 2:
		c.Excluded = p.ids(n/2 + 10)
	case 3:
		c.Allowed = p.ids(1 + p.rnd.IntN(10))
	case 4, 5:
		c.Allowed = p.ids(2 * n)
	case 6:
		c.RequiredTaints = []string{[]string{"most", "half", "rare"}[p.rnd.IntN(3)]}
	case 7:
		if len(p.lists) > 0 {
			*c = p.lists[p.rnd.IntN(len(p.lists))] // comes again
		}
	}
	if p.lists = append(p.lists, *c); len(p.lists) > 5 {
		p.lists = p.lists[1:]
	}
	return r
}

func (p *indexedPool) ids(n int) []uint64 {
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = p.rnd.Uint64N(uint64(len(p.world.Table.Slots()) + 3))
	}
	return ids
}
