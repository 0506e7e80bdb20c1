package storm

import (
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// inspectWaiting: no waiter could run, and the counters of the classes are the
// sums over the waiters.
func (s *storm) inspectWaiting(w *world, stats *sched.Stats, loads map[sched.RankID]sched.RankLoad, fault func(int, string, ...any)) {
	pending, tokens := make(map[string]int64), make(map[string]int64)
	var waiting []*sched.Request
	known := true
	for _, c := range s.callers {
		if c.is() != calling {
			continue
		}
		r := c.call.Load()
		if r == nil {
			known = false
			continue
		}
		waiting = append(waiting, r)
		if class := w.profile.class(r.Class); class != nil {
			pending[class.Name]++
			tokens[class.Name] += r.ISL
		}
	}
	for _, r := range waiting {
		class := w.profile.class(r.Class)
		if class == nil || !class.CanQueue() && !class.WaitsForEndpoint() {
			fault(6, "%s waits in a class in which no request waits", r.ID)
			continue
		}
		places := w.eligible(r, nil)
		usable, blocked, guarded := 0, 0, 0
		for _, p := range places {
			usable += count(!p.overloaded)
			switch load := loads[p.id]; {
			case p.overloaded || busy(class, &load):
				blocked++
			case w.mayBeGuarded(class, &load, pending, known):
				guarded++
			}
		}
		switch {
		case usable == 0 && class.WaitsForEndpoint():
		case !class.MustWait(blocked, len(places)) && (guarded == 0 || blocked+guarded < len(places)):
			fault(6, "%s waits in class %s although of its %d ranks only %d are busy or overloaded and %d guarded", r.ID, class.Name, len(places), blocked, guarded)
		}
		if now := s.source.Now(); !r.Due.IsZero() && !r.Due.After(now) {
			fault(6, "%s waits, but was due at %v and it is %v", r.ID, r.Due, now)
		}
	}
	var sum int64
	for _, c := range stats.Classes {
		sum += c.Pending
		if known && (c.Pending != pending[c.Name] || c.Tokens != tokens[c.Name]) {
			fault(7, "class %s counts %d requests and %d tokens; there are %d and %d", c.Name, c.Pending, c.Tokens, pending[c.Name], tokens[c.Name])
		}
	}
	if sum != stats.Waiting {
		fault(7, "%d wait, but the classes count %d", stats.Waiting, sum)
	}
}

func count(v bool) int {
	if v {
		return 1
	}
	return 0
}

// busy reports whether a rank is busy for a class.
func busy(class *policy.Class, load *sched.RankLoad) bool {
	return class.BusyThreshold != nil && load.PrefillTokens > *class.BusyThreshold ||
		class.MaxRequestsPerRank > 0 && load.Requests >= class.MaxRequestsPerRank
}

// mayBeGuarded reports whether a waiter of another class may guard a rank: how long
// anybody has waited, and for which ranks, is not looked at.
func (w *world) mayBeGuarded(class *policy.Class, load *sched.RankLoad, pending map[string]int64, known bool) bool {
	for i := range w.profile.parsed.Len() {
		other := w.profile.parsed.Class(i)
		if other.Name != class.Name && other.Guards() && class.BoundByGuards() &&
			(pending[other.Name] > 0 || !known) && load.PrefillTokens > *other.BusyThreshold {
			return true
		}
	}
	return false
}
