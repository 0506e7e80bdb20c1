package model

import (
	"math"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// rank is one data-parallel rank and its load.
type rank struct {
	id      sched.RankID
	worker  *worker
	prefill prefill
	blocks  blocks
}

// eligible returns the ranks that may serve a request, overload aside, in
// worker/rank order.
func (m *Model) eligible(q *sched.Request) []*rank {
	var out []*rank
	for _, r := range m.ranks() {
		id := r.id.Worker
		ok := (q.Pin == nil || *q.Pin == r.id) &&
			(q.Allowed == nil || slices.Contains(q.Allowed, id)) && !slices.Contains(q.Excluded, id) &&
			(m.available == nil || slices.Contains(m.available, id)) && !r.worker.draining
		for _, t := range q.RequiredTaints {
			ok = ok && slices.Contains(r.worker.Taints, t)
		}
		if ok {
			out = append(out, r)
		}
	}
	return out
}

// load is what makes the rank busy.
func (m *Model) load(r *rank) Load {
	return Load{
		Prefill: r.prefill.active(m.now()), Requests: r.blocks.requests(), Blocks: r.blocks.active(),
		MaxBatched: r.worker.MaxBatchedTokens, TotalBlocks: r.worker.TotalKVBlocks,
	}
}

// usable are the eligible ranks that are not overloaded.
func (m *Model) usable(q *sched.Request) []*rank {
	return slices.DeleteFunc(m.eligible(q), m.isOverloaded)
}

func (m *Model) isOverloaded(r *rank) bool {
	return slices.Contains(m.overloaded, r.id.Worker) || m.now() < r.worker.aside
}

// open are the usable ranks among which a class may choose.
func (m *Model) open(class int, q *sched.Request) []*rank {
	c := &m.profile.Classes[class]
	ranks := m.usable(q)
	if q.Pin != nil {
		return ranks
	}
	all := len(ranks)
	ranks = slices.DeleteFunc(ranks, func(r *rank) bool { return c.Idle && c.Busy(m.load(r)) })
	if len(ranks) < all {
		m.saw("3 from idle ranks")
	}
	all = len(ranks)
	ranks = slices.DeleteFunc(ranks, func(r *rank) bool { return m.guarded(class, r) })
	if len(ranks) < all {
		m.saw("12 guarded rank left out")
	}
	return ranks
}

// choose picks the rank for a request among some, or says why there is none.
func (m *Model) choose(q *sched.Request, ranks []*rank) (*rank, error) {
	if len(ranks) == 0 {
		return nil, m.noRank(q)
	}
	if q.Prefer != nil {
		for _, r := range ranks {
			if r.id == *q.Prefer {
				return r, nil
			}
		}
	}
	switch m.setup.Selector {
	case "round-robin":
		for _, r := range ranks {
			if m.last != nil && after(r.id, *m.last) {
				return r, nil
			}
		}
		return ranks[0], nil
	case "least-loaded":
		return least(ranks, func(r *rank) float64 { return float64(r.blocks.requests()) }), nil
	default:
		return least(ranks, func(r *rank) float64 { return m.cost(q, r, ranks) }), nil
	}
}

func (m *Model) noRank(q *sched.Request) error {
	code := sched.ErrNoEndpoints
	if len(m.eligible(q)) > 0 {
		if code = sched.ErrOverloaded; q.Pin != nil {
			code = sched.ErrPinnedOverloaded
		}
	}
	return refusal(q, code)
}

// least returns the rank with the least value, the first of equals.
func least(ranks []*rank, value func(*rank) float64) *rank {
	best, bestValue := ranks[0], value(ranks[0])
	for _, r := range ranks[1:] {
		if v := value(r); v < bestValue {
			best, bestValue = r, v
		}
	}
	return best
}

// cost is the KV cost of a request on a rank, one of those that can be chosen.
// The conversions keep the compiler from fusing products into sums.
func (m *Model) cost(q *sched.Request, r *rank, ranks []*rank) float64 {
	now := m.now()
	size := float64(m.setup.BlockSize)
	active := float64(r.prefill.active(now))
	raw, decay := active+float64(q.ISL), 1.0
	switch k := m.setup.CreditDecay; {
	case q.NoPrefillTracking:
		raw = 0
	case k != 0:
		lowest := math.Inf(1)
		for _, other := range ranks {
			lowest = min(lowest, float64(other.prefill.active(now)))
		}
		blocks := max(1, math.Ceil(float64(q.ISL)/size))
		decay = 1 / (1 + float64(k*float64((active-lowest)/size))/blocks)
	}
	o := overlapOn(q, r.id)
	credit := float64(float64(m.setup.OverlapCredit*decay)*o.Device) + float64(m.tiers.Host*o.Host) + float64(m.tiers.Disk*o.Disk)
	potential := float64(r.blocks.active() + r.blocks.additional(q.Blocks))
	requests := float64(float64(size*m.setup.RequestWeight) * float64(r.blocks.requests()))
	cost := float64(m.setup.PrefillScale*max(0, raw-float64(size*credit))) + float64(size*potential) + requests
	if m.setup.Role == "decode" && q.NoPrefillTracking && m.setup.OverlapCredit > 0 {
		cost = float64(size*max(0, potential-credit)) + requests
	}
	weight := 0.0
	for _, t := range r.worker.taintSet() {
		weight += q.PreferredTaints[t]
	}
	return cost * math.Exp(-math.Tanh(weight))
}

func overlapOn(q *sched.Request, id sched.RankID) sched.Overlap {
	for _, o := range q.Overlaps {
		if o.Rank == id {
			return o
		}
	}
	return sched.Overlap{Rank: id}
}

// cached returns the tokens of a request that a rank has in its caches.
func (m *Model) cached(q *sched.Request, id sched.RankID) int64 {
	o := overlapOn(q, id)
	blocks := float64(o.Device) + float64(m.tiers.Host*o.Host) + float64(m.tiers.Disk*o.Disk)
	return int64(min(math.Round(float64(blocks*float64(m.setup.BlockSize))), float64(q.ISL)))
}

// after orders ranks by worker, then rank.
func after(a, b sched.RankID) bool {
	return a.Worker > b.Worker || a.Worker == b.Worker && a.Rank > b.Rank
}
