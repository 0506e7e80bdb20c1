package shards

import (
	"math/bits"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// MostRules is how many rules an index counts busy ranks by.
const MostRules = 8

// Rules say above which loads a rank is busy: one for each rule by which busy ranks
// are counted, at most MostRules. They do not change.
type Rules []lifecycle.BusyAbove

// busyCount knows which ranks of an index are busy by each rule, for classes whose
// gate depends on how many are.
//
// Guarantee: while its lock is held, no rank becomes busy or idle but by the passing
// of time, and no booking is halfway between two ranks. So what is counted under it
// was true at one instant, and a booking that is made under it was decided by what
// was true when it was made.
//
// How: a change of a rank's load that makes it busy or idle by a rule, or that concerns
// a load which time alone makes idle, takes the lock around the publication of the load
// and the hint: so a caller that counts a rank as idle that was busy finds its hint
// under way. All other changes take no lock but the rank's. A transfer takes it around
// both publications. It comes after the ranks' locks and before a group's.
//
// Tried and lost: the locks of all eligible ranks for each admission (at 512 ranks a
// release waited a thousand times as long). To count without a lock and to look at
// the change counters again before booking: two callers that each count the other's
// rank as idle both book, though one of them had to wait.
type busyCount struct {
	sync.Mutex
	rules int // how many
	// busy and fading have a bit for each spot, by rule and group: the rank is busy
	// whatever the time; it is busy until time makes it idle.
	busy, fading [MostRules][]uint64
}

// CountBusy has the index count the ranks of a table that is about to be shown, those
// that may be chosen: those that have changed or, anew, all by other rules. REQUIRES:
// the epoch is odd.
func (x *LoadIndex) CountBusy(t *Table, rules int, anew bool, of func(*Slot) *Rules) {
	c := &x.count
	c.Lock()
	before := c.rules
	c.rules = rules
	for r := range rules {
		if c.busy[r] == nil {
			c.busy[r], c.fading[r] = make([]uint64, x.Words()), make([]uint64, x.Words())
		}
	}
	c.Unlock()
	if rules == 0 && before == 0 {
		return
	}
	known := x.known
	if anew {
		known = nil
	}
	for slot := range t.since(known) {
		s := slot.Shard
		s.Lock()
		if at := &s.mu.spot; at.index == x {
			c.Lock()
			x.uncount(s)
			if at.rules = nil; rules > 0 && slot.Available && !slot.Overloaded {
				at.rules = of(slot)
				load := s.LoadLocked()
				busy, fading := at.rules.apply(&load)
				x.recount(s, busy, fading)
			}
			c.Unlock()
		}
		s.Unlock()
	}
}

// apply returns by which rules a rank with the load is busy whatever the time, and by
// which until time makes it idle.
func (r *Rules) apply(load *lifecycle.Load) (busy, fading uint8) {
	for i := range *r {
		above := &(*r)[i]
		if !above.Busy(load, load.Prefill.AnchorSince) {
			continue
		}
		if _, ever := above.IdleAt(load); ever && load.Prefill.Decays() {
			fading |= 1 << i
		} else {
			busy |= 1 << i
		}
	}
	return busy, fading
}

// beginCountLocked counts a rank whose load is about to be published. It reports
// whether it has taken the lock of the count, which is to be given back when the load
// and the hint are published. REQUIRES: the rank's lock, and that it has rules.
func (s *Shard) beginCountLocked(load *lifecycle.Load) (locked bool) {
	at := &s.mu.spot
	busy, fading := at.rules.apply(load)
	if busy == at.busy && fading|at.fading == 0 {
		return false
	}
	if !at.counting {
		at.index.count.Lock()
	}
	at.index.recount(s, busy, fading)
	return !at.counting
}

// recount notes by which rules a rank is busy. REQUIRES: the rank's lock and that of
// the count.
func (x *LoadIndex) recount(s *Shard, busy, fading uint8) {
	at := &s.mu.spot
	group, bit := at.at/groupSize, uint64(1)<<(at.at%groupSize)
	put := func(words *[MostRules][]uint64, was, is uint8) {
		for changed := was ^ is; changed != 0; changed &= changed - 1 {
			words[bits.TrailingZeros8(changed)][group] ^= bit
		}
	}
	put(&x.count.busy, at.busy, busy)
	put(&x.count.fading, at.fading, fading)
	at.busy, at.fading = busy, fading
}

// uncount forgets a rank. REQUIRES: as recount.
func (x *LoadIndex) uncount(s *Shard) { x.recount(s, 0, 0) }

// LockCount takes the lock of the count, for a caller that is about to book on a rank,
// or for none. REQUIRES: the rank's lock.
func (x *LoadIndex) LockCount(s *Shard) {
	x.count.Lock()
	if s != nil {
		s.mu.spot.counting = true
	}
}

// UnlockCount gives it back.
func (x *LoadIndex) UnlockCount(s *Shard) {
	if s != nil {
		s.mu.spot.counting = false
	}
	x.count.Unlock()
}

// BusyLocked returns how many ranks that may be found are busy by a rule. The judge is
// asked about those that time makes idle, and takes those that are. It is not ok if
// there is no such rule. REQUIRES: the lock of the count.
func (x *LoadIndex) BusyLocked(q *Query, rule int) (n int, ok bool) {
	c := &x.count
	if rule >= c.rules {
		return 0, false
	}
	busy, fading := c.busy[rule], c.fading[rule]
	q.Read += len(busy)
	for group := range busy {
		ranks := ^uint64(0)
		if q.Among != nil {
			ranks = q.Among[group]
		}
		n += bits.OnesCount64(busy[group] & ranks)
		for fading := fading[group] & ranks; fading != 0; fading &= fading - 1 {
			q.Judged++
			if s := x.shards[group*groupSize+bits.TrailingZeros64(fading)].Load(); s == nil || !q.Judge.Take(s) {
				n++
			}
		}
	}
	return n, true
}
