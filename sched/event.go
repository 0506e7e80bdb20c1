package sched

import "time"

// EventKind says what happened to a request.
type EventKind uint8

// The kinds of events. Those of one request come in this order.
const (
	// EventQueued: the request has to wait.
	EventQueued EventKind = iota + 1
	// EventRejected: the request ended with an error; nothing follows.
	EventRejected
	// EventGranted: the request was booked or, if it was a query, answered; after
	// that nothing follows.
	EventGranted
	// EventPrefillDone: the owner reported the end of the prefill.
	EventPrefillDone
	// EventTransferred: the booking was moved to another rank.
	EventTransferred
	// EventReleased: the owner released the booking.
	EventReleased
	// EventExpired: the booking ended because it was not touched for its ttl.
	EventExpired
	// EventDropped: the booking ended because its worker or rank was removed.
	EventDropped
	// EventLeaked: the booking ended because its handle was lost.
	EventLeaked
)

// String returns the kind in lower case.
func (k EventKind) String() string {
	names := [...]string{
		EventQueued: "queued", EventRejected: "rejected", EventGranted: "granted",
		EventPrefillDone: "prefill-done", EventTransferred: "transferred", EventReleased: "released",
		EventExpired: "expired", EventDropped: "dropped", EventLeaked: "leaked",
	}
	if k == 0 || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Ended reports whether an event of this kind ends a booking.
func (k EventKind) Ended() bool { return k >= EventReleased && k <= EventLeaked }

// cause is the error that the owner gets for a booking that ended so, nil if none.
func (k EventKind) cause() error {
	switch k {
	case EventExpired:
		return ErrExpired
	case EventDropped:
		return ErrWorkerRemoved
	default:
		return nil
	}
}

// Event is one thing that happened to one request. Times are those of the
// scheduler's clock.
type Event struct {
	Kind    EventKind
	Request string
	// Class is the name of the policy class the request was put in; empty if it
	// was refused before it had one.
	Class string
	// Query is set for a query, which is answered and not booked.
	Query bool
	// Placement says where the request is or, if its booking has ended, was;
	// nothing before EventGranted.
	Placement Placement
	// Time is when it happened, Arrival when the call came. Granted is when the
	// request was booked; the zero time before that.
	Time, Arrival, Granted time.Time
	// Err is why: an *Error with EventRejected, ErrExpired with EventExpired,
	// ErrWorkerRemoved with EventDropped, else nil.
	Err error
}

// Waited returns how long the request waited for its grant or, if it was refused, until
// then.
func (e *Event) Waited() time.Duration {
	if e.Granted.IsZero() {
		return e.Time.Sub(e.Arrival)
	}
	return e.Granted.Sub(e.Arrival)
}

// Observer receives events, one at a time, on a separate goroutine that exists only
// while events are pending. It may be slow and may call the scheduler; it must not call
// Settle or Shutdown, which wait for it. A panic is recovered and counted.
type Observer func(Event)
