package sched

import (
	"math"
	"math/bits"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// ledger holds what the waiting requests of each class amount to. It is apart
// from the queue so that a caller who leaves takes its part along before it
// returns, without the turn. Its lock is a leaf.
type ledger struct {
	counters *measure.Classes
	mu       struct {
		sync.Mutex
		profile *policy.Profile // for which the classes stand; nil until somebody waited
		classes []*classCount
	}
}

// classCount is one class of one profile; guarded by ledger.mu.
type classCount struct {
	name        string
	pending     int64
	raw, cached total
	deficit     int64
	waits       *measure.Class // counts how long its requests waited
	roll        roll           // who is counted here
}

// total is a sum of token counts that may exceed 64 bits on the way.
type total struct{ high, low uint64 }

func (t *total) add(n int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(n), 0)
	t.high += carry
}

func (t *total) sub(n int64) {
	var borrow uint64
	t.low, borrow = bits.Sub64(t.low, uint64(n), 0)
	t.high -= borrow
}

// value returns the sum, saturating.
func (t *total) value() int64 {
	if t.high > 0 || t.low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(t.low)
}

// reset starts empty counters for a profile.
func (l *ledger) reset(p *policy.Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resetLocked(p)
}

func (l *ledger) resetLocked(p *policy.Profile) {
	l.mu.profile, l.mu.classes = p, make([]*classCount, p.Len())
	for i := range l.mu.classes {
		l.mu.classes[i] = newClassCount(l.counters.Of(p, i))
	}
}

// reclass goes over to another profile with everyone who waits in its new class,
// in one step: who never queues and looks for a backlog in between must not find
// it half counted.
func (l *ledger) reclass(p *policy.Profile, waiting []*queue.Entry[*job]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resetLocked(p)
	for _, e := range waiting {
		e.Value.counted = nil
		e.Value.place.leave()
		l.countLocked(e.Value, e.Class())
	}
}

// count adds a job to its class, unless it has been settled meanwhile: then
// whoever settled it has found it uncounted, or will find it counted. In the same
// step that is told, so that what its owner tells comes after.
func (l *ledger) count(s *Scheduler, j *job, class int) (counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.countLocked(j, class) {
		return false
	}
	s.tellQueued(j)
	return true
}

func (l *ledger) countLocked(j *job, class int) (counted bool) {
	if j.state.Load() != jobWaiting {
		return false
	}
	c := l.mu.classes[class]
	c.pending++
	c.raw.add(j.entry.Raw)
	c.cached.add(j.entry.Cached)
	j.counted = c
	c.roll.add(&j.place)
	return true
}

// uncount takes a job out of its class, which it returns; nil if it was not
// counted.
func (l *ledger) uncount(j *job) *classCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := j.counted
	if c != nil {
		c.pending--
		c.raw.sub(j.entry.Raw)
		c.cached.sub(j.entry.Cached)
		j.counted = nil
		j.place.leave()
	}
	return c
}

// usage returns what a class amounts to.
func (l *ledger) usage(class int) queue.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.classes[class].usage()
}

// usageFor returns what a class of a profile amounts to. It is not known while
// the classes still stand for another profile.
func (l *ledger) usageFor(p *policy.Profile, class int) (usage queue.Usage, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.profile != p {
		return queue.Usage{}, false
	}
	return l.mu.classes[class].usage(), true
}

func (c *classCount) usage() queue.Usage {
	return queue.Usage{Requests: c.pending, Raw: c.raw.value(), Cached: c.cached.value()}
}

// setDeficits notes the deficits as they are at the end of an epoch.
func (l *ledger) setDeficits(deficit func(class int) int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.mu.classes {
		c.deficit = deficit(i)
	}
}

// stats describes the classes of a profile.
func (l *ledger) stats(p *policy.Profile) []ClassStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	classes := make([]ClassStats, p.Len())
	for i := range classes {
		classes[i].Name = p.Class(i).Name
		if l.mu.profile == p {
			c := l.mu.classes[i]
			u := c.usage()
			classes[i].Pending, classes[i].Tokens, classes[i].Cached = u.Requests, u.Raw, u.Cached
			classes[i].Deficit = c.deficit
		}
	}
	return classes
}
