package sched

import (
	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// roll lists the waiters in one class, in no order of meaning, as a ring around a head.
// It exists so that the line can be read without the turn: a slow selector may hold up
// the holder, and then people want to look. All of it is guarded by ledger.mu, which is
// held for its upkeep anyway.
type roll struct{ head rollPlace }

// rollPlace is a place on a roll: a job's, the head, or that of a reader on its way
// along the ring.
type rollPlace struct {
	job        *job // nil for the head and for a reader
	prev, next *rollPlace
}

func newClassCount(waits *measure.Class) *classCount {
	c := &classCount{name: waits.Name(), waits: waits}
	c.roll.head.prev, c.roll.head.next = &c.roll.head, &c.roll.head
	return c
}

// add puts a place at the end.
func (r *roll) add(p *rollPlace) { p.enter(r.head.prev) }

// enter puts a place behind another.
func (p *rollPlace) enter(before *rollPlace) {
	p.prev, p.next = before, before.next
	p.prev.next, p.next.prev = p, p
}

// leave takes a place off its roll, if it is on one.
func (p *rollPlace) leave() {
	if p.prev == nil {
		return
	}
	p.prev.next, p.next.prev = p.next, p.prev
	p.prev, p.next = nil, nil
}

// seenAtOnce is how many of the waiters are looked at under the ledger's lock before it
// is given to others.
const seenAtOnce = 128

// eachWaiting calls see for the waiters in a class of a profile, under the lock; for
// none while the classes still stand for another profile. A long roll is read in
// pieces: a request that arrives or leaves in between may be seen or not, and none is
// seen twice. If the classes are rebuilt meanwhile, it ends.
func (l *ledger) eachWaiting(p *policy.Profile, class int, see func(*job)) {
	var way rollPlace
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.profile != p {
		return
	}
	c := l.mu.classes[class]
	way.enter(&c.roll.head)
	defer way.leave()
	for seen := 0; way.next != &c.roll.head; seen++ {
		if seen == seenAtOnce {
			seen = 0
			l.mu.Unlock()
			l.mu.Lock()
			continue
		}
		next := way.next
		way.leave()
		way.enter(next)
		if next.job != nil {
			see(next.job)
		}
	}
}
