package sched

import (
	"sync"

	"github.com/seed-3c5df8a4/turnstile/internal/wide"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// ledger holds what the waiting requests of each class amount to. It is apart from the
// queue so that a caller that leaves takes its part back before it returns, without the
// turn. Its lock is a leaf.
type ledger struct {
	counters *measure.Classes
	mu       struct {
		sync.Mutex
		profile *policy.Profile // for which the classes stand; nil until a request waited
		classes []*classCount
		// coming are the classes of the profile that is being gone over to; side says
		// in which of its two places a job is counted for the profile that stands.
		coming []*classCount
		side   int
	}
}

// classCount is one class of one profile; guarded by ledger.mu.
type classCount struct {
	name        string
	pending     int64
	raw, cached wide.Sum
	deficit     int64
	failsAt     int64          // when its first request fails for want of a usable rank, in ns
	waits       *measure.Class // counts how long its requests waited
	roll        roll           // the jobs counted here
}

// count is where a job is counted: in a class, and on its roll.
type count struct {
	class *classCount
	place rollPlace
}

// reset starts empty counters for a profile.
func (l *ledger) reset(p *policy.Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.profile, l.mu.classes = p, l.countersOf(p)
}

func (l *ledger) countersOf(p *policy.Profile) []*classCount {
	classes := make([]*classCount, p.Len())
	for i := range classes {
		classes[i] = newClassCount(l.counters.Of(p, i))
	}
	return classes
}

// beginReclass begins to go over to another profile. Until endReclass the classes
// stand for the old one, so that a request of a class that never queues does not
// find the backlog half counted.
func (l *ledger) beginReclass(p *policy.Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.coming = l.countersOf(p)
}

// move counts a job in its class of the coming profile too, if it is counted at
// all. name is that of the class.
func (l *ledger) move(j *job, class int, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := j.totals[l.mu.side].class; c == nil || j.state.Load() != jobWaiting {
		return
	}
	l.addLocked(j, &j.totals[1-l.mu.side], l.mu.coming[class])
	j.servedClass = name
}

// endReclass has the classes stand for the coming profile.
func (l *ledger) endReclass(p *policy.Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.profile, l.mu.classes, l.mu.coming = p, l.mu.coming, nil
	l.mu.side = 1 - l.mu.side
}

// count adds a job to its class, unless it has been settled meanwhile: then the
// goroutine that settled it has found it uncounted, or will find it counted. In the
// same step that is told, so that what its owner tells comes after.
func (l *ledger) count(s *Scheduler, j *job, class int) (counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.state.Load() != jobWaiting {
		return false
	}
	l.addLocked(j, &j.totals[l.mu.side], l.mu.classes[class])
	s.tellQueued(j)
	return true
}

func (l *ledger) addLocked(j *job, place *count, c *classCount) {
	c.pending++
	c.raw.Add(j.entry.Raw)
	c.cached.Add(j.entry.Cached)
	place.class = c
	place.place.leave() // of the roll of a profile before the last
	c.roll.add(&place.place)
}

// uncount takes a job out of its class, which it returns; nil if it was not
// counted.
func (l *ledger) uncount(j *job) *classCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	class := j.totals[l.mu.side].class
	for i := range j.totals {
		place := &j.totals[i]
		if c := place.class; c != nil {
			c.pending--
			c.raw.Sub(j.entry.Raw)
			c.cached.Sub(j.entry.Cached)
			place.class = nil
			place.place.leave()
		}
	}
	return class
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
	return queue.Usage{Requests: c.pending, Raw: c.raw.Clamped(), Cached: c.cached.Clamped()}
}

// setDeficits notes the deficits that have changed, at the end of an epoch.
func (l *ledger) setDeficits(q *queue.Queue[*job]) {
	changed := q.Changed()
	if len(changed) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, class := range changed {
		l.mu.classes[class].deficit = q.Deficit(class)
	}
}

// setFails notes when the first request of each class that has any fails for want of a
// usable rank, at the end of an epoch.
func (l *ledger) setFails(failing func(yield func(class int, at int64) bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failing(func(class int, at int64) bool {
		l.mu.classes[class].failsAt = at
		return true
	})
}

// failsAt returns when the first request of a class fails so, queue.NoDue if none does.
func (l *ledger) failsAt(p *policy.Profile, class int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.profile != p || l.mu.classes[class].pending == 0 || !p.Class(class).WaitsForEndpoint() {
		return queue.NoDue
	}
	return l.mu.classes[class].failsAt
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
