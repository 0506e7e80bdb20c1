package sched

import "github.com/seed-3c5df8a4/turnstile/internal/perturb"

// enterTurn has all that is due done: by this caller if the turn is free, as far as
// the allowance goes, else by the holder. REQUIRES: no locks.
func (s *Scheduler) enterTurn(allowance int) {
	s.turn.Enter(&s.line, allowance)
	s.flush()
}

// loadFell is called after the load of a rank may have fallen: it enters the turn if
// that can let a waiter run, and then flushes. REQUIRES: no locks.
func (s *Scheduler) loadFell() {
	perturb.Point()
	if s.waiting.Load() != 0 {
		if ring := s.env.Hints(); ring == nil || ring.Pending() {
			s.turn.Enter(&s.line, lifecycleAllowance)
		}
	}
	s.flush()
}

// flush hands on what is pending: decisions to the hook, events and log records to
// the outbox's goroutine. REQUIRES: no locks.
func (s *Scheduler) flush() {
	s.journal.Flush()
	s.outbox.Flush()
	if s.fleet != nil {
		s.tellFleet()
	}
}
