package simrank

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type held map[uint64]bool

func (h held) Add(block uint64) {
	if h[block] {
		panic("added twice")
	}
	h[block] = true
}

func (h held) Remove(block uint64) {
	if !h[block] {
		panic("removed but not there")
	}
	delete(h, block)
}

func (h held) list() []uint64 { return slices.Sorted(maps.Keys(h)) }

var small = Config{PrefillRate: 1000, DecodeRate: 10, DecodeSlots: 1, KVBlocks: 100, Block: 10}

const ms = time.Millisecond

// TestABatchDecodesSlower: each makes half as much with one more beside it, if
// the batch is one.
func TestABatchDecodesSlower(t *testing.T) {
	cfg := small
	cfg.DecodeSlots, cfg.DecodeBatch = 2, 1
	r := New(cfg, held{})
	// Prefills end at 10 and 20 ms. The first would make its 5 tokens after the first
	// one in 400 ms. After 10 ms it has company, and the other 390 take 780.
	r.Submit(0, Job{Tag: 1, ISL: 10, OSL: 5}, nil)
	r.Submit(0, Job{Tag: 2, ISL: 10, OSL: 7}, nil)
	// The second has made 390 of its 600 ms by then, and is alone again.
	require.Equal(t, []Event{
		{1, FirstToken, 10 * ms},
		{2, FirstToken, 20 * ms},
		{1, Finished, 800 * ms},
		{2, Finished, 1010 * ms},
	}, r.Advance(10*time.Second, nil))
}

func TestOneJob(t *testing.T) {
	index := held{}
	r := New(small, index)
	_, ok := r.Next()
	require.False(t, ok)

	require.Empty(t, r.Submit(5*ms, Job{Tag: 7, ISL: 35, OSL: 25, Blocks: []uint64{1, 2, 3}}, nil))
	at, ok := r.Next()
	require.True(t, ok)
	require.Equal(t, 40*ms, at, "35 tokens at 1,000 a second")
	require.Empty(t, index, "not reusable before it is computed")
	require.Empty(t, r.Advance(39*ms, nil))

	// Tokens 10, 20 and 25, one each 100 ms after the first.
	require.Equal(t, []Event{
		{7, FirstToken, 40 * ms},
		{7, OutputBlock, 940 * ms},
		{7, OutputBlock, 1940 * ms},
		{7, Finished, 2440 * ms},
	}, r.Advance(10*time.Second, nil))
	require.Equal(t, []uint64{1, 2, 3}, index.list())
	require.Equal(t, Totals{Jobs: 1, Prompt: 35}, r.Totals())
	_, ok = r.Next()
	require.False(t, ok)
}

func TestPrefillIsFIFOAndReuses(t *testing.T) {
	r := New(small, held{})
	r.Submit(0, Job{Tag: 1, ISL: 35, Blocks: []uint64{1, 2, 3}}, nil)
	r.Submit(10*ms, Job{Tag: 2, ISL: 40, OSL: 1, Blocks: []uint64{1, 2, 4, 5}}, nil)
	events := r.Submit(36*ms, Job{Tag: 3, ISL: 30, OSL: 10, Blocks: []uint64{1, 2, 3}}, nil)
	require.Equal(t, []Event{{1, FirstToken, 35 * ms}, {1, Finished, 35 * ms}}, events)
	// Job 2 begins at 35 ms with 20 of 40 tokens cached, job 3 has all of them.
	require.Equal(t, []Event{
		{2, FirstToken, 55 * ms}, {2, Finished, 55 * ms},
		{3, FirstToken, 55 * ms},
		{3, OutputBlock, 955 * ms}, {3, Finished, 955 * ms},
	}, r.Advance(time.Second, nil))
	require.Equal(t, Totals{Jobs: 3, Prompt: 105, Cached: 50}, r.Totals())
}

func TestDecodeSlots(t *testing.T) {
	r := New(small, held{})
	for tag := range 3 {
		r.Submit(0, Job{Tag: tag, ISL: 10, OSL: 5}, nil)
	}
	// First tokens at 10, 20, 30 ms; each decode takes 400 ms of the one slot.
	require.Equal(t, []Event{
		{0, FirstToken, 10 * ms}, {1, FirstToken, 20 * ms}, {2, FirstToken, 30 * ms},
		{0, Finished, 410 * ms}, {1, Finished, 810 * ms}, {2, Finished, 1210 * ms},
	}, r.Advance(2*time.Second, nil))

	two := small
	two.DecodeSlots = 2
	r = New(two, held{})
	for tag := range 3 {
		r.Submit(0, Job{Tag: tag, ISL: 10, OSL: 5}, nil)
	}
	require.Equal(t, []Event{
		{0, FirstToken, 10 * ms}, {1, FirstToken, 20 * ms}, {2, FirstToken, 30 * ms},
		{0, Finished, 410 * ms}, {1, Finished, 420 * ms}, {2, Finished, 810 * ms},
	}, r.Advance(2*time.Second, nil))
}

func TestEmptyJobAndBlockOfOne(t *testing.T) {
	one := small
	one.Block = 1
	r := New(one, held{})
	require.Empty(t, r.Submit(5*ms, Job{Tag: 1}, nil))
	require.Equal(t, []Event{{1, FirstToken, 5 * ms}, {1, Finished, 5 * ms}}, r.Advance(5*ms, nil))
	r.Submit(6*ms, Job{Tag: 2, OSL: 2}, nil)
	require.Equal(t, []Event{
		{2, FirstToken, 6 * ms}, {2, OutputBlock, 6 * ms},
		{2, OutputBlock, 106 * ms}, {2, Finished, 106 * ms},
	}, r.Advance(time.Second, nil))
}

func TestLRU(t *testing.T) {
	cfg := small
	cfg.KVBlocks = 4
	index := held{}
	r := New(cfg, index)
	at := time.Duration(0)
	run := func(blocks ...uint64) int64 {
		before := r.Totals().Cached
		r.Submit(at, Job{ISL: int64(len(blocks)) * 10, Blocks: blocks}, nil)
		at += time.Second
		r.Advance(at, nil)
		return r.Totals().Cached - before
	}
	require.Zero(t, run(1, 2))
	require.Zero(t, run(3, 4))
	require.Equal(t, []uint64{1, 2, 3, 4}, index.list())
	require.Equal(t, int64(20), run(1, 2))
	require.Zero(t, run(5))
	require.Equal(t, []uint64{1, 2, 3, 5}, index.list(), "the deepest of the least recently used goes first")
	require.Equal(t, int64(10), run(3, 6), "evicts the oldest that is not in use")
	require.Equal(t, []uint64{1, 3, 5, 6}, index.list())
	require.Zero(t, run(10, 11, 12, 13, 14, 15), "larger than the cache, and still it runs")
	require.Equal(t, []uint64{10, 11, 12, 13}, index.list())
}

func TestFullCacheHoldsBackPrefill(t *testing.T) {
	cfg := small
	cfg.KVBlocks = 5
	cfg.DecodeSlots = 4
	r := New(cfg, held{})
	// Each takes three blocks with its output, so that one runs at a time, but
	// the third shares two of them with the second.
	r.Submit(0, Job{Tag: 1, ISL: 20, OSL: 6, Blocks: []uint64{1, 2}}, nil)
	r.Submit(0, Job{Tag: 2, ISL: 20, OSL: 6, Blocks: []uint64{3, 4}}, nil)
	r.Submit(0, Job{Tag: 3, ISL: 20, OSL: 6, Blocks: []uint64{3, 4}}, nil)
	require.Equal(t, []Event{
		{1, FirstToken, 20 * ms}, {1, Finished, 520 * ms},
		{2, FirstToken, 540 * ms}, {3, FirstToken, 540 * ms},
		{2, Finished, 1040 * ms}, {3, Finished, 1040 * ms},
	}, r.Advance(2*time.Second, nil))
}

// TestRandom: whatever comes, each job ends once, in order, and the cache keeps
// its bound and its books; and events do not depend on when they are asked for.
func TestRandom(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{
			PrefillRate: 100 + 1000*rng.Float64(), DecodeRate: 1 + 100*rng.Float64(),
			DecodeSlots: 1 + rng.IntN(4), KVBlocks: 1 + rng.Int64N(30), Block: 1 + rng.Int64N(10),
		}
		index := held{}
		lazy, eager := New(cfg, held{}), New(cfg, index)
		var a, b []Event
		now := time.Duration(0)
		const jobs = 40
		for tag := range jobs {
			job := Job{Tag: tag, ISL: rng.Int64N(100), OSL: rng.Int64N(30)}
			family := rng.Uint64N(3)
			for i := range job.ISL / cfg.Block {
				job.Blocks = append(job.Blocks, family*1000+uint64(i))
			}
			a = lazy.Submit(now, job, a)
			b = eager.Submit(now, job, b)
			until := now + time.Duration(rng.Int64N(int64(200*ms)))
			for at, ok := eager.Next(); ok && at <= until; at, ok = eager.Next() {
				b = eager.Advance(at, b)
			}
			now = until
			eager.cache.check(t, index)
		}
		a, b = lazy.Advance(1e6*time.Second, a), eager.Advance(1e6*time.Second, b)
		require.Equal(t, a, b)
		require.True(t, slices.IsSortedFunc(a, func(x, y Event) int { return int(x.At - y.At) }))
		stage := make([]Kind, jobs)
		for _, e := range a {
			require.True(t, e.Kind > stage[e.Tag] || e.Kind == OutputBlock && stage[e.Tag] == OutputBlock)
			stage[e.Tag] = e.Kind
		}
		for tag := range stage {
			require.Equal(t, Finished, stage[tag])
		}
		require.Zero(t, eager.cache.pinned)
		require.Zero(t, eager.cache.private)
		require.LessOrEqual(t, int64(len(eager.cache.blocks)), cfg.KVBlocks)
	}
}

func (c *cache) check(t *testing.T, index held) {
	pinned, unpinned, computed := int64(0), 0, 0
	for _, b := range c.blocks {
		if b.refs > 0 {
			pinned++
		}
		if b.computed {
			computed++
			require.True(t, index[b.hash])
		}
	}
	for b := c.lru.next; b != &c.lru; b = b.next {
		require.Zero(t, b.refs)
		unpinned++
	}
	require.Equal(t, c.pinned, pinned)
	require.Equal(t, len(c.blocks), int(pinned)+unpinned)
	require.Len(t, index, computed)
	if unpinned > 0 {
		require.LessOrEqual(t, int64(len(c.blocks))+c.private, c.capacity)
	}
}
