package model

import (
	"fmt"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// mustWait is the gate: whether a request has ranks and too many of them are busy
// for its class or overloaded, or all of them are that or guarded; or whether it has
// none and waits for one.
func (m *Model) mustWait(class int, q *sched.Request) bool {
	c := &m.profile.Classes[class]
	ranks := m.eligible(q)
	if len(m.usable(q)) == 0 && m.awaits(class, q) {
		return true
	}
	blocked, guarded := 0, 0
	for _, r := range ranks {
		switch {
		case m.isOverloaded(r) || c.Busy(m.load(r)):
			blocked++
		case m.guarded(class, r):
			guarded++
		}
	}
	if c.MustWait(blocked, len(ranks)) {
		return true
	}
	if guarded > 0 && blocked+guarded == len(ranks) {
		m.saw("12 waits for a guarded rank")
		return true
	}
	return false
}

// guarded reports whether a waiter of another class guards a rank against a class.
func (m *Model) guarded(class int, r *rank) bool {
	if !m.profile.Classes[class].Bound() {
		return false
	}
	for _, w := range m.waiting {
		guard := &m.profile.Classes[w.class]
		if w.class != class && guard.Guards(m.now()-w.Arrival) &&
			guard.PrefillBusy(r.prefill.active(m.now()), r.worker.MaxBatchedTokens) &&
			slices.Contains(m.eligible(w.request), r) {
			return true
		}
	}
	return false
}

// dispatch serves the waiters that can run, one after the other, each when it is its turn.
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
		w.answer <- m.admit(w.class, w.request, w.query)
	}
	m.setTimer()
}

// candidates returns for each class the best head of its lanes that can run.
func (m *Model) candidates() []*waiter {
	best := make([]*waiter, len(m.profile.Classes))
	for _, w := range m.heads() {
		if m.mustWait(w.class, w.request) {
			continue
		}
		if b := best[w.class]; b != nil {
			w = m.first(b, w)
		}
		best[w.class] = w
	}
	return best
}

// heads returns the first waiter of each lane, lanes in order of arrival.
func (m *Model) heads() []*waiter {
	var heads []*waiter
	for _, w := range m.waiting {
		i := slices.IndexFunc(heads, func(h *waiter) bool { return h.class == w.class && h.lane == w.lane })
		if i < 0 {
			heads = append(heads, w)
		} else {
			heads[i] = m.first(heads[i], w)
		}
	}
	return heads
}

// first returns which of two waiters of a class goes before the other.
func (m *Model) first(a, b *waiter) *waiter {
	class := &m.profile.Classes[a.class]
	if a.Priority == b.Priority && class.aged(&a.Entry, m.now()) != class.aged(&b.Entry, m.now()) {
		m.saw("6 by age")
	}
	if class.Before(&b.Entry, &a.Entry, m.now()) {
		return b
	}
	return a
}

// laneOf names the constraints that the requests of a lane share.
func laneOf(q *sched.Request) string {
	set := func(ids []uint64) []uint64 { return slices.Compact(slices.Sorted(slices.Values(ids))) }
	pin, allowed := "", ""
	if q.Pin != nil {
		pin = q.Pin.String()
	}
	if q.Allowed != nil {
		allowed = fmt.Sprint(set(q.Allowed))
	}
	taints := slices.Compact(slices.Sorted(slices.Values(q.RequiredTaints)))
	return fmt.Sprintf("%s %s %v %q", pin, allowed, set(q.Excluded), taints)
}

// admit selects and books as one step.
func (m *Model) admit(class int, q *sched.Request, query bool) answer {
	r, err := m.choose(q, m.open(class, q))
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

// remove takes a waiter out that is served.
func (m *Model) remove(w *waiter) {
	m.waiting = slices.DeleteFunc(m.waiting, func(x *waiter) bool { return x == w })
}

// leave takes a waiter out that is not served.
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
