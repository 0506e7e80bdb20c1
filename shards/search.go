package shards

import "math/bits"

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

// Rand is a source of random bits.
type Rand interface{ Uint64() uint64 }

// Judge reads the load of ranks that a search has to look at.
type Judge interface {
	// Key returns a rank's key now; see LoadIndex.Key.
	Key(s *Shard, d Dimension) int64
	// Take reports whether a rank is what Any searches for.
	Take(s *Shard) bool
}

// Found is the rank with the least key. No other rank of those asked for had a key
// below Others.
type Found struct {
	Shard       *Shard // nil if there is none
	Key, Others int64

	spot int
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
	}
	return x.settle(q, &c)
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

// tiedRanks are those of a group that have the least key so far.
type tiedRanks struct {
	group int
	ranks uint64
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

// Known reports whether a key is that of a rank, and in range.
func Known(key int64) bool { return key < beyond }
