package sched

import "time"

// EventKind says what happened to a request.
type EventKind uint8

// What an observer is told of. The events of one request come in this order.
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

// cause is what the owner is told of a booking that ended so, nil if nothing.
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
	// Query tells a query from a request that is booked.
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

// Waited returns how long the request has waited for its grant, or had until it
// was refused.
func (e *Event) Waited() time.Duration {
	if e.Granted.IsZero() {
		return e.Time.Sub(e.Arrival)
	}
	return e.Granted.Sub(e.Arrival)
}

// Observer is told events, one at a time, on a goroutine of its own that lives
// only while there are any. It may take its time and call the scheduler: nobody
// waits for it but Settle and Shutdown, which it must not call therefore. A panic is
// recovered and counted.
type Observer func(Event)
