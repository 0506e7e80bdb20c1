package pool

import (
	"math"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// takeIndexed looks at the few ranks of a large pool that can be the choice, and
// gives the selector just these:
//
//   - the ranks that hold part of the prompt in a cache, or more of it live than
//     all ranks do, and the preferred rank: their cost depends on the request;
//   - of all ranks, the two least loaded: among ranks without overlap, cost
//     differs only by their own load, and overlap only makes a rank cheaper than
//     its load says;
//   - if the class has a threshold, the ranks with the least prefill and the fewest
//     requests, as witnesses.
//
// No other rank can cost less than the second least loaded, which bounds what the
// choice may cost, then and when it is confirmed. So the outcome is that of a
// look at all ranks, which is the fallback for whatever breaks the premises, and
// the oracle of its test. It reports false, and that look is to be taken, if the
// index cannot tell: load that moves without an event, a temperature, weights per
// request, credit that depends on the others' load, constraints, ratios, ties by
// rank, a selector of the embedder's.
func (l *Look) takeIndexed(w *World, r *Request, class int, at Instant) bool {
	dimension, ok := w.dimension(r)
	if !ok || l.Rand == nil || !r.Constraints.Unconstrained() || len(r.Taints) > 0 {
		return false
	}
	gated := class >= 0 && w.Profile.Class(class).CanQueue()
	if gated && !w.indexedGate(class) {
		return false
	}
	var least gateLeast
	epoch, ok := w.Index.Begin()
	if !ok {
		return false
	}
	l.World, l.Request, l.Class, l.Instant = w, r, class, at
	l.Eligible, l.Overloaded = w.Table.Eligible()
	l.Busy = 0
	l.places, l.busy, l.candidates = l.places[:0], l.busy[:0], l.candidates[:0]

	cheapest, next := w.Index.Least(dimension, l.Rand.Uint64())
	if !l.place(cheapest.Shard) || next.Shard != nil && !l.place(next.Shard) {
		return false
	}
	if gated {
		least = l.gateLeast()
		for _, idlest := range least.ranks[:least.n] {
			if !l.place(idlest.Shard) {
				return false
			}
		}
	}
	if !l.placeConcerned() {
		return false
	}
	slices.Sort(l.places)
	places := slices.Compact(l.places)
	l.expect(len(places))
	slots := w.Table.Slots()
	for _, place := range places {
		l.see(place, &slots[place])
	}
	if gated && l.IdleCandidate(-1) < 0 {
		if !least.allBusy {
			return false
		}
		l.Busy = l.Eligible - l.Overloaded
	}
	l.fillOverlaps()
	l.applyDepths(slots, l.common)
	if !w.Index.Holds(epoch) {
		return false
	}
	l.indexed, l.whole = true, true
	l.others = l.costOf(dimension, next.Key)
	return true
}

// dimension returns by which measure of load the selector chooses among ranks
// without overlap; not ok if there is none.
func (w *World) dimension(r *Request) (d shards.Dimension, ok bool) {
	switch w.load {
	case selector.LoadCost:
		p := &r.Params
		return shards.ByCost, p.Temperature == 0 && p.CreditDecay == 0 && p.Ties == selector.TiesRandom &&
			p.PrefillScale == float64(w.Index.Weights().Prefill) && r.Tracked && r.ISL > 0 && r.ISL < maxExact
	case selector.LoadRequests:
		return shards.ByRequests, r.Params.Ties == selector.TiesRandom
	default:
		return 0, false
	}
}

// IndexWeights returns the weights of a load in the KV cost, all 0 if they are not
// whole: then the order by cost need not be the order by key.
func IndexWeights(p selector.Params) shards.Weights {
	request := float64(p.BlockSize) * p.RequestWeight
	if p.PrefillScale != math.Trunc(p.PrefillScale) || request != math.Trunc(request) ||
		max(p.PrefillScale, float64(p.BlockSize), request) > maxWeight {
		return shards.Weights{}
	}
	return shards.Weights{Prefill: int64(p.PrefillScale), Block: p.BlockSize, Request: int64(request)}
}

// maxWeight keeps weighted sums exact.
const maxWeight = 1 << 20

// maxExact bounds the numbers whose products with a block size are still exact
// as float64.
const maxExact = 1 << 31

// indexedGate reports whether the index can tell if a rank is idle for a class.
func (w *World) indexedGate(class int) bool {
	ratio := w.Profile.Class(class).BusyWorkerRatio
	return w.sameForAll[class] && len(w.busyAbove) > 0 && (ratio == 0 || ratio == 1)
}

// gateLeast are the ranks that say whether any is idle for the class: that with the
// least prefill and, if requests count, that with the fewest.
type gateLeast struct {
	ranks [2]shards.Found
	n     int
	// allBusy: one of them alone shows that every rank is busy. complete: if it does
	// not, that rank is idle; else it has to be looked at.
	allBusy, complete bool
}

// gateLeast looks up the ranks that are the likeliest to be idle for the class. If
// none is, and allBusy is not set, the index cannot tell. REQUIRES: indexedGate.
func (l *Look) gateLeast() (g gateLeast) {
	w := l.World
	above := w.firstBusyAbove(l.Class)
	prefill, _ := w.Index.Least(shards.ByPrefill, l.Rand.Uint64())
	g.ranks[0], g.n = prefill, 1
	g.allBusy = above.Exceeded(prefill.Key, 0, 0)
	if above.Requests != lifecycle.Never {
		requests, _ := w.Index.Least(shards.ByRequests, l.Rand.Uint64())
		g.ranks[1], g.n = requests, 2
		g.allBusy = g.allBusy || above.Exceeded(0, requests.Key, 0)
	}
	g.complete = g.n == 1 && above.Blocks == lifecycle.Never
	return g
}

// firstBusyAbove returns the load above which any rank is busy for a class.
// REQUIRES: indexedGate.
func (w *World) firstBusyAbove(class int) *lifecycle.BusyAbove {
	return &w.busyAbove[class*len(w.Table.Workers())]
}

// costOf returns what a rank without overlap costs that has the key.
func (l *Look) costOf(d shards.Dimension, key int64) float64 {
	switch {
	case key == math.MaxInt64:
		return math.Inf(1)
	case d == shards.ByRequests:
		return float64(key)
	}
	weights := l.World.Index.Weights()
	return float64(key + weights.Prefill*l.Request.ISL + weights.Block*int64(len(l.Request.Blocks)-l.common))
}

// place adds a rank to the places to look at; it reports false if the rank may
// not be chosen in this world.
func (l *Look) place(s *shards.Shard) bool {
	if s == nil {
		return false
	}
	place := l.World.Table.Slot(s.ID())
	if place < 0 {
		return false
	}
	slot := &l.World.Table.Slots()[place]
	if slot.Shard != s || !slot.Available || slot.Overloaded {
		return false
	}
	l.places = append(l.places, int32(place))
	return true
}

// placeConcerned adds the ranks whose cost depends on the request. It reports
// false if they are too many to be worth it.
func (l *Look) placeConcerned() bool {
	r, table := l.Request, l.World.Table
	most := len(table.Slots()) / 2
	l.findOverlaps()
	for i, place := range l.overlaps {
		// One that has nothing cached is as any other; to list it would favour it
		// among equals.
		if o := &r.Overlaps[i]; o.Device != 0 || o.Host != 0 || o.Disk != 0 {
			l.placeRank(int(place))
		}
	}
	if r.HasPrefer {
		l.placeRank(table.Slot(r.Prefer))
	}
	l.common = 0
	l.walk.Reset()
	prefixes := table.Slots()[0].Shard.Prefixes()
	if prefixes == nil || len(r.Blocks) == 0 {
		return len(l.places) <= most
	}
	l.walk.Find(prefixes, r.Blocks)
	var deeper int
	l.common, deeper = l.walk.HeldByAll(len(table.Slots()))
	if deeper < l.walk.Levels() {
		if len(l.places)+l.walk.Holders(deeper) > most {
			return false
		}
		// Who is deeper still is among these too.
		for shard := range l.walk.Each(deeper) {
			if place := table.Slot(shard.ID()); place >= 0 && table.Slots()[place].Shard == shard {
				l.placeRank(place)
			}
		}
	}
	return len(l.places) <= most
}

func (l *Look) placeRank(place int) {
	if place < 0 {
		return
	}
	if slot := &l.World.Table.Slots()[place]; slot.Available && !slot.Overloaded {
		l.places = append(l.places, int32(place))
	}
}

// gateIndexed says whether an unconstrained request must wait, if the index can
// tell.
func (l *Look) gateIndexed() (queue.Gate, bool) {
	w := l.World
	if l.Rand == nil || !l.Request.Constraints.Unconstrained() || !w.indexedGate(l.Class) {
		return queue.Gate{}, false
	}
	epoch, ok := w.Index.Begin()
	if !ok {
		return queue.Gate{}, false
	}
	gate := queue.Gate{Looked: 4}
	gate.Eligible, gate.Overloaded = w.Table.Eligible()
	if gate.Eligible > 0 && w.Profile.Class(l.Class).CanQueue() {
		least := l.gateLeast()
		idle := false
		for _, f := range least.ranks[:least.n] {
			if f.Shard != nil && !idle && !least.allBusy {
				idle = least.complete || l.idleNow(f.Shard)
			}
		}
		if !idle && !least.allBusy {
			return gate, false
		}
		gate.MustWait = !idle
	}
	return gate, w.Index.Holds(epoch)
}

// idleNow reports whether a rank of the index is idle for the class. REQUIRES:
// indexedGate.
func (l *Look) idleNow(s *shards.Shard) bool {
	view := &l.view
	s.Read(view)
	return !l.Instant.Busy(l.World.firstBusyAbove(l.Class), &view.Load)
}
