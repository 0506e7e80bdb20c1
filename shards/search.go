package shards

import (
	"math/bits"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
)

// Rand is a source of random bits.
type Rand interface{ Uint64() uint64 }

// Judge reads the load of ranks that a search has to look at.
type Judge interface {
	// Key returns a rank's key now; see LoadIndex.Key.
	Key(s *Shard, d Dimension) int64
	// Take reports whether a rank is what Any searches for.
	Take(s *Shard) bool
}

// Query is a question to a LoadIndex, and room to answer it in: it belongs to one
// goroutine and is used again.
type Query struct {
	By Dimension
	// Among has a bit for each spot that may be found; nil for all.
	Among []uint64
	Rand  Rand
	Judge Judge
	// Read counts the heads and keys read, Judged the ranks whose load was.
	Read, Judged int

	loose []looseRank
	tied  []tiedRanks
}

// Found is the rank with the least key. No other rank of those asked for had a key
// below Others.
type Found struct {
	Shard       *Shard // nil if there is none
	Key, Others int64

	spot int
}

// looseRank is a rank whose load is not, or was not, known.
type looseRank struct {
	spot   int
	key    int64 // a bound until judged
	judged bool
}

// tiedRanks are those of a group that have the least key so far.
type tiedRanks struct {
	group int
	ranks uint64
}

// contest is what the exact ranks have come to: the least key, how many have it,
// and a bound for the others.
type contest struct {
	key, others int64
	ties        int
	// first is the first group that has some of them, if they are not listed.
	first int
	// listed: the ranks that are tied stand in Query.tied.
	listed bool
}

const (
	// moves is how often a search is made anew because ranks moved meanwhile.
	moves = 4
	// draws is how many of the tied ranks are drawn before those are listed that
	// may be found, or judged that are loose.
	draws = 8
)

// Least finds the rank with the least key, one of those that are tied with equal
// chances. It is not ok if the ranks moved too fast or the least is out of range.
//
// It reads the heads of all groups and the keys of one. If that one may not be
// found it draws again, and at last reads the groups whose head is not above the
// least found. Loose ranks whose bound is not above the least are judged: all of
// them, or, where the bound is equal, as many as are drawn before one that has the
// least: those ties are drawn from all that may be tied, and drawn again if it
// turns out that one is not, which gives those that are equal chances.
func (x *LoadIndex) Least(q *Query) (f Found, ok bool) {
	for range moves {
		if f, ok = x.least(q); ok {
			return f, f.Key != beyond
		}
	}
	return Found{}, false
}

func (x *LoadIndex) least(q *Query) (f Found, ok bool) {
	var c contest
	q.loose = q.loose[:0]
	if x.locks == nil {
		c = x.only(q)
	} else {
		if c, ok = x.leaders(q); !ok {
			return Found{}, false
		}
		if q.Among != nil {
			if !q.contenders(c.key) {
				for range min(draws, c.ties) {
					if f, ok = x.draw(q, &c); !ok {
						return Found{}, false
					}
					if f.Shard == nil || q.Among[f.spot/groupSize]>>(f.spot%groupSize)&1 != 0 {
						q.bound(&f)
						return f, true
					}
				}
			}
			if c, ok = x.list(q); !ok {
				return Found{}, false
			}
		}
	}
	return x.settle(q, &c)
}

// contenders reports whether a loose rank may be as low as key.
func (q *Query) contenders(key int64) bool {
	for i := range q.loose {
		if q.loose[i].key <= key {
			return true
		}
	}
	return false
}

// bound has what was found know of the loose ranks, none of which is in question.
func (q *Query) bound(f *Found) {
	for i := range q.loose {
		f.Others = min(f.Others, q.loose[i].key)
	}
}

// leaders reads the heads, and lists the loose ranks.
func (x *LoadIndex) leaders(q *Query) (contest, bool) {
	heads := x.heads[q.By]
	q.Read += len(heads)
	least, others, ties, first := int64(hiddenKey), int64(hiddenKey), 0, 0
	for i := range heads {
		head := heads[i].Load()
		if head&looseFlag != 0 {
			var ok bool
			if head, ok = x.gather(q, i); !ok {
				return contest{}, false
			}
		}
		switch key := int64(head >> keyShift); {
		case key > least:
			others = min(others, key)
		case key == least:
			others = key
			ties += int(head & tiesMask)
		default:
			least, others, ties, first = key, least, int(head&tiesMask), i
		}
	}
	return contest{key: least, others: others, ties: ties, first: first}, true
}

// gather lists the loose ranks of a group and returns the head that goes with them.
func (x *LoadIndex) gather(q *Query, group int) (head uint64, ok bool) {
	word, listed := &x.heads[q.By][group], len(q.loose)
	for range moves {
		head = word.Load()
		perturb.Point()
		q.gather(x, group, x.loose[q.By][group].Load())
		if (head^word.Load())&versionMask == 0 {
			return head, true
		}
		q.loose = q.loose[:listed]
	}
	return 0, false
}

// gather lists ranks of a group as loose, those that may be found.
func (q *Query) gather(x *LoadIndex, group int, ranks uint64) {
	if q.Among != nil {
		ranks &= q.Among[group]
	}
	q.Read += bits.OnesCount64(ranks)
	for ; ranks != 0; ranks &= ranks - 1 {
		at := group*groupSize + bits.TrailingZeros64(ranks)
		q.loose = append(q.loose, looseRank{spot: at, key: x.keys[q.By][at].Load()})
	}
}

// draw draws one of the exact ranks that are tied.
func (x *LoadIndex) draw(q *Query, c *contest) (f Found, ok bool) {
	if c.key >= hiddenKey {
		return Found{Key: hiddenKey, Others: hiddenKey}, true
	}
	nth := 0
	if c.ties > 1 {
		nth = int(Below(q.Rand, uint64(c.ties)))
	}
	if c.listed {
		for _, t := range q.tied {
			n := bits.OnesCount64(t.ranks)
			if nth < n {
				return x.found(t.group*groupSize+nthBit(t.ranks, nth), c.key, c.others)
			}
			nth -= n
		}
		return Found{}, false
	}
	heads := x.heads[q.By]
	for i := c.first; i < len(heads); i++ {
		head := heads[i].Load()
		if int64(head>>keyShift) != c.key {
			continue
		}
		n := int(head & tiesMask)
		if nth >= n {
			nth -= n
			continue
		}
		q.Read += groupSize
		keys := x.keys[q.By][i*groupSize : (i+1)*groupSize]
		var tied uint64
		var above int64
		if head&looseFlag == 0 {
			tied, above = scan(keys, c.key)
		} else {
			tied, above = scanAmong(keys, ^x.loose[q.By][i].Load(), c.key)
		}
		if (head^heads[i].Load())&versionMask != 0 || nth >= bits.OnesCount64(tied) {
			return Found{}, false
		}
		others := c.others
		if c.ties > 1 {
			others = c.key
		}
		return x.found(i*groupSize+nthBit(tied, nth), c.key, min(others, above))
	}
	return Found{}, false
}

func (x *LoadIndex) found(at int, key, others int64) (f Found, ok bool) {
	s := x.shards[at].Load()
	return Found{Shard: s, Key: key, Others: others, spot: at}, s != nil
}

// scan returns which keys of a group equal key, and the least of the others.
func scan(groupKeys []atomic.Int64, key int64) (equal uint64, others int64) {
	others = hiddenKey
	for i := range groupKeys {
		if k := groupKeys[i].Load(); k == key {
			equal |= 1 << i
		} else {
			others = min(others, k)
		}
	}
	return equal, others
}

// scanAmong is scan of some of the group's ranks.
func scanAmong(groupKeys []atomic.Int64, among uint64, key int64) (equal uint64, others int64) {
	others = hiddenKey
	for ; among != 0; among &= among - 1 {
		i := bits.TrailingZeros64(among)
		if k := groupKeys[i].Load(); k == key {
			equal |= 1 << i
		} else {
			others = min(others, k)
		}
	}
	return equal, others
}

// leastAmong returns the least key of some of a group's ranks, which have it, and
// the least of the others. Inlined it would keep its variables in memory.
//
//go:noinline
func leastAmong(groupKeys []atomic.Int64, among uint64) (least int64, equal uint64, others int64) {
	least, others = hiddenKey, hiddenKey
	bit := uint64(1)
	for i := range groupKeys {
		if among&bit != 0 {
			if k := groupKeys[i].Load(); k > least {
				others = min(others, k)
			} else if k == least {
				equal |= bit
			} else {
				least, equal, others = k, bit, least
			}
		}
		bit <<= 1
	}
	return least, equal, others
}

// only is the contest where there is one group.
func (x *LoadIndex) only(q *Query) (c contest) {
	keys, loose := x.keys[q.By], &x.loose[q.By][0]
	q.Read += len(keys)
	among := x.ranks(q, 0)
	// One that is loose before or after is so: it is judged.
	ranks := loose.Load()
	key, equal, others := leastAmong(keys, among&^ranks)
	if later := loose.Load() &^ ranks; later != 0 {
		ranks |= later
		key, equal, others = leastAmong(keys, among&^ranks)
	}
	if ranks != 0 {
		q.gather(x, 0, ranks)
	}
	q.tied = append(q.tied[:0], tiedRanks{0, equal})
	return contest{key: key, others: others, ties: bits.OnesCount64(equal), listed: true}
}

// list finds the least key among the exact ranks that may be found, and lists those
// that have it. It begins where the least may be, and then reads the groups whose
// head is not above what was found.
func (x *LoadIndex) list(q *Query) (c contest, ok bool) {
	heads := x.heads[q.By]
	first, lowest := -1, int64(hiddenKey)
	for i := range heads {
		if key := int64(heads[i].Load() >> keyShift); key < lowest && q.Among[i] != 0 {
			first, lowest = i, key
		}
	}
	c = contest{key: hiddenKey, others: hiddenKey, listed: true}
	q.tied = q.tied[:0]
	q.Read += 2 * len(heads)
	if first < 0 {
		return c, true
	}
	if !x.listGroup(q, &c, first) {
		return c, false
	}
	for i := range heads {
		if i == first || q.Among[i] == 0 {
			continue
		}
		if key := int64(heads[i].Load() >> keyShift); key > c.key {
			c.others = min(c.others, key)
		} else if !x.listGroup(q, &c, i) {
			return c, false
		}
	}
	return c, true
}

// listGroup has the ranks of one group join the contest.
func (x *LoadIndex) listGroup(q *Query, c *contest, group int) bool {
	word := &x.heads[q.By][group]
	for range moves {
		head, among := word.Load(), q.Among[group]
		if head&looseFlag != 0 {
			among &^= x.loose[q.By][group].Load()
		}
		q.Read += bits.OnesCount64(among)
		key, equal, others := leastAmong(x.keys[q.By][group*groupSize:(group+1)*groupSize], among)
		if (head^word.Load())&versionMask != 0 {
			continue
		}
		switch {
		case key >= hiddenKey:
		case key < c.key:
			q.tied = append(q.tied[:0], tiedRanks{group, equal})
			c.others, c.key, c.ties = min(c.key, others), key, bits.OnesCount64(equal)
		case key == c.key:
			q.tied = append(q.tied, tiedRanks{group, equal})
			c.others, c.ties = key, c.ties+bits.OnesCount64(equal)
		default:
			c.others = min(c.others, key)
		}
		return true
	}
	return false
}

// settle draws the winner of a contest that the loose ranks join.
func (x *LoadIndex) settle(q *Query, c *contest) (f Found, ok bool) {
	if len(q.loose) == 0 {
		f, ok = x.draw(q, c)
		if c.ties > 1 {
			f.Others = c.key
		}
		return f, ok
	}
	exact, ties, others := c.key, c.ties, c.others
	x.judgeBelow(q, c)
	if c.key < exact {
		ties, others = 0, exact
	}
	known, open := 0, 0 // loose ranks that have the least key, or may have it
	for i := range q.loose {
		switch r := &q.loose[i]; {
		case r.key > c.key:
			others = min(others, r.key)
		case r.judged:
			known++
		default:
			open++
		}
	}
	for range draws {
		if open == 0 {
			break
		}
		nth := int(Below(q.Rand, uint64(ties+known+open)))
		if nth < ties {
			f, ok = x.draw(q, c)
			f.Others = c.key
			return f, ok
		}
		r := q.nthAt(c.key, nth-ties)
		if !r.judged {
			open--
			if x.judge(q, r); r.key != c.key {
				others = min(others, r.key)
				continue
			}
		}
		return x.found(r.spot, c.key, c.key)
	}
	for i := range q.loose {
		if r := &q.loose[i]; !r.judged && r.key == c.key {
			if x.judge(q, r); r.key == c.key {
				known++
			} else {
				others = min(others, r.key)
			}
		}
	}
	nth := 0
	if ties+known > 1 {
		others = c.key
		nth = int(Below(q.Rand, uint64(ties+known)))
	}
	if nth >= ties && known > 0 {
		return x.found(q.nthAt(c.key, nth-ties).spot, c.key, others)
	}
	f, ok = x.draw(q, c)
	f.Others = min(f.Others, others)
	return f, ok
}

// judgeBelow judges the loose ranks that may be below the least key, and has it
// fall as far. It begins with the lowest bound, which is the likeliest to spare it
// the others.
func (x *LoadIndex) judgeBelow(q *Query, c *contest) {
	lowest := &q.loose[0]
	for i := range q.loose {
		if q.loose[i].key < lowest.key {
			lowest = &q.loose[i]
		}
	}
	if lowest.key >= c.key {
		return
	}
	x.judge(q, lowest)
	c.key = min(c.key, lowest.key)
	for i := range q.loose {
		if r := &q.loose[i]; !r.judged && r.key < c.key {
			x.judge(q, r)
			c.key = min(c.key, r.key)
		}
	}
}

// nthAt returns the n-th of the loose ranks that have a key, or may have it.
func (q *Query) nthAt(key int64, n int) *looseRank {
	for i := range q.loose {
		if r := &q.loose[i]; r.key == key {
			if n == 0 {
				return r
			}
			n--
		}
	}
	return &q.loose[0]
}

// judge reads the load of a loose rank.
func (x *LoadIndex) judge(q *Query, r *looseRank) {
	q.Judged++
	r.judged = true
	s := x.shards[r.spot].Load()
	if s == nil {
		r.key = hiddenKey
		return
	}
	r.key = q.Judge.Key(s, q.By)
}

// Any finds a rank that the judge takes, nil if there is none: it is asked about
// those whose keys do not rule out that they have at most so much prefill and so many
// requests. Groups whose heads do are passed over. It begins at a random group, so
// that not all callers find the same rank.
func (x *LoadIndex) Any(q *Query, prefill, requests int64) *Shard {
	prefill, requests = min(prefill, beyond), min(requests, beyond)
	groups := len(x.loose[ByPrefill])
	start := 0
	if groups > 1 {
		start = int(Below(q.Rand, uint64(groups)))
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

// Ties returns how many ranks that may be found have a key.
func (x *LoadIndex) Ties(q *Query, key int64) (n int) {
	q.loose = q.loose[:0]
	for group := range x.loose[q.By] {
		if x.locks != nil {
			if head := x.heads[q.By][group].Load(); int64(head>>keyShift) > key && head&looseFlag == 0 {
				continue
			}
		}
		ranks, loose := x.ranks(q, group), x.loose[q.By][group].Load()
		q.Read += bits.OnesCount64(ranks)
		equal, _ := scanAmong(x.keys[q.By][group*groupSize:min(len(x.shards), (group+1)*groupSize)], ranks&^loose, key)
		n += bits.OnesCount64(equal)
		q.gather(x, group, loose)
	}
	for i := range q.loose {
		if r := &q.loose[i]; r.key <= key {
			if x.judge(q, r); r.key == key {
				n++
			}
		}
	}
	return n
}

// Known reports whether a key is that of a rank, and in range.
func Known(key int64) bool { return key < beyond }

// nthBit returns the place of the n-th set bit. REQUIRES: there are so many.
func nthBit(word uint64, n int) int {
	for ; n > 0; n-- { // cheaper, on average, than halving by counts of bits
		word &= word - 1
	}
	return bits.TrailingZeros64(word)
}

// Below returns a uniform integer in [0,n), n > 0: Lemire, "Fast Random Integer
// Generation in an Interval", 2019. The bound on tries is for a source that is stuck.
func Below(r Rand, n uint64) uint64 {
	hi, lo := bits.Mul64(r.Uint64(), n)
	if lo < n {
		bound := -n % n
		for try := 0; lo < bound && try < 8; try++ {
			hi, lo = bits.Mul64(r.Uint64(), n)
		}
	}
	return hi
}
