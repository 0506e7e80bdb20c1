package shards

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

// Selection is what a table makes of some constraints: the ranks that they leave.
type Selection struct {
	// Places are those of the eligible ranks in worker/rank order, Open of those
	// that are not overloaded. They must not be changed.
	Places, Open []int32

	workers []uint64 // by place in the table: those that the constraints allow
	spots   atomic.Pointer[spotSet]
	kept    bool // in the cache of a table
}

// spotSet has the spots of a selection in one epoch of an index.
type spotSet struct {
	index *LoadIndex
	epoch uint64
	words []uint64
}

// chooseAll fills in what the flags of the slots come to. REQUIRES: t is not
// published yet.
func (t *Table) chooseAll() { t.chooseMore(&Selection{Places: make([]int32, 0, len(t.slots))}, 0) }

// chooseMore fills in what the flags of the slots come to, given what they do of
// those before a place. REQUIRES: t is not published yet, and may append to the
// arrays of the selection before.
func (t *Table) chooseMore(before *Selection, place int) {
	places, open := before.Places, before.Open
	shared := len(open) == len(places) // then they have one array
	for i := place; i < len(t.slots); i++ {
		slot := &t.slots[i]
		if !slot.Available {
			continue
		}
		if slot.Overloaded && shared {
			open, shared = append(make([]int32, 0, len(t.slots)), places...), false
		}
		places = append(places, int32(i))
		if !slot.Overloaded && !shared {
			open = append(open, int32(i))
		}
	}
	if shared {
		open = places
	}
	t.all, t.kept = &Selection{Places: places, Open: open}, &keptSelections{}
}

// Overloaded returns how many of the eligible ranks are overloaded.
func (s *Selection) Overloaded() int { return len(s.Places) - len(s.Open) }

// Selection returns the ranks that the constraints leave, those that are overloaded
// included: the table's own selection, one that it has kept because the same lists
// came before, or scratch, filled in anew. It costs O(what the lists name, ranks/64
// and the ranks that are left); one that is kept, the comparison of the lists.
func (t *Table) Selection(c *Constraints, scratch *Selection) *Selection {
	switch {
	case c.Unconstrained():
		return t.all
	case c.Pinned:
		scratch.Places, scratch.Open = scratch.Places[:0], scratch.Open[:0]
		if check := t.CheckRank(c, c.Pin); check == Eligible || check == Overloaded {
			scratch.add(t, t.Slot(c.Pin))
		}
		return scratch
	case t.kept == nil || !c.worthKeeping(len(t.workers)):
		t.fill(c, scratch)
		return scratch
	}
	return t.kept.selection(t, c, scratch)
}

// add appends a place. REQUIRES: the rank is eligible, overload aside.
func (s *Selection) add(t *Table, place int) {
	s.Places = append(s.Places, int32(place))
	if !t.slots[place].Overloaded {
		s.Open = append(s.Open, int32(place))
	}
}

// fill fills in a selection. REQUIRES: not pinned.
func (t *Table) fill(c *Constraints, s *Selection) {
	words := (len(t.workers) + 63) / 64
	s.workers = slices.Grow(s.workers[:0], words)[:words]
	if c.Allowed == nil {
		for i := range s.workers {
			s.workers[i] = ^uint64(0)
		}
		if rest := len(t.workers) % 64; rest > 0 {
			s.workers[words-1] = 1<<rest - 1
		}
	} else {
		clear(s.workers)
		for _, id := range c.Allowed {
			if i, found := t.find(id); found {
				s.workers[i/64] |= 1 << (i % 64)
			}
		}
	}
	for _, id := range c.Excluded {
		if i, found := t.find(id); found {
			s.workers[i/64] &^= 1 << (i % 64)
		}
	}
	s.Places, s.Open = s.Places[:0], s.Open[:0]
	for number, word := range s.workers {
		for ; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			i := number*64 + bit
			from, to := t.first[i], t.first[i+1]
			if !t.slots[from].Available || !t.workers[i].HasTaints(c.RequiredTaints) {
				s.workers[number] &^= 1 << bit
				continue
			}
			for at := from; at < to; at++ {
				s.add(t, at)
			}
		}
	}
}

// Has reports whether a rank is eligible, overload aside. REQUIRES: the selection
// is not of a pinned request nor of one without constraints.
func (s *Selection) Has(slot *Slot) bool {
	return s.workers[slot.WorkerIndex/64]>>(slot.WorkerIndex%64)&1 != 0
}

// Among adds to dst a set of the spots that the selection's ranks have in an
// index in the epoch, or returns one that must not be changed: then own is false.
func (s *Selection) Among(t *Table, x *LoadIndex, epoch uint64, dst []uint64) (among []uint64, own bool) {
	if kept := s.spots.Load(); kept != nil && kept.index == x && kept.epoch == epoch {
		return kept.words, false
	}
	dst = slices.Grow(dst[:0], x.Words())[:x.Words()]
	clear(dst)
	for _, place := range s.Open {
		if spot := t.slots[place].Shard.Spot(); spot >= 0 && spot < len(x.shards) {
			dst[spot/groupSize] |= 1 << (spot % groupSize)
		}
	}
	if s.kept {
		s.spots.Store(&spotSet{index: x, epoch: epoch, words: slices.Clone(dst)})
	}
	return dst, true
}

// fewExcluded is how many excluded workers are looked up one by one.
const fewExcluded = 16

// FewExcluded reports whether the constraints are but a few excluded workers.
func (c *Constraints) FewExcluded() bool {
	return !c.Pinned && c.Allowed == nil && len(c.RequiredTaints) == 0 && len(c.Excluded) <= fewExcluded
}

// AmongAllBut is Among for constraints that are but a few excluded workers: all
// spots, those of hidden ranks and empty ones too, but those of the excluded. It
// returns how many eligible ranks there are, and how many of them are overloaded.
func (t *Table) AmongAllBut(excluded []uint64, x *LoadIndex, dst []uint64) (among []uint64, ranks, overloaded int) {
	dst = slices.Grow(dst[:0], x.Words())[:x.Words()]
	for i := range dst {
		dst[i] = ^uint64(0)
	}
	ranks, overloaded = t.Eligible()
	for i, id := range excluded {
		if slices.Contains(excluded[:i], id) {
			continue
		}
		from, to := t.WorkerSlots(id)
		for at := from; at < to; at++ {
			slot := &t.slots[at]
			if slot.Available {
				ranks--
				if slot.Overloaded {
					overloaded--
				}
			}
			if spot := slot.Shard.Spot(); spot >= 0 && spot < len(x.shards) {
				dst[spot/groupSize] &^= 1 << (spot % groupSize)
			}
		}
	}
	return dst, ranks, overloaded
}

// keptSelections keeps the selections of constraints that came more than once, so
// that a set used by many requests is made once.
//
// Guarantee: it holds at most keptMost selections, each of lists that are no longer
// than the table's workers are many, four times over; they are copies, so that it
// keeps nothing of a request's, and go with the table. Lists with the same members
// in another order are another selection.
//
// How: constraints have one place, by a sum over some of their members. The first
// that comes leaves just that sum there, the second that has the same its
// selection, in place of another's. Found ones are compared whole. Places are
// atomic words: a lookup writes nothing if it finds its own.
type keptSelections struct {
	sums   [keptMost]atomic.Uint64
	places [keptMost]atomic.Pointer[keptSelection]
}

const keptMost = 32

type keptSelection struct {
	Selection
	allowed, excluded []uint64
	all               bool // allowed was nil
	taints            []string
}

// worthKeeping reports whether a selection takes longer than to find it.
func (c *Constraints) worthKeeping(workers int) bool {
	lists := len(c.Allowed) + len(c.Excluded)
	return (lists > fewExcluded || len(c.RequiredTaints) > 0) && lists <= 4*max(workers, fewExcluded) && len(c.RequiredTaints) <= fewExcluded
}

func (k *keptSelections) selection(t *Table, c *Constraints, scratch *Selection) *Selection {
	sum := c.sum()
	at := sum % keptMost
	found := k.places[at].Load()
	if found != nil && found.of(c) {
		return &found.Selection
	}
	if k.sums[at].Load() != sum {
		k.sums[at].Store(sum)
		t.fill(c, scratch)
		return scratch
	}
	made := &keptSelection{
		allowed: slices.Clone(c.Allowed), excluded: slices.Clone(c.Excluded),
		all: c.Allowed == nil, taints: slices.Clone(c.RequiredTaints),
	}
	made.kept = true
	t.fill(c, &made.Selection)
	made.Places, made.Open = slices.Clip(made.Places), slices.Clip(made.Open)
	k.places[at].Store(made)
	return &made.Selection
}

func (k *keptSelection) of(c *Constraints) bool {
	return k.all == (c.Allowed == nil) && slices.Equal(k.allowed, c.Allowed) &&
		slices.Equal(k.excluded, c.Excluded) && slices.Equal(k.taints, c.RequiredTaints)
}

// sum mixes some of the members of the lists.
func (c *Constraints) sum() uint64 {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(c.Allowed))*prime + uint64(len(c.Excluded))
	mix := func(v uint64) {
		h = (h ^ v) * prime
		h ^= h >> 29
	}
	for _, list := range [2][]uint64{c.Allowed, c.Excluded} {
		mix(uint64(len(list)))
		step := max(1, len(list)/8)
		for i := 0; i < len(list); i += step {
			mix(list[i])
		}
	}
	for _, taint := range c.RequiredTaints {
		mix(uint64(len(taint)))
		for i := range min(len(taint), 16) {
			mix(uint64(taint[i]))
		}
	}
	return h | 1 // no sum is 0, which stands for none
}
