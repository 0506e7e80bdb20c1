package pool

import (
	"math"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched/queue"
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

// constrain finds out which ranks are eligible: it counts them and says which spots
// of the index are theirs. It returns the places of those that are not overloaded,
// a few excluded workers aside. It is not ok if they are too few for the index.
func (l *Look) constrain(epoch uint64) (places []int32, ok bool) {
	x, table, c := &l.indexed, l.World.Table, &l.Request.Constraints
	if x.query.Among, x.own = nil, false; x.query.Rand == nil { // the conversion takes its time
		x.query.Rand, x.query.Judge = l.Rand, (*judge)(l)
	}
	switch {
	case c.Unconstrained():
		l.Eligible, l.Overloaded = table.Eligible()
		return table.Selection(c, &l.set).Open, true
	case c.FewExcluded():
		x.words, l.Eligible, l.Overloaded = table.AmongAllBut(c.Excluded, l.World.Index, x.words)
		x.query.Among, x.own = x.words, true
		return table.Selection(&shards.Constraints{}, &l.set).Open, true
	}
	set := table.Selection(c, &l.set)
	l.Eligible, l.Overloaded = len(set.Places), set.Overloaded()
	if len(set.Open) <= fewOpen {
		return nil, false
	}
	x.query.Among, x.own = set.Among(table, l.World.Index, epoch, x.words)
	if x.own {
		x.words = x.query.Among
	}
	return set.Open, true
}

// fewOpen is how many ranks are looked at one by one in the time of a search.
const fewOpen = 24

// leaveOut has searches pass over a rank of the index; it reports whether they
// would not have before.
func (l *Look) leaveOut(s *shards.Shard) bool {
	spot, x := s.Spot(), &l.indexed
	if spot < 0 {
		return false
	}
	word, bit := spot/64, uint64(1)<<(spot%64)
	switch {
	case word >= l.World.Index.Words() || x.query.Among != nil && x.query.Among[word]&bit == 0:
		return false
	case !x.own:
		from := x.query.Among
		if from == nil {
			from = l.World.Index.Every()
		}
		x.words = append(x.words[:0], from...)
		x.query.Among, x.own = x.words, true
	}
	x.words[word] &^= bit
	return true
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

// costOf returns what a rank without overlap costs that has the key.
func (l *Look) costOf(d shards.Dimension, key int64) float64 {
	weights := l.World.Index.Weights()
	switch {
	case !shards.Known(key):
		return math.Inf(1)
	case d == shards.ByRequests:
		return float64(key)
	case d == shards.ByCost:
		key += weights.Prefill * l.Request.ISL
	}
	return float64(key + weights.Block*int64(len(l.Request.Blocks)-l.indexed.common))
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
		// Who is deeper still is among these too.
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
	nth := int(shards.Below(l.Rand, uint64(total)))
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

// judge reads loads for the index.
type judge Look

// Key implements shards.Judge.
func (j *judge) Key(s *shards.Shard, d shards.Dimension) int64 {
	l := (*Look)(j)
	l.scanned++
	view := &l.view
	s.Read(view)
	return l.World.Index.Key(d, l.Instant.Active(&view.Prefill), view.Blocks, view.Requests)
}

// Take implements shards.Judge: it takes a rank that is idle for the class, and
// notes of one that is not when time alone makes it so, in Retests.
func (j *judge) Take(s *shards.Shard) bool {
	l := (*Look)(j)
	place := l.World.Table.Slot(s.ID())
	if place < 0 {
		return false
	}
	slot := &l.World.Table.Slots()[place]
	if slot.Shard != s || !slot.Available || slot.Overloaded {
		return false
	}
	l.scanned++
	view, above := &l.view, l.World.BusyAbove(l.Class, slot)
	s.Read(view)
	if !l.Instant.Busy(above, &view.Load) {
		return true
	}
	if view.Prefill.Decays() {
		if at, ever := above.IdleAt(&view.Load); ever {
			l.retests = append(l.retests, Retest{slot.Rank, at})
		}
	}
	return false
}

// witnessed finds out whether a rank is idle for the class: a candidate, or another.
func (l *Look) witnessed(slots []shards.Slot) bool {
	l.Busy = 0
	return l.IdleCandidate(-1) >= 0 || l.findWitness(slots)
}

// findWitness adds an idle rank, if there is one, as a candidate that is not to be
// chosen; else all are busy. It reports false if it cannot tell.
func (l *Look) findWitness(slots []shards.Slot) bool {
	s := l.findIdle()
	if s == nil {
		l.Busy = l.Eligible - l.Overloaded
		return true
	}
	n := len(l.places)
	if !l.place(s) {
		return false
	}
	place := l.places[n]
	l.places = l.places[:n]
	l.see(place, &slots[place])
	if l.busy[n] {
		return false // it is not any more
	}
	l.candidates[n].PotentialBlocks -= int64(l.indexed.common)
	l.Busy = 0
	return true
}

// findIdle returns an eligible rank that is idle for the class, nil if there was
// none: each was found busy.
func (l *Look) findIdle() *shards.Shard {
	x, most := &l.indexed, l.World.busyWhatever(l.Class)
	l.retests = l.retests[:0]
	return l.World.Index.Any(&x.query, most.Prefill, most.Requests)
}

// indexedGate reports whether the index can tell if a rank is idle for a class.
func (w *World) indexedGate(class int) bool {
	ratio := w.Profile.Class(class).BusyWorkerRatio
	return len(w.Table.Workers()) > 0 && (ratio == 0 || ratio == 1)
}

// gateIndexed says whether a request must wait, if the index can tell, and until
// when if time alone can end that.
func (l *Look) gateIndexed() (queue.Gate, bool) {
	w := l.World
	if l.Rand == nil || l.Request.Constraints.Pinned || !w.indexedGate(l.Class) {
		return queue.Gate{}, false
	}
	epoch, ok := w.Index.Begin()
	if !ok {
		return queue.Gate{}, false
	}
	if _, ok := l.constrain(epoch); !ok {
		return queue.Gate{}, false
	}
	gate := queue.Gate{Eligible: l.Eligible, Overloaded: l.Overloaded}
	l.Busy = 0
	read, judged := l.indexed.query.Read, l.indexed.query.Judged
	if gate.Eligible > 0 && w.Profile.Class(l.Class).CanQueue() {
		if s := l.findIdle(); s != nil {
			gate.Witness, gate.HasWitness = s.ID(), true
			l.retests = l.retests[:0]
		} else {
			gate.MustWait = true
			l.Busy = gate.Eligible - gate.Overloaded
		}
	}
	gate.Looked = 1 + l.indexed.query.Judged - judged + (l.indexed.query.Read-read)/keysPerRank
	return gate, w.Index.Holds(epoch)
}

// keysPerRank is how many keys are read in the time in which a rank is looked at.
const keysPerRank = 16
