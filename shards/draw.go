package shards

import (
	"math/bits"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
)

// settle draws the winner of a contest that the loose ranks join.
func (x *LoadIndex) settle(q *Query, c *contest) (f Found, ok bool) {
	// Of what the heads say, some may be ranks that may not be found.
	unsure := q.Among != nil && !c.listed
	if len(q.loose) == 0 && !unsure {
		f, ok = x.draw(q, c)
		if c.ties > 1 {
			f.Others = c.key
		}
		return f, ok
	}
	exact, ties, others := c.key, c.ties, c.others
	if len(q.loose) > 0 {
		x.judgeBelow(q, c)
	}
	if c.key < exact {
		ties, others, unsure = 0, exact, false
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
	for range min(draws, ties+known+open) {
		if open == 0 && !unsure {
			break
		}
		nth := 0
		if loose := known + open; loose > 0 && ties+loose > 1 {
			nth = int(chance.Below(q.Rand, uint64(ties+loose)))
		}
		if nth < ties {
			if f, ok = x.draw(q, c); !ok {
				return Found{}, false
			}
			if unsure && f.Shard != nil && q.Among[f.spot/groupSize]>>(f.spot%groupSize)&1 == 0 {
				continue
			}
			f.Others = min(f.Others, others)
			if known+open > 0 {
				f.Others = c.key
			}
			return f, true
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
	if unsure {
		listed, ok := x.list(q)
		if !ok {
			return Found{}, false
		}
		*c = listed
		return x.settle(q, c)
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
		nth = int(chance.Below(q.Rand, uint64(ties+known)))
	}
	if nth >= ties && known > 0 {
		return x.found(q.nthAt(c.key, nth-ties).spot, c.key, others)
	}
	f, ok = x.draw(q, c)
	f.Others = min(f.Others, others)
	return f, ok
}

// draw draws one of the exact ranks that are tied.
func (x *LoadIndex) draw(q *Query, c *contest) (f Found, ok bool) {
	if c.key >= hiddenKey {
		return Found{Key: hiddenKey, Others: hiddenKey}, true
	}
	nth := 0
	if c.ties > 1 {
		nth = int(chance.Below(q.Rand, uint64(c.ties)))
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

// nthBit returns the place of the n-th set bit. REQUIRES: there are so many.
func nthBit(word uint64, n int) int {
	for ; n > 0; n-- { // cheaper, on average, than halving by counts of bits
		word &= word - 1
	}
	return bits.TrailingZeros64(word)
}
