package pool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// classes are one of each kind: by their place in the profile.
const classes = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 100, bucket: long}]
policy_classes:
  - {name: f-short, policy_family: f, cache_bucket: short, quantum: 1, prefill_busy_threshold: 30}
  - {name: f-long, policy_family: f, cache_bucket: long, quantum: 1, prefill_busy_threshold: 0}
  - {name: frac, quantum: 1, prefill_busy_threshold_frac: 0.5}
  - {name: half, quantum: 1, prefill_busy_threshold: 20, busy_worker_ratio: 0.5}
  - {name: third, quantum: 1, prefill_busy_threshold: 20, prefill_busy_threshold_frac: 0.1, busy_worker_ratio: 0.34}
  - {name: whole, quantum: 1, prefill_busy_threshold: 20, busy_worker_ratio: 1}
  - {name: open, quantum: 1}
`

func profile(t testing.TB) *policy.Profile {
	t.Helper()
	return withCaps(t, classes)
}

// withCaps appends classes whose ranks are busy by requests or blocks to those of a
// policy file.
func withCaps(t testing.TB, text string) *policy.Profile {
	t.Helper()
	file, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	cfg := file.For("").Config()
	threshold, frac := int64(30), 0.55
	cfg.Classes = append(
		cfg.Classes,
		policy.Class{Name: "capped", Quantum: 1, MaxRequestsPerRank: 2},
		policy.Class{Name: "mixed", Quantum: 1, MaxRequestsPerRank: 3, BusyThreshold: &threshold},
		policy.Class{Name: "kv", Quantum: 1, KVBusyThresholdFrac: &frac},
		policy.Class{Name: "all", Quantum: 1, MaxRequestsPerRank: 4, BusyThreshold: &threshold, KVBusyThresholdFrac: &frac},
	)
	p, err := policy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func classOf(t testing.TB, w *World, name string) int {
	t.Helper()
	for i := range w.Profile.Len() {
		if w.Profile.Class(i).Name == name {
			return i
		}
	}
	t.Fatalf("no class %q", name)
	return 0
}

func rank(worker uint64, r uint32) lifecycle.RankID { return lifecycle.RankID{Worker: worker, Rank: r} }

// fleet is a world with the means to load it.
type fleet struct {
	t     testing.TB
	env   *shards.Env
	now   int64
	world *World
}

func newFleet(t testing.TB, workers ...shards.Worker) *fleet {
	t.Helper()
	f := &fleet{t: t}
	f.env = &shards.Env{Now: func() int64 { return f.now }}
	f.setWorkers(workers...)
	return f
}

func (f *fleet) setWorkers(workers ...shards.Worker) {
	f.t.Helper()
	table, _, err := shards.NewTable().With(workers, f.newShard)
	if err != nil {
		f.t.Fatal(err)
	}
	f.world = World{Table: table, Profile: profile(f.t), Selector: selector.KV()}.Made()
}

func (f *fleet) newShard(id lifecycle.RankID) *shards.Shard { return shards.NewShard(id, f.env) }

// change replaces the table.
func (f *fleet) change(edit func(*shards.Table) *shards.Table) {
	next := *f.world
	next.Table = edit(next.Table)
	f.world = next.Made()
}

func (f *fleet) shard(id lifecycle.RankID) *shards.Shard {
	f.t.Helper()
	place := f.world.Table.Slot(id)
	if place < 0 {
		f.t.Fatalf("no rank %v", id)
	}
	return f.world.Table.Slots()[place].Shard
}

// book puts tokens on a rank; a duration below 0 is none.
func (f *fleet) book(id lifecycle.RankID, tokens int64, d time.Duration, blocks ...uint64) *lifecycle.Booking {
	f.t.Helper()
	b := &lifecycle.Booking{Tokens: tokens, Tracked: true, Expected: d}
	s := f.shard(id)
	s.Lock()
	s.BookLocked(b, blocks)
	s.Unlock()
	return b
}

func (f *fleet) release(id lifecycle.RankID, b *lifecycle.Booking) {
	s := f.shard(id)
	s.Lock()
	s.ReleaseLocked(b)
	s.Unlock()
}

// params are the usual values.
func params() selector.Params {
	return selector.Params{BlockSize: 4, OverlapCredit: 1, PrefillScale: 1, Tiers: selector.DefaultTierWeights()}
}

// randomFleet draws workers, what is said of them, and their load.
func randomFleet(t testing.TB, rnd *rand.Rand) *fleet {
	f := &fleet{t: t}
	f.env = &shards.Env{Now: func() int64 { return f.now }, NoPrefixIndex: rnd.IntN(4) == 0}
	var workers []shards.Worker
	for id := range uint64(1 + rnd.IntN(6)) {
		var taints []string
		for _, taint := range []string{"a", "b", "c"} {
			if rnd.IntN(2) == 0 {
				taints = append(taints, taint)
			}
		}
		workers = append(workers, shards.Worker{
			ID: id, StartRank: rnd.Uint32N(2), Ranks: 1 + rnd.Uint32N(3), Taints: taints,
			MaxBatchedTokens: 1 + rnd.Int64N(100), TotalKVBlocks: rnd.Int64N(12), Endpoint: fmt.Sprint("host ", id),
		})
	}
	f.setWorkers(workers...)
	f.change(func(table *shards.Table) *shards.Table {
		if rnd.IntN(3) == 0 {
			table = table.WithOverloaded([]uint64{rnd.Uint64N(6), rnd.Uint64N(6)})
		}
		if rnd.IntN(4) == 0 {
			table = table.WithAvailable([]uint64{0, 1, rnd.Uint64N(6), rnd.Uint64N(6)})
		}
		if next, ok := table.WithDraining(rnd.Uint64N(8), true); ok && rnd.IntN(2) == 0 {
			table = next
		}
		return table
	})
	for _, slot := range f.world.Table.Slots() {
		for range rnd.IntN(4) {
			d := lifecycle.NoDuration
			if rnd.IntN(3) > 0 {
				d = time.Duration(rnd.IntN(100))
			}
			f.now = rnd.Int64N(20)
			f.book(slot.Shard.ID(), rnd.Int64N(60), d, randomBlocks(rnd)...)
		}
	}
	f.now = 20
	return f
}

func randomBlocks(rnd *rand.Rand) []uint64 {
	blocks := make([]uint64, rnd.IntN(6))
	for i := range blocks {
		blocks[i] = rnd.Uint64N(2) * rnd.Uint64N(2)
	}
	return blocks
}

func randomRequest(rnd *rand.Rand) *Request {
	r := &Request{
		ISL: rnd.Int64N(200), Blocks: randomBlocks(rnd), Tracked: rnd.IntN(4) > 0, Params: params(),
		Expected: lifecycle.NoDuration,
	}
	var overlaps []lifecycle.Overlap
	for range rnd.IntN(6) {
		overlaps = append(overlaps, lifecycle.Overlap{
			Rank: rank(rnd.Uint64N(7), rnd.Uint32N(4)), Device: float64(rnd.IntN(30)), Host: rnd.Float64() * 4, Disk: rnd.Float64(),
		})
	}
	if Distinct(overlaps, new([]lifecycle.RankID)) {
		r.Overlaps = overlaps
	}
	if rnd.IntN(4) == 0 {
		r.Constraints.Pinned, r.Constraints.Pin = true, rank(rnd.Uint64N(7), rnd.Uint32N(3))
	}
	if rnd.IntN(3) == 0 {
		r.Constraints.Allowed = []uint64{rnd.Uint64N(7), rnd.Uint64N(7), rnd.Uint64N(7)}
	}
	if rnd.IntN(3) == 0 {
		r.Constraints.Excluded = []uint64{rnd.Uint64N(7)}
	}
	if rnd.IntN(4) == 0 {
		r.Constraints.RequiredTaints = []string{[]string{"a", "b", "c", "d"}[rnd.IntN(4)]}
	}
	if rnd.IntN(3) == 0 {
		r.Taints = SortTaints(map[string]float64{"a": rnd.Float64(), "b": -rnd.Float64(), "z": 3})
	}
	return r
}

// eligible lists the slots that may serve a request, overload aside, one by one.
func (f *fleet) eligible(r *Request) (slots []*shards.Slot) {
	for i := range f.world.Table.Slots() {
		slot := &f.world.Table.Slots()[i]
		id := slot.Shard.ID()
		check := f.world.Table.CheckRank(&r.Constraints, id)
		if (check == shards.Eligible || check == shards.Overloaded) && (!r.Constraints.Pinned || r.Constraints.Pin == id) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// load reads a rank's load under its lock.
func load(s *shards.Shard, blocks []uint64) (lifecycle.Load, int) {
	s.Lock()
	defer s.Unlock()
	return s.LoadLocked(), s.LivePrefixLocked(blocks)
}

// busyFor applies the rule of a class to a rank with so many active prefill tokens.
func (f *fleet) busyFor(class int, slot *shards.Slot, active int64) bool {
	c := f.world.Profile.Class(class)
	have, _ := load(slot.Shard, nil)
	if c.MaxRequestsPerRank > 0 && have.Requests >= c.MaxRequestsPerRank {
		return true
	}
	if total := slot.Worker.TotalKVBlocks; c.KVBusyThresholdFrac != nil && total > 0 && float64(have.Blocks) > *c.KVBusyThresholdFrac*float64(total) {
		return true
	}
	if c.BusyThreshold != nil && active > *c.BusyThreshold {
		return true
	}
	return c.BusyThresholdFrac != nil && float64(active) > *c.BusyThresholdFrac*float64(slot.Worker.MaxBatchedTokens)
}

// mustWait applies the rule of a class to counts.
func (f *fleet) mustWait(class, blocked, eligible int) bool {
	c := f.world.Profile.Class(class)
	ratio := c.BusyWorkerRatio
	if ratio == 0 {
		ratio = 1
	}
	return c.CanQueue() && eligible > 0 && float64(blocked) >= ratio*float64(eligible)
}

// overlapOf looks through all overlaps of a request.
func overlapOf(r *Request, id lifecycle.RankID) lifecycle.Overlap {
	at := slices.IndexFunc(r.Overlaps, func(o lifecycle.Overlap) bool { return o.Rank == id })
	if at < 0 {
		return lifecycle.Overlap{Rank: id}
	}
	return r.Overlaps[at]
}

func cachedOf(r *Request, id lifecycle.RankID) int64 {
	o := overlapOf(r, id)
	return r.Params.Tiers.CachedTokens(o.Device, o.Host, o.Disk, r.Params.BlockSize, r.ISL)
}
