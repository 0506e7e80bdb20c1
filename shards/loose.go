package shards

import (
	"math/bits"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
)

// looseRank is a rank whose load is not, or was not, known.
type looseRank struct {
	spot   int
	key    int64 // a bound until judged
	judged bool
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
