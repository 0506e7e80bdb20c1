package shards

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Dimension is a measure by which LoadIndex finds the least.
type Dimension uint8

// The dimensions.
const (
	// ByCost is the part of the KV cost that follows from a rank's own load.
	ByCost Dimension = iota
	// ByPrefill is the active prefill in tokens.
	ByPrefill
	// ByRequests is the number of live bookings.
	ByRequests
	dimensions
)

// Weights make the cost of a load: Prefill for each active prefill token, Block
// for each active block, Request for each live booking.
type Weights struct{ Prefill, Block, Request int64 }

// hiddenKey stands for a rank that may not be chosen. Each of the three parts of
// a key is below maxPart, so that it is below hiddenKey, and a float64 holds it
// exactly. A key and a place of distanceBits fit one word.
const (
	hiddenKey    = 1 << 50
	maxPart      = 1 << 48
	distanceBits = 12
	// maxIndexed is the largest pool that has an index, a quarter of what the
	// places of groups can tell apart.
	maxIndexed = groupSize << distanceBits / 4
)

// groupSize is the number of ranks in a group. At 16,384 ranks a look reads 320
// minima and 64 keys.
const groupSize = 64

// LoadIndex finds the least loaded of many ranks in far fewer steps than ranks:
// two levels, the ranks in groups of 64 and the least key of each group. A pool
// that fits one group has one level, its keys packed side by side.
//
// Guarantee: the keys and minima are those of loads that the ranks had, each
// brought up to date in the section under the rank's lock that changed the load.
// Ranks that may not be chosen are hidden. It is exact only while no load decays:
// Begin and Holds say so.
//
// How: a group has a lock, which comes after one rank's in the lock order, so
// that its minima have one writer at a time: two that bring them up to date
// lazily can leave them wrong for good. A key that falls is compared with the
// minimum; only if the holder of the minimum rises is the group scanned. Where
// there is one group there are no minima and no lock: each rank writes its own
// keys. Readers take no lock.
//
// An index has room for a fixed number of ranks; a larger pool gets a new one.
// While ranks come, go, are hidden or shown, its epoch is odd, and it moves when
// a load ceases to decay: a reader who finds the same even epoch before and after
// has read what was true of all ranks. An index that is retired stays odd.
type LoadIndex struct {
	weights Weights
	// keys hold, for each dimension, the keys of the ranks by place: written
	// under the rank's lock and, if there are groups, the group's; read by all.
	keys   [dimensions][]atomic.Int64
	shards []atomic.Pointer[Shard] // by place; written likewise
	groups []loadGroup             // nil if there is one
	// minima holds the groups' minima by dimension, packed for the scan; written
	// under the group's lock, read by all.
	minima [dimensions][]atomic.Int64
	// decaying counts the ranks whose load moves with time alone, excessive those
	// whose key is out of range; written under the ranks' locks.
	decaying, excessive atomic.Int64
	// epoch is odd while the index is being changed; see above.
	epoch atomic.Uint64

	mu struct {
		sync.Mutex
		free []int // places, taken from the end
	}
}

// loadGroup is the lock of a group's minima, alone on its cache line.
type loadGroup struct {
	sync.Mutex
	_ [56]byte
}

// places returns how many places an index for so many ranks has.
func places(ranks int) int {
	places := ranks + ranks/4 + 1
	if places > groupSize {
		places = (places + groupSize - 1) / groupSize * groupSize
	}
	return places
}

// newLoadIndex returns an index with room for so many ranks and some more.
func newLoadIndex(ranks int, weights Weights) *LoadIndex {
	x, places := &LoadIndex{weights: weights}, places(ranks)
	if places > groupSize {
		x.groups = make([]loadGroup, places/groupSize)
	}
	x.shards = make([]atomic.Pointer[Shard], places)
	for d := range dimensions {
		x.keys[d], x.minima[d] = hiddenKeys(places), hiddenKeys(len(x.groups))
	}
	// Taken from the end: first one place of each group, so that all have much the
	// same number of ranks, and those that are tied the same chance.
	size := places / max(1, len(x.groups))
	for in := size - 1; in >= 0; in-- {
		for place := places - size + in; place >= 0; place -= size {
			x.mu.free = append(x.mu.free, place)
		}
	}
	return x
}

func hiddenKeys(n int) []atomic.Int64 {
	keys := make([]atomic.Int64, n)
	for i := range keys {
		keys[i].Store(hiddenKey)
	}
	return keys
}

// Weights returns the weights of ByCost.
func (x *LoadIndex) Weights() Weights { return x.weights }

// Begin starts a look and returns its epoch. It is not ok if the index cannot be
// used now.
func (x *LoadIndex) Begin() (epoch uint64, ok bool) {
	epoch = x.epoch.Load()
	return epoch, epoch%2 == 0 && x.decaying.Load() == 0 && x.excessive.Load() == 0
}

// Holds reports whether what was read since Begin was exact.
func (x *LoadIndex) Holds(epoch uint64) bool {
	return x.decaying.Load() == 0 && x.excessive.Load() == 0 && x.epoch.Load() == epoch
}

// Found is a rank found by its key, which is [math.MaxInt64] if there is none.
type Found struct {
	Shard *Shard
	Key   int64
}

// Least returns the rank with the least key, and the next as far as it was met on
// the way; no other rank had a lower key than next's. Either may have no shard:
// least if there is none that may be chosen. Among equals chance decides.
func (x *LoadIndex) Least(d Dimension, chance uint64) (least, next Found) {
	from, keys, others := 0, x.keys[d], int64(hiddenKey)
	if x.groups != nil {
		group, second := leastTwo(x.minima[d], uint32(chance>>32))
		from, others = group.at*groupSize, second.key
		keys = keys[from : from+groupSize]
	}
	first, second := leastTwo(keys, uint32(chance))
	least, next = x.found(from, first), x.found(from, second)
	// Keys may have moved between the two levels: what the first level promised
	// of the other groups bounds all of them.
	if others < second.key {
		next = Found{Key: others}
	}
	return least, next
}

func (x *LoadIndex) found(from int, k keyed) Found {
	if k.key == hiddenKey {
		return Found{Key: math.MaxInt64}
	}
	return Found{Shard: x.shards[from+k.at].Load(), Key: k.key}
}

// keyed is a key and where it stands.
type keyed struct {
	at  int
	key int64
}

// leastTwo returns the least two of some keys. Of equals it takes those that come
// first in an order that follows from chance, i·step + start modulo the number of
// places: one random number gives each much the same chance, whatever gaps there
// are between them. (Those that come first from a random place on were tried: who
// stands behind a gap then has the chance of the whole gap.)
//
// Key and place in that order are compared as one number, so that the loop has no
// branch on the keys, which no processor could foretell.
func leastTwo(keys []atomic.Int64, chance uint32) (least, next keyed) {
	const mask = 1<<distanceBits - 1
	step, start := int64(chance)&mask|1, int64(chance>>distanceBits)&mask
	lowest, second := int64(math.MaxInt64), int64(math.MaxInt64)
	at := start
	for i := range keys {
		n := keys[i].Load()<<distanceBits | at
		second = min(second, max(lowest, n))
		lowest = min(lowest, n)
		at = (at + step) & mask
	}
	// The inverse of step by Newton's method: 3 bits are right, then 6, then 12.
	inverse := step
	inverse *= 2 - step*inverse
	inverse *= 2 - step*inverse
	unpacked := func(n int64) keyed {
		if n == math.MaxInt64 { // there is no second of one
			return keyed{key: hiddenKey}
		}
		return keyed{at: int((n&mask - start) * inverse & mask), key: n >> distanceBits}
	}
	return unpacked(lowest), unpacked(second)
}

// place is where a shard stands in an index; guarded by the shard's lock.
type place struct {
	index               *LoadIndex
	at                  int
	hidden              bool
	decaying, excessive bool
}

// take gives a place to a shard, hidden; it reports whether there was room.
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
	s.mu.place = place{index: x, at: at, hidden: true}
	return true
}

// give takes a shard out. REQUIRES: the shard's lock.
func (x *LoadIndex) give(s *Shard) {
	s.mu.place.hidden = true
	x.update(s, nil)
	at := s.mu.place.at
	s.mu.place = place{}
	x.shards[at].Store(nil)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.free = append(x.mu.free, at)
}

// update brings a shard's keys up to date. REQUIRES: the shard's lock.
func (x *LoadIndex) update(s *Shard, load *lifecycle.Load) {
	p := &s.mu.place
	keys := [dimensions]int64{hiddenKey, hiddenKey, hiddenKey}
	decays, excessive := false, false
	if !p.hidden {
		decays = load.Prefill.Decays()
		// Whatever the time: if it mattered, the index would not be used.
		prefill := load.Prefill.Active(load.Prefill.AnchorSince)
		excessive = prefill >= maxPart/x.weights.Prefill || load.Blocks >= maxPart/x.weights.Block ||
			load.Requests >= maxPart/max(1, x.weights.Request)
		if !excessive {
			keys = [dimensions]int64{
				ByCost:     x.weights.Prefill*prefill + x.weights.Block*load.Blocks + x.weights.Request*load.Requests,
				ByPrefill:  prefill,
				ByRequests: load.Requests,
			}
		}
	}
	// Keys that do not tell all are written while the index is not used.
	x.mark(&p.decaying, &x.decaying, decays || p.decaying)
	x.mark(&p.excessive, &x.excessive, excessive || p.excessive)
	x.store(p.at, &keys)
	x.mark(&p.decaying, &x.decaying, decays)
	x.mark(&p.excessive, &x.excessive, excessive)
}

// store writes the keys of a place. REQUIRES: its shard's lock.
func (x *LoadIndex) store(at int, keys *[dimensions]int64) {
	if x.groups == nil {
		for d, key := range keys {
			set(&x.keys[d][at], key)
		}
		return
	}
	number := at / groupSize
	g := &x.groups[number]
	g.Lock()
	defer g.Unlock()
	for d, key := range keys {
		word, least := &x.keys[d][at], &x.minima[d][number]
		old := word.Load()
		if old == key {
			continue
		}
		word.Store(key)
		switch lowest := least.Load(); {
		case key < lowest:
			least.Store(key)
		case old == lowest:
			lowest = hiddenKey
			from := number * groupSize
			for i := range groupSize {
				lowest = min(lowest, x.keys[d][from+i].Load())
			}
			set(least, lowest)
		}
	}
}

// mark keeps a count in step with a condition of one shard.
func (x *LoadIndex) mark(was *bool, count *atomic.Int64, is bool) {
	if *was != is {
		x.change(was, count, is)
	}
}

func (x *LoadIndex) change(was *bool, count *atomic.Int64, is bool) {
	*was = is
	if is {
		count.Add(1)
	} else {
		x.epoch.Add(2) // first: who finds the count at zero must find the epoch moved
		count.Add(-1)
	}
}
