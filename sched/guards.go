package sched

import "github.com/seed-3c5df8a4/turnstile/sched/pool"

// guardsAt finds which ranks are guarded at an instant, from the requests that are
// counted as waiting: for callers without the turn; its holder keeps the guards up to
// date. It takes time in proportion to the requests that wait in classes with a guard
// age; nil if no class has one.
func (s *Scheduler) guardsAt(w *pool.World, now int64) *pool.Guards {
	if !w.Profile.Guards() {
		return nil
	}
	guards := new(pool.Guards)
	guards.Reset(w)
	for class := range w.Profile.Len() {
		rules := w.Profile.Class(class)
		if !rules.Guards() {
			continue
		}
		seen := make(map[string]bool) // by lane
		s.ledger.eachWaiting(w.Profile, class, func(j *job) {
			if now >= later(j.entry.Arrival, rules.GuardAfter) && !seen[j.entry.Lane] {
				seen[j.entry.Lane] = true
				guards.Begin(class, &j.request.Constraints)
			}
		})
	}
	return guards
}
