package pool

import (
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// What a selector of the embedder's gets to see: a copy, so that it cannot break
// what is decided by, of just what it declares that it reads.

// needsSafely asks a selector what it reads.
func needsSafely(s selector.Selector) (needs selector.Needs) {
	defer func() {
		if recover() != nil {
			needs = selector.NeedsAll
		}
	}()
	return selector.NeedsOf(s)
}

// lend returns the input for a selector of the embedder's. REQUIRES: l.input is
// that of this look.
func (l *Look) lend() *selector.Input {
	r, needs, in := l.Request, l.World.needs, &l.lent
	in.Params, in.ISL, in.TrackPrefill, in.Rand = l.input.Params, l.input.ISL, l.input.TrackPrefill, l.input.Rand
	in.LeastPrefill, in.Request = 0, selector.Facts{}
	in.Candidates, in.Workers = in.Candidates[:0], in.Workers[:0]
	if needs.Has(selector.NeedsLoad) {
		in.LeastPrefill = l.input.LeastPrefill
	}
	if needs.Has(selector.NeedsRequest) {
		in.Request = selector.Facts{
			ID: r.ID, Class: r.Class, Priority: r.Priority, ExpectedOSL: r.ExpectedOSL, Blocks: r.Blocks,
		}
	}
	for i := range l.candidates {
		seen := &l.candidates[i]
		c := selector.Candidate{Rank: seen.Rank}
		if needs.Has(selector.NeedsLoad) {
			c.ActivePrefill, c.ActiveBlocks, c.Requests = seen.ActivePrefill, seen.ActiveBlocks, seen.Requests
			c.Version = seen.Version
		}
		if needs.Has(selector.NeedsBlocks) {
			c.PotentialBlocks = seen.PotentialBlocks
		}
		if needs.Has(selector.NeedsCache) {
			c.Device, c.Host, c.Disk = seen.Device, seen.Host, seen.Disk
		}
		if needs.Has(selector.NeedsTaints) {
			c.TaintWeight = seen.TaintWeight
		}
		in.Candidates = append(in.Candidates, c)
		if needs.Has(selector.NeedsWorkers) {
			w := l.Slot(i).Worker
			worker := selector.Worker{
				Endpoint: w.Endpoint, MaxBatchedTokens: w.MaxBatchedTokens, TotalKVBlocks: w.TotalKVBlocks,
			}
			in.Workers = append(in.Workers, worker.WithSortedTaints(w.Taints))
		}
	}
	return in
}

// takeBack forgets what was lent, but for the room.
func (l *Look) takeBack() {
	if cap(l.lent.Workers) > 0 {
		clear(l.lent.Workers[:cap(l.lent.Workers)])
	}
	l.lent.Rand, l.lent.Request = nil, selector.Facts{}
}

// Complete fills in what the selector did not need to know of a candidate, and its
// booking does.
func (l *Look) Complete(candidate int) {
	if l.whole {
		return
	}
	r, c, needs := l.Request, &l.candidates[candidate], l.World.needs
	if !needs.Has(selector.NeedsCache) {
		for i := range r.Overlaps {
			if o := &r.Overlaps[i]; o.Rank == c.Rank {
				c.Device, c.Host, c.Disk = o.Device, o.Host, o.Disk
			}
		}
	}
	if !needs.Has(selector.NeedsBlocks) && len(r.Blocks) > 0 && c.Requests > 0 {
		c.PotentialBlocks = c.ActiveBlocks + int64(len(r.Blocks)-l.depthOn(l.Slot(candidate).Shard))
	}
}

// depthOn returns how many leading blocks of the request are live on a rank.
func (l *Look) depthOn(shard *shards.Shard) int {
	blocks := l.Request.Blocks
	if prefixes := shard.Prefixes(); prefixes != nil {
		l.walk.Find(prefixes, blocks)
		return l.walk.Depth(shard)
	}
	if shard.PrefixIndexed() {
		return 0
	}
	if !l.locked {
		shard.Lock()
		defer shard.Unlock()
	}
	return shard.LivePrefixLocked(blocks)
}
