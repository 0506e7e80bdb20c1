package model

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// mustWait is the gate: whether a request has ranks and too many of them are busy
// for its class or overloaded.
func (m *Model) mustWait(class int, q *sched.Request) bool {
	c := &m.profile.Classes[class]
	ranks := m.eligible(q)
	blocked := 0
	for _, r := range ranks {
		if m.isOverloaded(r) || c.Busy(r.prefill.active(m.now()), r.worker.MaxBatchedTokens) {
			blocked++
		}
	}
	return c.MustWait(blocked, len(ranks))
}

// dispatch serves whoever can run, one after the other, each when it is its turn.
func (m *Model) dispatch() {
	for {
		candidates := m.candidates()
		costs, waiting, some := make([]int64, len(candidates)), make([]int, len(candidates)), 0
		for c, w := range candidates {
			waiting[c] = int(m.usage(c)[0])
			if w != nil {
				costs[c] = w.Cost
				some++
			}
		}
		if some == 0 {
			break
		}
		class, by := m.round.Turn(m.profile.Classes, costs, waiting)
		m.saw(by)
		if some > 1 {
			m.saw("8 between classes")
		}
		w := candidates[class]
		m.remove(w)
		w.answer <- m.admit(w.request, w.query)
	}
	m.setTimer()
}

// candidates returns for each class who of those that can run goes first.
func (m *Model) candidates() []*waiter {
	best := make([]*waiter, len(m.profile.Classes))
	for _, w := range m.waiting {
		if m.mustWait(w.class, w.request) {
			continue
		}
		class := &m.profile.Classes[w.class]
		b := best[w.class]
		if b != nil && b.Priority == w.Priority && class.aged(&b.Entry, m.now()) != class.aged(&w.Entry, m.now()) {
			m.saw("6 by age")
		}
		if b == nil || class.Before(&w.Entry, &b.Entry, m.now()) {
			best[w.class] = w
		}
	}
	return best
}

// admit selects and books as one step.
func (m *Model) admit(q *sched.Request, query bool) answer {
	r, err := m.choose(q)
	if err != nil {
		return m.refuse(q, query, err)
	}
	a := answer{placement: sched.Placement{Rank: r.id, CachedTokens: m.cached(q, r.id)}}
	if !query {
		a.booking = m.book(q, r)
		a.placement = a.booking.placement
	}
	m.tell(sched.Decision{Kind: sched.DecisionAdmitted, Request: q.ID, Query: query, Placement: a.placement})
	return a
}

// remove takes a waiter out who is served.
func (m *Model) remove(w *waiter) {
	m.waiting = slices.DeleteFunc(m.waiting, func(x *waiter) bool { return x == w })
}

// leave takes a waiter out who is not served.
func (m *Model) leave(w *waiter) {
	m.remove(w)
	if m.usage(w.class)[0] == 0 {
		m.round.Empty(w.class)
	}
}

func (m *Model) reject(w *waiter, code error) {
	m.leave(w)
	w.answer <- m.refuse(w.request, w.query, refusal(w.request, code))
}
