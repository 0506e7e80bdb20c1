package shards

import (
	"math/bits"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
)

// Any finds a rank that the judge takes, nil if there is none: it is asked about
// those whose keys do not rule out that they have at most so much prefill and so many
// requests. Groups whose heads do are passed over. It begins at a random group, so
// that not all callers find the same rank.
func (x *LoadIndex) Any(q *Query, prefill, requests int64) *Shard {
	prefill, requests = min(prefill, beyond), min(requests, beyond)
	groups := len(x.loose[ByPrefill])
	start := 0
	if groups > 1 {
		start = int(chance.Below(q.Rand, uint64(groups)))
	}
	rulesOut := func(d Dimension, group int, most int64) bool {
		head := x.heads[d][group].Load()
		return int64(head>>keyShift) > most && head&looseFlag == 0
	}
	for i := range groups {
		group := (start + i) % groups
		if x.locks != nil {
			if q.Read += 2; rulesOut(ByPrefill, group, prefill) || rulesOut(ByRequests, group, requests) {
				continue
			}
		}
		for ranks := x.ranks(q, group); ranks != 0; ranks &= ranks - 1 {
			at := group*groupSize + bits.TrailingZeros64(ranks)
			if q.Read++; x.keys[ByPrefill][at].Load() > prefill || x.keys[ByRequests][at].Load() > requests {
				continue
			}
			q.Judged++
			if s := x.shards[at].Load(); s != nil && q.Judge.Take(s) {
				return s
			}
		}
	}
	return nil
}

// ranks returns the spots of a group that may be found.
func (x *LoadIndex) ranks(q *Query, group int) uint64 {
	ranks := ^uint64(0)
	if x.locks == nil {
		ranks = 1<<len(x.shards) - 1
	}
	if q.Among != nil {
		ranks &= q.Among[group]
	}
	return ranks
}
