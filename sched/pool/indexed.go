package pool

import (
	"math"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// indexed is what a look by way of the load index needs and knows.
type indexed struct {
	query shards.Query
	words []uint64 // room for query.Among
	own   bool     // query.Among is words

	// used: the candidates are only those that can be the choice, see takeIndexed;
	// others has the least cost that any other rank can have.
	used   bool
	others float64
	// moved: a look failed because ranks moved meanwhile; again counts those that
	// were taken anew.
	moved bool
	again int
	// choice is how many candidates may be chosen; the others are witnesses.
	// concerned are the first of these, in the order of the table: ranks whose cost
	// depends on the request. The next, if there is one, stands for all others that
	// are as cheap: those that have the key.
	choice, concerned int
	by                shards.Dimension
	key               int64
	// least is the least active prefill, if the cost depends on it.
	least int64
	// drawn: the selector compares no load, and the ranks were drawn for it.
	drawn bool
	// turn is the answer of a selector that goes by turn; inTurn if it is one.
	turn   selector.Pick
	inTurn bool
	// common is the number of leading blocks that were taken to be live on every
	// rank.
	common int
}

// retries is how often a look by way of the index is taken anew because ranks
// moved meanwhile.
const retries = 3

// take takes a look by way of the index if that can tell, else at all ranks.
func (l *Look) take(w *World, r *Request, class int, at Instant) {
	l.bound, l.Guarded = l.Guards.Binds(class), 0
	for w.Index != nil && !l.takeIndexed(w, r, class, at) {
		if !l.indexed.moved || l.indexed.again == retries {
			l.TakeAll(w, r, class, at)
			return
		}
		l.indexed.again++
	}
	if w.Index == nil {
		l.TakeAll(w, r, class, at)
	}
}

// takeIndexed looks at the few ranks of a large pool that can be the choice, and
// gives the selector just these:
//
//   - the ranks that hold part of the prompt in a cache, or more of it live than
//     all ranks do, and the preferred rank: their cost depends on the request;
//   - of all others, the least loaded, or one of those that are tied: among ranks
//     without overlap, cost differs only by their own load, and overlap only makes a
//     rank cheaper than its load says;
//   - if none of these is idle and the class has a threshold, one that is, as
//     witness.
//
// No other rank can cost less than the second least loaded, which bounds what the
// choice may cost, then and when it is confirmed. So the outcome is that of a
// look at all ranks, which is the fallback for whatever breaks the premises, and
// the oracle of its test. It reports false, and that look is to be taken, if the
// index cannot tell: a temperature, weights per request, preferred taints, a pin,
// ratios, ties by rank, a selector of the embedder's.
//
// Constraints are a set of spots that a search of the index may find: everything but a
// few excluded workers, or a selection that the table has made. A selector that
// compares no load gets the rank drawn, or next in turn, by its place among those that
// are open; the power of two choices the two that are drawn.
func (l *Look) takeIndexed(w *World, r *Request, class int, at Instant) bool {
	way, ok := w.way(r)
	if !ok || l.Rand == nil || r.Constraints.Pinned || w.choosesIdle(class) || l.bound {
		return false
	}
	gated := class >= 0 && w.Profile.Class(class).CanQueue()
	counted := gated && counts(w.Profile.Class(class))
	if gated && !counted && !w.indexedGate(class) || counted && w.ratios.rule[class] < 0 {
		return false
	}
	epoch, ok := w.Index.Begin()
	if !ok {
		return false
	}
	l.World, l.Request, l.Class, l.Instant = w, r, class, at
	x := &l.indexed
	x.moved = false
	places, ok := l.constrain(epoch)
	if !ok {
		return false
	}
	busy := 0
	if counted {
		if l.epoch = epoch; !l.countNow() {
			return false
		}
		busy = l.Busy
	}
	x.used, x.inTurn, x.drawn, x.least = false, false, way.drawn, math.MaxInt64
	l.places, l.busy, l.candidates = l.places[:0], l.busy[:0], l.candidates[:0]
	if way.drawn {
		ok = l.drawPlaces(places)
	} else {
		ok = l.findPlaces(way)
	}
	if !ok {
		return false
	}
	x.choice = len(l.places)
	l.expect(x.choice + 1)
	slots := w.Table.Slots()
	for _, place := range l.places[:x.choice] {
		l.see(place, &slots[place])
	}
	if !way.drawn {
		l.fillOverlaps()
		l.applyDepths(slots, x.common)
	}
	l.Busy = busy
	if gated && !counted && !l.witnessed(slots) || !w.Index.Holds(epoch) {
		x.moved = true
		return false
	}
	x.used, l.whole = true, !way.drawn
	return true
}

// takeAgain takes a look anew because what was found by way of the index has moved.
func (l *Look) takeAgain() {
	if l.indexed.again++; l.indexed.again > retries {
		l.TakeAll(l.World, l.Request, l.Class, l.Instant)
		return
	}
	l.take(l.World, l.Request, l.Class, l.Instant)
}

// way is how a selector's choice is found by way of the index.
type way struct {
	// drawn: by place. Else by a measure of load, and decays if the cost depends on
	// the least prefill too.
	drawn  bool
	by     shards.Dimension
	decays bool
}

// way returns how the choice is found; not ok if the index cannot tell.
func (w *World) way(r *Request) (way, bool) {
	p := &r.Params
	switch w.load {
	case selector.LoadNone, selector.LoadTwo:
		return way{drawn: true}, true
	case selector.LoadRequests:
		return way{by: shards.ByRequests}, p.Ties == selector.TiesRandom
	case selector.LoadCost:
		if p.Temperature > 0 || p.Ties != selector.TiesRandom || len(r.Taints) > 0 || r.ISL >= maxExact || w.Index.Weights().Block != p.BlockSize {
			return way{}, false
		}
		if !r.Tracked {
			return way{by: shards.ByBlocks}, true
		}
		return way{by: shards.ByCost, decays: p.CreditDecay != 0}, p.PrefillScale == float64(w.Index.Weights().Prefill)
	default:
		return way{}, false
	}
}

// findPlaces finds the ranks that can be the choice by their load.
func (l *Look) findPlaces(way way) bool {
	x := &l.indexed
	if !l.placeConcerned() {
		return false
	}
	x.concerned, x.by, l.sorted = len(l.places), way.by, len(l.places)
	slices.Sort(l.places)
	x.query.By = way.by
	found, ok := l.World.Index.Least(&x.query)
	if !ok || found.Shard != nil && !l.place(found.Shard) {
		x.moved = true
		return false
	}
	x.key, x.others = found.Key, l.costOf(way.by, found.Others)
	if way.decays && len(l.Request.Overlaps) > 0 {
		x.query.By = shards.ByPrefill
		least, ok := l.World.Index.Least(&x.query)
		if !ok {
			return false
		}
		x.least = least.Key
	}
	return len(l.places) > 0
}

// placeConcerned adds the ranks whose cost depends on the request, each once. It
// reports false if they are too many to be worth it.
func (l *Look) placeConcerned() bool {
	r, table := l.Request, l.World.Table
	most := len(table.Slots()) / 2
	l.findOverlaps()
	for i, place := range l.overlaps {
		// One that has nothing cached is as any other.
		if o := &r.Overlaps[i]; o.Device != 0 || o.Host != 0 || o.Disk != 0 {
			l.placeRank(int(place))
		}
	}
	if r.HasPrefer {
		l.placeRank(table.Slot(r.Prefer))
	}
	l.indexed.common = 0
	l.walk.Reset()
	prefixes := table.Slots()[0].Shard.Prefixes()
	if prefixes == nil || len(r.Blocks) == 0 {
		return len(l.places) <= most
	}
	l.walk.Find(prefixes, r.Blocks)
	var deeper int
	l.indexed.common, deeper = l.walk.HeldByAll(len(table.Slots()))
	if deeper < l.walk.Levels() {
		if len(l.places)+l.walk.Holders(deeper) > most {
			return false
		}
		// Ranks that are deeper still are among these too.
		for shard := range l.walk.Each(deeper) {
			if place := table.Slot(shard.ID()); place >= 0 && table.Slots()[place].Shard == shard {
				l.placeRank(place)
			}
		}
	}
	return len(l.places) <= most
}

// placeRank adds an eligible rank that searches then pass over.
func (l *Look) placeRank(place int) {
	if place < 0 {
		return
	}
	slot := &l.World.Table.Slots()[place]
	if slot.Available && !slot.Overloaded && l.leaveOut(slot.Shard) {
		l.places = append(l.places, int32(place))
	}
}

// place adds a rank to the places to look at; it reports false if the rank may
// not be chosen in this world.
func (l *Look) place(s *shards.Shard) bool {
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

// settleTie draws again among the candidates that are tied at the least cost, each
// for as many ranks as it stands for: the one that was found by its load stands for
// all that have the same.
func (l *Look) settleTie(in *selector.Input, pick selector.Pick) selector.Pick {
	x := &l.indexed
	cost := func(i int) float64 {
		if l.World.load == selector.LoadRequests {
			return float64(in.Candidates[i].Requests)
		}
		return selector.Cost(in, &in.Candidates[i])
	}
	if x.concerned == x.choice || cost(x.concerned) != pick.Cost {
		return pick // they stand for themselves
	}
	x.query.By = x.by
	stands := max(1, l.World.Index.Ties(&x.query, x.key))
	total := stands
	for i := range x.concerned {
		if cost(i) == pick.Cost {
			total++
		}
	}
	nth := int(chance.Below(l.Rand, uint64(total)))
	if pick.Index = x.concerned; nth < stands {
		return pick
	}
	nth -= stands
	for i := range x.concerned {
		if cost(i) == pick.Cost {
			if nth == 0 {
				pick.Index = i
			}
			nth--
		}
	}
	return pick
}
