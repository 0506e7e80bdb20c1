package script

import (
	"context"
	"errors"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// attempt is one booking of an id, or what a transfer made of it. The attempts
// of an id that a transfer connects share the handle.
type attempt struct {
	number  uint64 // the engine's
	booking engine.Booking
	// released: a release went through, so that the engine need not know it.
	released bool
}

func (a *attempt) live() bool {
	if a.released {
		return false
	}
	select {
	case <-a.booking.Done():
		return false
	default:
		return true
	}
}

// booked notes a booking as the newest attempt of its id.
func (s *session) booked(id string, b engine.Booking, p sched.Placement) (fault string) {
	list := s.attempts[id]
	s.attempts[id] = append(list, &attempt{number: p.Attempt, booking: b})
	switch {
	case b.ID() != id:
		return disagrees(id, "the booking is of %q", b.ID())
	case p.Attempt == 0, len(list) > 0 && p.Attempt <= list[len(list)-1].number:
		return disagrees(id, "attempt %d does not grow", p.Attempt)
	default:
		return ""
	}
}

// expired returns the line for a booking that ran into its ttl, once its owner
// can know.
func (s *session) expired(ctx context.Context, id string) (string, error) {
	list := s.attempts[id]
	if len(list) == 0 {
		return disagrees(id, "expired, but was never booked"), nil
	}
	last := list[len(list)-1]
	return id + " expired", wait(ctx, last.booking.Done(), "Done of "+id+": it expired")
}

// onBooking is one lifecycle call, in the form that takes the handle and in
// that which takes id and attempt.
type onBooking struct {
	handle func(engine.Booking) error
	byID   func(id string, attempt uint64) error
}

// lifecycle makes a call on the attempt that the script names, by default the
// newest. Which attempts an id had, only the script knows: an engine knows live
// bookings, so it is asked for those only, and asked twice where it can be.
func (s *session) lifecycle(a *args, call onBooking) ([]string, error) {
	id := a.id()
	n := a.int("attempt", 0)
	_, named := a.find("attempt")
	if named && n < 1 {
		a.fail("argument attempt: attempts are numbered from 1")
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	list := s.attempts[id]
	if len(list) == 0 || n > int64(len(list)) {
		return []string{errorLine(id, sched.ErrNotFound)}, nil
	}
	last := list[len(list)-1]
	if named && n < int64(len(list)) {
		if last.live() {
			if err := call.byID(id, list[n-1].number); !errors.Is(err, sched.ErrStaleAttempt) {
				return []string{disagrees(id, "by id, with an old attempt: %v", err)}, nil
			}
		}
		return []string{errorLine(id, sched.ErrStaleAttempt)}, nil
	}
	err := sched.ErrNotFound
	if named && last.live() {
		err = call.byID(id, last.number)
	}
	if errors.Is(err, sched.ErrNotFound) {
		err = call.handle(last.booking)
	}
	if err != nil {
		return []string{errorLine(id, err)}, nil
	}
	return nil, nil
}

func (s *session) prefillDone(_ context.Context, a *args) ([]string, error) {
	return s.lifecycle(a, onBooking{engine.Booking.PrefillDone, s.engine.PrefillDone})
}

func (s *session) touch(_ context.Context, a *args) ([]string, error) {
	return s.lifecycle(a, onBooking{engine.Booking.Touch, s.engine.Touch})
}

func (s *session) release(_ context.Context, a *args) ([]string, error) {
	lines, err := s.lifecycle(a, onBooking{engine.Booking.Release, s.engine.Release})
	if err == nil && len(lines) == 0 {
		id, _ := a.text("id")
		list := s.attempts[id]
		list[len(list)-1].released = true
	}
	return lines, err
}

// newest returns the newest attempt of the argument id, or the line that says
// that there is none.
func (s *session) newest(a *args) (id string, last *attempt, lines []string) {
	id = a.id()
	list := s.attempts[id]
	if len(list) == 0 {
		return id, nil, []string{errorLine(id, sched.ErrNotFound)}
	}
	return id, list[len(list)-1], nil
}

func (s *session) outputBlock(_ context.Context, a *args) ([]string, error) {
	id, last, lines := s.newest(a)
	decay := a.float("decay", 0)
	_, decays := a.find("decay")
	if err := a.done(); err != nil || last == nil {
		return lines, err
	}
	var err error
	if decays {
		err = last.booking.AddOutputBlockWithDecay(decay)
	} else {
		err = last.booking.AddOutputBlock()
	}
	if err != nil {
		return []string{errorLine(id, err)}, nil
	}
	return nil, nil
}

func (s *session) transfer(_ context.Context, a *args) ([]string, error) {
	id, last, lines := s.newest(a)
	move := s.destination(a)
	switch err := a.done(); {
	case err != nil || last == nil:
		return lines, err
	case a.invalid:
		return []string{errorLine(id, sched.ErrInvalid)}, nil
	}
	p, err := move(last.booking)
	if err != nil {
		return []string{errorLine(id, err)}, nil
	}
	if fault := s.booked(id, last.booking, p); fault != "" {
		return []string{fault}, nil
	}
	return []string{placementLine(id, p)}, nil
}

// destination reads where a transfer goes: to a rank, or to the best of some.
func (s *session) destination(a *args) func(engine.Booking) (sched.Placement, error) {
	if where, ok := a.text("to"); ok && where == "best" {
		allowed := a.uints("allow")
		return func(b engine.Booking) (sched.Placement, error) {
			return b.TransferToBest(allowed)
		}
	}
	to, ok := a.rank("to")
	if !ok {
		a.fail("argument to is missing")
	}
	return func(b engine.Booking) (sched.Placement, error) { return b.Transfer(to) }
}
