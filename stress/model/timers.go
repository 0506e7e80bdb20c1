package model

import (
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// setTimer has the model look again at the next instant at which time alone
// changes something.
func (m *Model) setTimer() {
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if at := m.nextInstant(); at != NoDue {
		m.timer = m.setup.Clock.AfterFunc(time.Duration(at-m.now()), m.tick)
	}
}

func (m *Model) nextInstant() int64 {
	next := int64(NoDue)
	for _, w := range m.waiting {
		next = min(next, w.Due, m.lackEnds(w))
	}
	if m.setup.TTL > 0 {
		for _, b := range m.live {
			next = min(next, b.touched+int64(m.setup.TTL))
		}
	}
	if len(m.waiting) == 0 {
		return next
	}
	for _, w := range m.workers {
		if w.aside > m.now() {
			next = min(next, w.aside)
		}
	}
	for _, r := range m.ranks() {
		for c := range m.profile.Classes {
			busy := func(active int64) bool {
				return m.profile.Classes[c].PrefillBusy(active, r.worker.MaxBatchedTokens)
			}
			if at, ever := r.prefill.falls(m.now(), busy); ever {
				next = min(next, at)
			}
		}
	}
	return next
}

// tick does what is due: due times in arrival order, then ttls in booking order,
// then those without an endpoint for too long in arrival order, then dispatch.
func (m *Model) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range slices.Clone(m.waiting) {
		if w.Due <= m.now() {
			m.saw("due time")
			m.reject(w, sched.ErrDeadline)
		}
	}
	m.expire()
	m.noteLacks()
	m.failLacks()
	before := len(m.waiting)
	m.dispatch()
	if len(m.waiting) < before {
		m.saw("served by time")
	}
}
