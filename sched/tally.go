package sched

import (
	"maps"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"
	uberatomic "go.uber.org/atomic"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// tallies count what became of requests, by the class they were decided in. They
// go by the name of the class, whatever the profile, and are kept for good, so
// that counters only grow. The sums over all of them are the counters of the whole
// scheduler: a booking counts once, in the counter of its class.
type tallies struct {
	// profile is the one for whose classes, in its order, of stands.
	profile *policy.Profile
	of      []*tally
	// byName has them and those of earlier profiles; other counts rejections in no
	// class, made before one was looked for.
	byName map[string]*tally
	other  *tally
}

// tally counts for one class.
type tally struct {
	name string
	// admitted is striped, and nil until the first admission: a scheduler may have
	// many classes that nobody uses.
	admitted atomic.Pointer[xsync.Counter]
	_        [40]byte                         // a flood of rejections leaves the line above alone
	rejected [rejectionCodes]uberatomic.Int64 // by place in codes()
}

// with returns the tallies for another profile. They are published before it is,
// so that every class of a published profile is found by its name.
func (t *tallies) with(p *policy.Profile) *tallies {
	next := &tallies{profile: p, of: make([]*tally, p.Len()), byName: make(map[string]*tally, p.Len()), other: &tally{}}
	if t != nil {
		maps.Copy(next.byName, t.byName)
		next.other = t.other
	}
	for i := range next.of {
		name := p.Class(i).Name
		if next.byName[name] == nil {
			next.byName[name] = &tally{name: name}
		}
		next.of[i] = next.byName[name]
	}
	return next
}

// find returns the tally of a class of a profile that is or was published.
func (t *tallies) find(p *policy.Profile, class int) *tally {
	if t.profile == p {
		return t.of[class]
	}
	return t.byName[p.Class(class).Name]
}

// all calls f with every tally.
func (t *tallies) all(f func(*tally)) {
	for _, one := range t.byName {
		f(one)
	}
	f(t.other)
}

func (t *tally) admit() {
	c := t.admitted.Load()
	if c == nil {
		c = xsync.NewCounter()
		if !t.admitted.CompareAndSwap(nil, c) {
			c = t.admitted.Load()
		}
	}
	c.Inc()
}

func (t *tally) admissions() int64 {
	if c := t.admitted.Load(); c != nil {
		return c.Value()
	}
	return 0
}

// rejectionsTo adds the rejections by the text of their sentinel, if there are any.
func (t *tally) rejectionsTo(counts map[string]int64) map[string]int64 {
	for i, code := range codes() {
		if n := t.rejected[i].Load(); n > 0 {
			if counts == nil {
				counts = make(map[string]int64)
			}
			counts[code.Error()] += n
		}
	}
	return counts
}

// tallied fills in the counters of the classes of a profile.
func (s *Scheduler) tallied(classes []ClassStats) {
	all := s.tallies.Load()
	for i := range classes {
		if t := all.byName[classes[i].Name]; t != nil {
			classes[i].Admitted = t.admissions()
			classes[i].Rejected = t.rejectionsTo(nil)
		}
	}
}
