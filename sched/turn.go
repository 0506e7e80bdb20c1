package sched

import "github.com/seed-3c5df8a4/turnstile/internal/perturb"

// enterTurn has all that is due done: by this caller if the turn is free, as far as
// the allowance goes, else by whoever has it.
func (s *Scheduler) enterTurn(allowance int) {
	s.turn.Enter(&s.line, allowance)
	s.deliver()
}

// freed is called, without locks, after capacity may have been freed.
func (s *Scheduler) freed() {
	perturb.Point()
	if s.waiting.Load() == 0 {
		return
	}
	if ring := s.env.Hints(); ring == nil || ring.Pending() {
		s.enterTurn(lifecycleAllowance)
	}
}

// deliver has told what was decided. REQUIRES: no locks.
func (s *Scheduler) deliver() {
	s.journal.Flush()
	s.outbox.Flush()
}
