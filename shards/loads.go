package shards

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Dimension is a measure by which LoadIndex finds the least.
type Dimension uint8

// The dimensions.
const (
	// ByCost is the part of the KV cost that follows from a rank's own load.
	ByCost Dimension = iota
	// ByBlocks is ByCost without the prefill: what counts for a request whose
	// prefill is not tracked.
	ByBlocks
	// ByPrefill is the active prefill in tokens.
	ByPrefill
	// ByRequests is the number of live bookings.
	ByRequests
	dimensions
)

// Weights make the cost of a load: Prefill for each active prefill token, Block
// for each active block, Request for each live booking.
type Weights struct{ Prefill, Block, Request int64 }

// hiddenKey stands for a rank that may not be chosen. A part of a key is at most
// maxPart, so that a key is below hiddenKey, and a float64 holds it exactly.
const (
	hiddenKey = 1 << 42
	maxPart   = 1 << 40
)

// groupSize is the number of ranks in a group: one word has a bit for each. At
// 16,384 ranks a search reads 320 heads and 64 keys.
const groupSize = 64

// A head is what a group's ranks come to in one dimension, in one word: the least
// key of those whose key is exact, how many have it, whether there are others, and
// a version that moves when a rank becomes one of those or ceases to be.
const (
	tiesMask    = 1<<7 - 1
	looseFlag   = 1 << 7
	versionUnit = 1 << 8
	versionMask = 1<<21 - 1<<8
	keyShift    = 21
)

// LoadIndex finds the least loaded of many ranks in far fewer steps than ranks:
// two levels, the ranks in groups of 64 and the least key of each group. A pool
// that fits one group has one level, its keys packed side by side.
//
// Guarantee: a key is the load of its rank or, for a loose one, a bound that its
// load does not fall below until the key is written again: it decays, or it is out
// of the keys' range. Keys are brought up to date in the section under the rank's
// lock that changed the load. So a search that reads the load of the loose ranks
// whose bound matters finds what a look at all ranks would find; and every key that
// it passes over was, when it was read, no higher than its rank's load.
//
// How: a group has a lock, which comes after one rank's in the lock order, so that its
// heads have one writer at a time: two that update them lazily can leave them wrong for
// good. A head counts the ranks that are tied, so that a search can draw one of all
// tied ranks with equal chances without reading them, and a group is scanned only when
// its last tied rank rises. Readers take no lock. What they could miss is a rank on its
// way from the exact ones to the loose ones or back: the writer lets it stand in both
// in between, and moves the version, which a reader reads before and after (13 bits; a
// group is read in well under the time of 8,192 such changes, and a miss would cost no
// more than a choice that was not the least). A key is never without a value in
// between, so that a search that takes a loose key for an exact one finds, when it
// reads the load, that its choice is dearer than the others may be, and searches again.
// Where there is one group there are no heads and no lock: each rank writes its own
// keys.
//
// A rank keeps its spot in an index while it lives there. An index has spots for a
// fixed number of ranks; a larger pool gets a new one. While ranks come, go, are hidden
// or shown, its epoch is odd: a reader that finds the same even epoch before and after
// has read what was true of all ranks. An index that is retired stays odd.
//
// Tried and lost: to switch the index off while any load decays or is out of range
// (one booking made every selection in a pool of 2,048 a hundred times dearer); to
// keep the bounds of loose ranks among the heads (a few low bounds have most groups
// scanned); ties broken by a pseudo-random order of the places (groups with fewer
// ranks gave each of theirs up to twice the chance).
type LoadIndex struct {
	weights Weights
	// most is, of each part of a load, the least that is out of range.
	most Weights
	// keys hold, for each dimension, the keys of the ranks by spot: written under
	// the rank's lock and, if there are groups, the group's; read by all.
	keys   [dimensions][]atomic.Int64
	shards []atomic.Pointer[Shard] // by spot; written likewise
	// loose has a bit for each rank, by group: its key is but a bound. Written
	// likewise, read by all.
	loose [dimensions][]atomic.Uint64
	locks []groupLock // nil if there is one group
	every []uint64    // the set of all spots; it does not change
	// heads hold the groups' heads by dimension, packed for the scan; written under
	// the group's lock, read by all.
	heads [dimensions][]atomic.Uint64
	// epoch is odd while the index is being changed; see above.
	epoch atomic.Uint64
	// known is the last edit of the table that was shown, looked how many ranks were
	// looked at for tables; both belong to the goroutine that changes tables, one at a
	// time.
	known  *edit
	looked int
	count  busyCount

	mu struct {
		sync.Mutex
		free []int // spots, taken from the end
	}
}

// groupLock guards a group's heads, alone on its cache line.
type groupLock struct {
	sync.Mutex
	_ [56]byte
}

// spots returns how many spots an index for so many ranks has.
func spots(ranks int) int {
	spots := ranks + ranks/4 + 1
	if spots > groupSize {
		spots = (spots + groupSize - 1) / groupSize * groupSize
	}
	return spots
}

// newLoadIndex returns an index with spots for so many ranks and some more.
func newLoadIndex(ranks int, weights Weights) *LoadIndex {
	x, spots := &LoadIndex{weights: weights}, spots(ranks)
	x.most = Weights{maxPart / max(1, weights.Prefill), maxPart / max(1, weights.Block), maxPart / max(1, weights.Request)}
	groups := (spots + groupSize - 1) / groupSize
	if groups > 1 {
		x.locks = make([]groupLock, groups)
	}
	x.shards = make([]atomic.Pointer[Shard], spots)
	x.every = slices.Repeat([]uint64{^uint64(0)}, groups)
	for d := range dimensions {
		x.keys[d] = make([]atomic.Int64, spots)
		for i := range x.keys[d] {
			x.keys[d][i].Store(hiddenKey)
		}
		x.loose[d] = make([]atomic.Uint64, groups)
		x.heads[d] = make([]atomic.Uint64, len(x.locks))
		for i := range x.heads[d] {
			x.heads[d][i].Store(hiddenKey<<keyShift | groupSize)
		}
	}
	// Taken from the end: first one spot of each group, so that bookings on different
	// ranks seldom want the lock of the same group.
	size := spots / groups
	for in := size - 1; in >= 0; in-- {
		for spot := spots - size + in; spot >= 0; spot -= size {
			x.mu.free = append(x.mu.free, spot)
		}
	}
	return x
}

// Weights returns the weights of ByCost.
func (x *LoadIndex) Weights() Weights { return x.weights }

// Words returns how many words a set of spots has.
func (x *LoadIndex) Words() int { return len(x.every) }

// Every returns the set of all spots. It must not be changed.
func (x *LoadIndex) Every() []uint64 { return x.every }

// Begin starts a look and returns its epoch. It is not ok if the index cannot be
// used now.
func (x *LoadIndex) Begin() (epoch uint64, ok bool) {
	epoch = x.epoch.Load()
	return epoch, epoch%2 == 0
}

// Holds reports whether the ranks in the index are still those that there were at
// Begin.
func (x *LoadIndex) Holds(epoch uint64) bool { return x.epoch.Load() == epoch }

// Key returns the key of a load; one that is out of range is above all others.
func (x *LoadIndex) Key(d Dimension, prefill, blocks, requests int64) int64 {
	key, inRange := x.key(d, prefill, blocks, requests)
	if !inRange {
		return beyond
	}
	return key
}

// beyond stands for all keys that are out of range.
const beyond = hiddenKey - 1

func (x *LoadIndex) key(d Dimension, prefill, blocks, requests int64) (key int64, inRange bool) {
	w := &x.weights
	p, b, r := w.Prefill, w.Block, w.Request
	switch d {
	default: // ByCost
	case ByBlocks:
		p = 0
	case ByPrefill:
		p, b, r = 1, 0, 0
	case ByRequests:
		p, b, r = 0, 0, 1
	}
	inRange = true
	part := func(n, weight int64) int64 {
		if weight > 0 && n >= maxPart/weight {
			inRange = false
			return maxPart
		}
		return n * weight
	}
	return part(prefill, p) + part(blocks, b) + part(requests, r), inRange
}

// spot is where a shard stands in an index; guarded by the shard's lock.
type spot struct {
	index  *LoadIndex
	at     int
	hidden bool
	loose  uint8 // a bit for each dimension
	// busy and fading have a bit for each rule, as the count of the index has them;
	// written under its lock too. counting: the holder of the rank's lock holds the
	// lock of the count.
	busy, fading uint8
	counting     bool
	rules        *Rules // nil if the rank is not counted
}

// take gives a spot to a shard, hidden; it reports whether there was room.
// REQUIRES: the shard's lock.
func (x *LoadIndex) take(s *Shard) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.mu.free) == 0 {
		return false
	}
	last := len(x.mu.free) - 1
	at := x.mu.free[last]
	x.mu.free = x.mu.free[:last]
	x.shards[at].Store(s)
	s.mu.spot = spot{index: x, at: at, hidden: true}
	s.spot.Store(int64(at))
	return true
}

// give takes a shard out. REQUIRES: the shard's lock.
func (x *LoadIndex) give(s *Shard) {
	s.mu.spot.hidden = true
	x.update(s, nil)
	if s.mu.spot.rules != nil {
		x.count.Lock()
		x.uncount(s)
		x.count.Unlock()
	}
	at := s.mu.spot.at
	s.mu.spot = spot{}
	s.spot.Store(noSpot)
	x.shards[at].Store(nil)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.free = append(x.mu.free, at)
}

// noSpot stands for a rank that is in no index.
const noSpot = -1

// Spot returns the rank's spot in the load index of its pool, −1 if it has none.
// What it means holds as long as the epoch of the index.
func (s *Shard) Spot() int { return int(s.spot.Load()) }

// update updates a shard's keys. REQUIRES: the shard's lock.
func (x *LoadIndex) update(s *Shard, load *lifecycle.Load) {
	at := &s.mu.spot
	keys := [dimensions]int64{hiddenKey, hiddenKey, hiddenKey, hiddenKey}
	loose := uint8(0)
	if !at.hidden {
		pre := &load.Prefill
		// Whatever the time, there is no less than this.
		prefill := pre.Active(pre.AnchorSince)
		if pre.Decays() {
			loose = 1<<ByCost | 1<<ByPrefill
			prefill = pre.Elsewhere
			if pre.Unmodelled > 0 {
				prefill += pre.Sum - pre.AnchorTokens
			}
		}
		w := &x.weights
		if prefill < x.most.Prefill && load.Blocks < x.most.Block && load.Requests < x.most.Request {
			blocks := w.Block*load.Blocks + w.Request*load.Requests
			keys = [dimensions]int64{
				ByCost: w.Prefill*prefill + blocks, ByBlocks: blocks, ByPrefill: prefill, ByRequests: load.Requests,
			}
		} else {
			for d := range dimensions {
				key, inRange := x.key(d, prefill, load.Blocks, load.Requests)
				if keys[d] = key; !inRange {
					loose |= 1 << d
				}
			}
		}
	}
	was := at.loose
	at.loose = loose
	var lock *groupLock
	if x.locks != nil {
		lock = &x.locks[at.at/groupSize]
		lock.Lock()
	}
	for d := range dimensions {
		word := &x.keys[d][at.at]
		switch old := word.Load(); {
		case (was|loose)>>d&1 != 0:
			x.storeLoose(d, at.at, keys[d], was>>d&1 != 0, loose>>d&1 != 0)
		case old != keys[d]:
			word.Store(keys[d])
			perturb.Point()
			if lock != nil {
				x.lead(d, at.at/groupSize, at.at, old, keys[d], false, false)
			}
		}
	}
	if lock != nil {
		lock.Unlock()
	}
}

// storeLoose writes a key that is, or was, loose. REQUIRES: the lock of its shard
// and, if there are groups, that of its group.
func (x *LoadIndex) storeLoose(d Dimension, at int, key int64, was, is bool) {
	word := &x.keys[d][at]
	old := word.Load()
	if old == key && was == is {
		return
	}
	number, bit := at/groupSize, uint64(1)<<(at%groupSize)
	loose := &x.loose[d][number]
	if is && !was {
		loose.Or(bit)
	}
	if old != key {
		word.Store(key)
	}
	perturb.Point()
	if x.locks != nil {
		x.lead(d, number, at, old, key, was, is)
	}
	perturb.Point()
	if was && !is {
		loose.And(^bit) // last: until then the rank stands in both
	}
}

// lead updates a group's head. REQUIRES: the group's lock; the key is written.
func (x *LoadIndex) lead(d Dimension, number, at int, old, key int64, was, is bool) {
	word := &x.heads[d][number]
	head := word.Load()
	least, ties := int64(head>>keyShift), head&tiesMask
	rest := head & (versionMask | looseFlag)
	if was != is {
		rest = (rest + versionUnit) & versionMask
		if loose := x.loose[d][number].Load(); is || loose&^(1<<(at%groupSize)) != 0 {
			rest |= looseFlag
		}
	}
	if !is {
		switch {
		case key < least:
			least, ties = key, 1
		case key == least:
			ties++
		}
	}
	if !was && old == least {
		if ties--; ties == 0 {
			least, ties = x.leastOf(d, number)
		}
	}
	word.Store(uint64(least)<<keyShift | rest | ties)
}

// leastOf returns the least exact key in a group, and how many have it. REQUIRES:
// the group's lock.
func (x *LoadIndex) leastOf(d Dimension, number int) (least int64, ties uint64) {
	keys := x.keys[d][number*groupSize : (number+1)*groupSize]
	loose := x.loose[d][number].Load()
	least = hiddenKey
	for i := range keys {
		if loose>>i&1 != 0 {
			continue
		}
		switch key := keys[i].Load(); {
		case key < least:
			least, ties = key, 1
		case key == least:
			ties++
		}
	}
	return least, ties
}
