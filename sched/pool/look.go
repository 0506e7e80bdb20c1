package pool

import (
	"math"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Look is one look at the ranks on behalf of one request: which are eligible,
// whether the request must wait, and what a selector has to choose from. It is
// scratch space to be used again, by one goroutine at a time.
type Look struct {
	World   *World
	Request *Request
	Class   int
	Instant Instant
	// Own is room for a request that lives only as long as the look.
	Own Request
	// Rand breaks ties in the load index, which is not used without it. It
	// outlives Reset.
	Rand selector.Rand

	// Few bounds how many look at all of many ranks at a time; nil for no bound. It
	// outlives Reset.
	Few      *Few
	hasPlace bool          // a place of Few is held
	turn     chan struct{} // says that a place was given
	behind   *Look         // the look that waits next, guarded by Few

	// Guards are those in force, nil for none. They outlive Reset.
	Guards *Guards

	// Guarded counts the ranks that are guarded for the class and neither busy nor
	// overloaded.
	Guarded int
	// Eligible counts the eligible ranks, overload aside; Overloaded those that
	// are overloaded, Busy those of the others that are busy for the class.
	Eligible, Overloaded, Busy int

	slots    []int32 // all eligible ranks, as places in the table; not to be changed
	versions []uint64
	retests  []Retest         // of the last gate
	set      shards.Selection // room for slots
	// overlaps are the places in the table of the ranks with overlap, −1 for those
	// that do not exist.
	overlaps []int32
	view     shards.View // the one last read
	placed   Placed      // of the last call
	// What can be chosen: eligible and not overloaded.
	places     []int32 // in the table, the first sorted of them ascending
	sorted     int
	busy       []bool
	guarded    []bool // nothing unless guards bind the class
	candidates []selector.Candidate
	walk       shards.PrefixWalk
	above      []lifecycle.BusyAbove // by kind of worker, nil without a class
	input      selector.Input
	lent       selector.Input // for a selector of the embedder's
	bound      bool           // guards bind the class
	locked     bool           // between LockEligible and UnlockEligible
	also       *shards.Shard  // what is locked beside the eligible ranks
	// whole: all is filled in of the candidates. Else what the selector does not
	// need was left out, and Complete fills it in.
	whole bool

	indexed indexed
	epoch   uint64 // of the index, when busy ranks are counted
	// scanned counts the ranks whose load was read, asked those that were asked for
	// their depth.
	scanned, asked int
}

// maxKept bounds the scratch space that outlives a look at an unusually large
// pool.
const maxKept = 1 << 14

// Reset prepares for another look and gives oversized scratch back.
func (l *Look) Reset() {
	l.letOthersLook()
	if cap(l.candidates) > maxKept {
		*l = Look{Rand: l.Rand, Few: l.Few, Guards: l.Guards}
		return
	}
	l.World, l.Request, l.Instant = nil, nil, Instant{}
	l.Own.LetGo()
	l.walk.Reset()
	l.input.Candidates, l.input.Rand, l.slots = nil, nil, nil
	l.takeBack()
}

// Take looks at the ranks, by way of the load index where that can tell. The
// class decides what is busy; for an advisory selection, which waits for nothing,
// give −1.
func (l *Look) Take(w *World, r *Request, class int, at Instant) {
	l.indexed.moved, l.indexed.again = false, 0
	l.take(w, r, class, at)
}

// TakeAll looks at every rank.
func (l *Look) TakeAll(w *World, r *Request, class int, at Instant) {
	l.takeAll(w, r, class, at, w.needs)
}

// TakeWhole looks at every rank and fills in what the selector does not need, too.
func (l *Look) TakeWhole(w *World, r *Request, class int, at Instant) {
	l.takeAll(w, r, class, at, selector.NeedsAll)
}

func (l *Look) takeAll(w *World, r *Request, class int, at Instant, needs selector.Needs) {
	l.indexed.used, l.indexed.common = false, 0
	l.World, l.Request, l.Class, l.Instant = w, r, class, at
	l.slots = w.Table.Selection(&r.Constraints, &l.set).Places
	l.Eligible, l.Overloaded, l.Busy, l.Guarded = len(l.slots), 0, 0, 0
	l.bound = l.Guards.Binds(class)
	if len(l.slots) >= manyRanks && l.Few != nil && w.builtin && !l.locked && !l.hasPlace {
		l.Few.enter(l)
		l.hasPlace = true
	}
	l.versions = slices.Grow(l.versions[:0], len(l.slots))[:len(l.slots)]
	l.expect(len(l.slots))
	slots := w.Table.Slots()
	for i, place := range l.slots {
		slot := &slots[place]
		if slot.Overloaded {
			l.Overloaded++
			l.versions[i] = slot.Shard.Version()
			continue
		}
		l.versions[i] = l.see(place, slot)
	}
	l.dropBarred()
	l.sorted = len(l.places)
	if needs.Has(selector.NeedsCache) {
		l.findOverlaps()
		l.fillOverlaps()
	}
	if needs.Has(selector.NeedsBlocks) {
		l.fillDepths(slots)
	}
	l.whole = needs.Has(selector.NeedsCache | selector.NeedsBlocks)
}

// letOthersLook gives the place back that a look at many ranks has taken.
func (l *Look) letOthersLook() {
	if l.hasPlace {
		l.hasPlace = false
		l.Few.leave()
	}
}

// expect makes room for so many candidates, of which there are none yet.
func (l *Look) expect(n int) {
	l.above = nil
	if l.Class >= 0 {
		l.above = l.World.busyByKind(l.Class)
	}
	l.places = slices.Grow(l.places[:0], n)
	l.busy = slices.Grow(l.busy[:0], n)
	l.candidates = slices.Grow(l.candidates[:0], n)
	l.guarded = l.guarded[:0]
}

// see adds a rank to the candidates and returns its version. REQUIRES: room.
func (l *Look) see(place int32, slot *shards.Slot) uint64 {
	l.scanned++
	n := len(l.candidates)
	l.places, l.busy, l.candidates = l.places[:n+1], l.busy[:n+1], l.candidates[:n+1]
	view := &l.view
	slot.Shard.Read(view)
	active := view.Prefill.Elsewhere
	if view.Prefill.HasAnchor {
		active = l.Instant.Active(&view.Prefill)
	}
	busy := l.above != nil && l.above[slot.Kind].Exceeded(active, view.Requests, view.Blocks)
	if busy {
		l.Busy++
	}
	if l.bound {
		l.noteGuarded(int(place), active, busy)
	}
	l.places[n], l.busy[n] = place, busy
	// Written in place: there are many of them, and they are large.
	c := &l.candidates[n]
	c.Rank = slot.Rank
	c.ActivePrefill, c.ActiveBlocks, c.Requests = active, view.Blocks, view.Requests
	c.PotentialBlocks = view.Blocks + int64(len(l.Request.Blocks))
	c.Device, c.Host, c.Disk, c.TaintWeight = 0, 0, 0, 0
	c.Version = view.Version
	if len(l.Request.Taints) > 0 {
		c.TaintWeight = l.Request.taintWeight(slot.Worker)
	}
	return view.Version
}

// MustWait reports whether the request cannot run now.
func (l *Look) MustWait() bool { return l.mustWait(l.World.Profile.Class(l.Class)) }

// mustWait counts: a ratio counts ranks that are busy or overloaded alone, but a
// request with no rank that is neither of these nor guarded must wait too.
func (l *Look) mustWait(c *policy.Class) bool {
	blocked := l.Busy + l.Overloaded
	return c.MustWait(blocked, l.Eligible) || l.Guarded > 0 && blocked+l.Guarded == l.Eligible
}

// NoneUsable reports whether there is no eligible rank or all are overloaded.
func (l *Look) NoneUsable() bool { return l.Overloaded == l.Eligible }

// AllOverloaded reports whether there are eligible ranks and all are overloaded.
func (l *Look) AllOverloaded() bool { return l.Eligible > 0 && l.Overloaded == l.Eligible }

// Unmoved reports whether no eligible rank has changed since the look: then all
// that was seen was true at one instant. It cannot tell if not every rank was
// looked at.
func (l *Look) Unmoved() bool {
	if l.indexed.used {
		return false
	}
	slots := l.World.Table.Slots()
	for i, place := range l.slots {
		if slots[place].Shard.Version() != l.versions[i] {
			return false
		}
	}
	return true
}

// StillIdle reports whether one of the candidates that were not busy has not
// changed since; if the class chooses from idle ranks it must be the one chosen.
func (l *Look) StillIdle(chosen int) bool {
	if l.World.choosesIdle(l.Class) {
		return l.Slot(chosen).Shard.Version() == l.candidates[chosen].Version
	}
	for i, busy := range l.busy {
		if !busy && l.Slot(i).Shard.Version() == l.candidates[i].Version {
			return true
		}
	}
	return false
}

// Slot returns the slot of a candidate.
func (l *Look) Slot(candidate int) *shards.Slot { return &l.World.Table.Slots()[l.places[candidate]] }

// Candidate returns what was seen of a candidate.
func (l *Look) Candidate(candidate int) *selector.Candidate { return &l.candidates[candidate] }

// Candidates returns the number of ranks that can be chosen.
func (l *Look) Candidates() int { return len(l.candidates) }

// Correct replaces what was seen of one rank, if it can be chosen.
func (l *Look) Correct(rank lifecycle.RankID, load *lifecycle.Load, livePrefix int) {
	if at := l.Find(rank); at >= 0 {
		l.candidates[at] = l.Fresh(at, load, livePrefix)
	}
}

// Find returns the place of a rank among the candidates, −1 if it is not there.
func (l *Look) Find(rank lifecycle.RankID) int {
	if place := l.World.Table.Slot(rank); place >= 0 {
		return l.indexOf(place)
	}
	return -1
}

// WasBusy reports whether a candidate was busy for the class.
func (l *Look) WasBusy(candidate int) bool { return l.busy[candidate] }

// Retake looks again at the same ranks in the same world.
func (l *Look) Retake() { l.TakeAll(l.World, l.Request, l.Class, l.Instant) }

// IdleCandidate returns a candidate that was not busy, other than the one given;
// −1 if there is none.
func (l *Look) IdleCandidate(other int) int {
	for i, busy := range l.busy {
		if !busy && i != other {
			return i
		}
	}
	return -1
}

// Fresh returns a candidate's numbers as read anew under its rank's lock.
func (l *Look) Fresh(candidate int, load *lifecycle.Load, livePrefix int) selector.Candidate {
	c := l.candidates[candidate]
	c.ActivePrefill = l.Instant.Active(&load.Prefill)
	c.ActiveBlocks, c.Requests = load.Blocks, load.Requests
	c.PotentialBlocks = load.Blocks + int64(len(l.Request.Blocks)-livePrefix)
	return c
}

func (l *Look) indexOf(place int) int {
	sorted := l.places
	switch n := len(l.places); {
	case l.sorted == len(l.World.Table.Slots()):
		return place
	case n <= few:
		return slices.Index(l.places, int32(place))
	case l.sorted < n:
		sorted = l.places[:l.sorted]
		if at := slices.Index(l.places[l.sorted:], int32(place)); at >= 0 {
			return l.sorted + at
		}
	}
	at, found := slices.BinarySearch(sorted, int32(place))
	if !found {
		return -1
	}
	return at
}

// findOverlaps looks up where the ranks with overlap stand.
func (l *Look) findOverlaps() {
	l.overlaps = l.World.Table.AppendPlaces(l.overlaps[:0], l.Request.Overlaps)
}

func (l *Look) fillOverlaps() {
	for i, place := range l.overlaps {
		if place < 0 {
			continue
		}
		if at := l.indexOf(int(place)); at >= 0 {
			c, o := &l.candidates[at], &l.Request.Overlaps[i]
			c.Device, c.Host, c.Disk = o.Device, o.Host, o.Disk
		}
	}
}

// fillDepths subtracts from each candidate's potential blocks those that are
// live there. It comes after the loads were read: if a rank's version still
// stands at booking, so does its depth.
func (l *Look) fillDepths(slots []shards.Slot) {
	if len(l.Request.Blocks) == 0 || len(slots) == 0 {
		return
	}
	prefixes := slots[0].Shard.Prefixes()
	if prefixes == nil {
		if !slots[0].Shard.PrefixIndexed() {
			l.walkDepths()
		}
		return
	}
	l.walk.Find(prefixes, l.Request.Blocks)
	l.applyDepths(slots, 0)
}

// applyDepths subtracts what the walk found, for ranks that hold more than common. A
// rank that holds anything holds the first level: if these are few, the others are not
// asked.
func (l *Look) applyDepths(slots []shards.Slot, common int) {
	switch {
	case l.walk.Levels() == 0:
	case common > 0 || fewAmong*l.walk.Holders(0) > len(l.candidates):
		for i := range l.candidates {
			l.applyDepth(i, common)
		}
	default:
		for shard := range l.walk.Each(0) {
			if place := l.World.Table.Slot(shard.ID()); place >= 0 && slots[place].Shard == shard {
				if at := l.indexOf(place); at >= 0 {
					l.applyDepth(at, 0)
				}
			}
		}
	}
}

// fewAmong is how many candidates are asked for their depth in the time in which
// one is found among them.
const fewAmong = 4

func (l *Look) applyDepth(candidate, common int) {
	c := &l.candidates[candidate]
	l.asked++
	depth := max(common, l.walk.Depth(l.Slot(candidate).Shard))
	c.PotentialBlocks = c.ActiveBlocks + int64(len(l.Request.Blocks)-depth)
}

// walkDepths does what fillDepths does without the index: it walks the blocks of
// each rank under its lock.
func (l *Look) walkDepths() {
	for i := range l.candidates {
		c := &l.candidates[i]
		if c.Requests == 0 {
			continue
		}
		shard := l.Slot(i).Shard
		if !l.locked {
			shard.Lock()
		}
		c.PotentialBlocks -= int64(shard.LivePrefixLocked(l.Request.Blocks))
		if !l.locked {
			shard.Unlock()
		}
	}
}

// LockEligible takes the locks of all eligible ranks, overloaded ones included.
// The order of the table is the lock order.
func (l *Look) LockEligible() { l.LockEligibleAnd(nil) }

// LockEligibleAnd takes the lock of one more shard, which may be among them or nil.
func (l *Look) LockEligibleAnd(also *shards.Shard) {
	l.slots = l.World.Table.Selection(&l.Request.Constraints, &l.set).Places
	slots := l.World.Table.Slots()
	for _, place := range l.slots {
		s := slots[place].Shard
		if also != nil && !s.Before(also) {
			if s != also {
				also.Lock()
				l.also = also
			}
			also = nil
		}
		s.Lock()
	}
	if also != nil {
		also.Lock()
		l.also = also
	}
	l.locked = true
}

// UnlockEligible gives them back.
func (l *Look) UnlockEligible() {
	l.locked = false
	if l.also != nil {
		l.also.Unlock()
		l.also = nil
	}
	slots := l.World.Table.Slots()
	for _, place := range l.slots {
		slots[place].Shard.Unlock()
	}
}

// HintedLocked reports whether a hint about any eligible rank is under way.
// REQUIRES: their locks.
func (l *Look) HintedLocked() bool {
	slots := l.World.Table.Slots()
	for _, place := range l.slots {
		if slots[place].Shard.HintedLocked() {
			return true
		}
	}
	return false
}

// least returns the least active prefill of the candidates in tokens.
func (l *Look) least() int64 {
	least := int64(math.MaxInt64)
	for i := range l.candidates {
		least = min(least, l.candidates[i].ActivePrefill)
	}
	return least
}
