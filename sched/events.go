package sched

import "errors"

// What observers receive, and in which order. The goroutine that pushes an event of a
// request knows that the one before was pushed:
//
//   - queued: by the holder of the turn, in the step that counts the request. A leaver
//     is counted off after that, or is never counted;
//   - granted, rejected: by the owner, once it knows the outcome;
//   - prefill done, transferred: under the lock of the booking's rank;
//   - the end: by the goroutine that ended the booking. If the owner has not pushed the
//     grant by then, it pushes the end too.

// begin begins a life, if there are observers.
func (s *Scheduler) begin() *life {
	if !s.outbox.Observes() {
		return nil
	}
	return &life{arrival: s.now()}
}

// tellQueued is called under the ledger's lock.
func (s *Scheduler) tellQueued(j *job) {
	if l := j.record.life; l != nil {
		s.tell(&Event{
			Kind: EventQueued, Request: j.id, Class: j.servedClass, Query: j.query,
			Time: s.at(j.queuedAt), Arrival: s.at(l.arrival),
		})
	}
}

// tellRejected tells of a request that was refused at an instant. rec is nil if
// it was refused at the door.
func (s *Scheduler) tellRejected(rec *record, id, class string, query bool, err error, now int64) {
	if !s.outbox.Observes() {
		return
	}
	arrival := now
	if rec != nil {
		arrival = rec.life.arrival
	}
	s.tell(&Event{
		Kind: EventRejected, Request: id, Class: class, Query: query, Err: err, Time: s.at(now), Arrival: s.at(arrival),
	})
}

// tellGranted tells the grant and, if it was left to the owner, the end.
func (s *Scheduler) tellGranted(rec *record, class string, query bool, p Placement, now int64) {
	l := rec.life
	l.class, l.granted = class, now
	e := s.eventOf(rec, EventGranted, p, now)
	e.Query = query
	s.tell(&e)
	if l.stage.CompareAndSwap(nil, &grantTold) {
		return
	}
	end := l.stage.Load()
	end.Class, end.Granted = e.Class, e.Granted
	s.tell(end)
}

// tellStep tells of a step in the life of a booking. REQUIRES: its rank's lock.
func (s *Scheduler) tellStep(rec *record, kind EventKind, p Placement) {
	if l := rec.life; l != nil && l.stage.Load() == &grantTold {
		e := s.eventOf(rec, kind, p, s.now())
		s.tell(&e)
	}
}

// tellEnded tells of the end of a booking that was granted, as soon as that is told.
// REQUIRES: the booking has just been taken off its rank by the caller, so no other
// goroutine writes to the record any more.
func (s *Scheduler) tellEnded(rec *record, kind EventKind) {
	l := rec.life
	if l == nil && kind == EventReleased {
		return
	}
	p := rec.placementLocked(rec.shard.Load())
	if kind == EventExpired || kind == EventLeaked {
		s.logEnded(kind, rec.ID, p)
	}
	if l == nil {
		return
	}
	if l.stage.Load() == nil {
		now := s.now()
		end := &Event{
			Kind: kind, Request: rec.ID, Placement: p, Time: s.at(now), Arrival: s.at(l.arrival), Err: kind.cause(),
		}
		if l.stage.CompareAndSwap(nil, end) {
			return
		}
	}
	e := s.eventOf(rec, kind, p, s.now())
	s.tell(&e)
}

// eventOf makes an event of a request that was granted.
func (s *Scheduler) eventOf(rec *record, kind EventKind, p Placement, now int64) Event {
	return Event{
		Kind: kind, Request: rec.ID, Class: rec.life.class, Placement: p, Err: kind.cause(),
		Time: s.at(now), Arrival: s.at(rec.life.arrival), Granted: s.at(rec.life.granted),
	}
}

func (s *Scheduler) tell(e *Event) { s.outbox.Send(e) }

// reject notes a rejection that its caller makes itself. rec is nil if it did not
// get that far.
func (s *Scheduler) reject(rec *record, id, class string, query bool, err error) {
	s.countRejection(class, err)
	s.journal.Add(Decision{Kind: DecisionRejected, Request: id, Query: query, Err: err})
	if s.outbox.Observes() {
		s.tellRejected(rec, id, class, query, err, s.now())
	}
}

// countRejection counts in the class of that name, if there is one.
func (s *Scheduler) countRejection(class string, err error) {
	var refused *Error
	if !errors.As(err, &refused) {
		return
	}
	for i, code := range codes() {
		if refused.Code == code { // not errors.Is: its cause may be anything
			s.classes.Named(class).Reject(i)
			if code == ErrSelector {
				s.logSelectorFailed(s.counters.selectorFailed.Inc(), err)
			}
			return
		}
	}
}
