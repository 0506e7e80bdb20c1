package model

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Waiting for an endpoint: rule 13 of admission.

// awaits reports whether a request may wait while it has no usable rank.
func (m *Model) awaits(class int, q *sched.Request) bool {
	return m.profile.Classes[class].Awaits() && !q.DoNotQueue
}

// noteLacks notes for all waiters since when they have had no usable rank. It must
// be called at each change of which ranks are eligible or overloaded.
func (m *Model) noteLacks() {
	for _, w := range m.waiting {
		switch {
		case len(m.usable(w.request)) > 0:
			w.lacks = haveOne
		case w.lacks == haveOne:
			w.lacks = m.now()
		}
	}
}

// lackEnds returns when a waiter fails for want of a rank.
func (m *Model) lackEnds(w *waiter) int64 {
	c := &m.profile.Classes[w.class]
	if w.lacks == haveOne || !c.Awaits() {
		return NoDue
	}
	return later(w.lacks, c.EndpointWait)
}

// failLacks fails waiters that have had no usable rank for too long, in arrival order.
func (m *Model) failLacks() {
	for _, w := range slices.Clone(m.waiting) {
		if m.lackEnds(w) <= m.now() {
			m.saw("13 without an endpoint for too long")
			m.leave(w)
			w.answer <- m.refuse(w.request, w.query, m.noRank(w.request))
		}
	}
}

// later adds two times and stops at the last.
func later(at, by int64) int64 {
	if sum := at + by; sum >= at {
		return sum
	}
	return NoDue
}
