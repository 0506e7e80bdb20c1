package sched

import "context"

// What is given by mistake is an error, not a panic: nil, and a Scheduler or a
// Booking that was not made by this package.

// made returns the error of a scheduler that New did not make.
func (s *Scheduler) made() error {
	if s == nil || s.world.Load() == nil {
		return notMade("scheduler: must be made by New")
	}
	return nil
}

// present returns the error of what is missing of a call.
func (s *Scheduler) present(ctx context.Context, r *Request) error {
	if s == nil || s.world.Load() == nil || ctx == nil || r == nil {
		return s.missing(r)
	}
	return nil
}

func (s *Scheduler) missing(r *Request) error {
	switch {
	case s.made() != nil:
		return s.made()
	case r == nil:
		return &Error{Code: ErrInvalid, Rule: "request: must not be nil"}
	default:
		return noContext(r.ID)
	}
}

// contextGiven returns the error of a scheduler or a context that is missing.
func (s *Scheduler) contextGiven(ctx context.Context) error {
	if err := s.made(); err != nil {
		return err
	}
	if ctx == nil {
		return noContext("")
	}
	return nil
}

// made reports whether the booking was made by Schedule.
func (b *Booking) made() bool { return b != nil && b.rec != nil }

// alwaysDone is the channel of a booking that Schedule did not make.
var alwaysDone = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// unmade returns the error of a booking that Schedule did not make.
func unmade() error { return notMade("booking: must be made by Schedule") }

// noCopy makes go vet report copies of what holds it: its handle stands for one
// booking, and is reclaimed as such.
type noCopy struct{}

// Lock makes a sync.Locker of it, which is what vet looks for.
func (*noCopy) Lock() {}

// Unlock is the other half.
func (*noCopy) Unlock() {}
