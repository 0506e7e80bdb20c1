package status

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Recent keeps the last events of a scheduler for the page, those that went wrong in a
// list of their own, and what was admitted and refused by class in the last minutes.
// Its methods are safe for concurrent use.
type Recent struct {
	mu struct {
		sync.Mutex
		all, failed ring
		total       int64 // events seen
		classes     map[string]*curve
	}
}

// ring keeps the last events.
type ring struct {
	events []Event
	next   int // where the next event goes
}

func (r *ring) add(e Event) {
	if len(r.events) < cap(r.events) {
		r.events = append(r.events, e)
		return
	}
	r.events[r.next] = e
	r.next = (r.next + 1) % len(r.events)
}

// newestFirst returns a copy.
func (r *ring) newestFirst() []Event {
	n := len(r.events)
	events := make([]Event, 0, n)
	for i := range n {
		events = append(events, r.events[(r.next+n-1-i)%n])
	}
	return events
}

// Event is one thing that happened to one request.
type Event struct {
	Time time.Time `json:"time"`
	// Number counts the events seen, from 1: it tells them apart.
	Number  int64  `json:"number"`
	Kind    string `json:"kind"`
	Request string `json:"request"`
	Class   string `json:"class,omitempty"`
	Query   bool   `json:"query,omitempty"`
	// Rank is where the request is or was, if it was granted.
	Rank *sched.RankID `json:"rank,omitempty"`
	// Waited is how long it waited for its grant or its refusal.
	Waited time.Duration `json:"waited_ns"`
	// Error is why, without the request and the class, which stand above.
	Error string `json:"error,omitempty"`
}

// NewRecent returns a Recent that keeps the last so many events, at least 1.
func NewRecent(events int) *Recent {
	r := new(Recent)
	r.mu.all.events, r.mu.failed.events = make([]Event, 0, max(1, events)), make([]Event, 0, max(1, events))
	r.mu.classes = make(map[string]*curve)
	return r
}

// Observe takes note of an event. It is a sched.Observer.
func (r *Recent) Observe(e sched.Event) {
	event := Event{
		Time: e.Time, Kind: e.Kind.String(), Request: clip(e.Request), Class: e.Class, Query: e.Query, Waited: e.Waited(),
	}
	if !e.Granted.IsZero() {
		rank := e.Placement.Rank
		event.Rank = &rank
	}
	if e.Err != nil {
		event.Error = clip(reason(e))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.total++
	event.Number = r.mu.total
	r.mu.all.add(event)
	if failure(e) {
		r.mu.failed.add(event)
	}
	r.count(e)
}

// failure reports whether a request did not get or did not keep what it asked for, and
// its owner did not give it up.
func failure(e sched.Event) bool {
	switch e.Kind {
	case sched.EventRejected:
		return !errors.Is(e.Err, sched.ErrCanceled)
	case sched.EventExpired, sched.EventLeaked, sched.EventDropped:
		return true
	default:
		return false
	}
}

// reason is an event's error without what its other fields say.
func reason(e sched.Event) string {
	refused := new(sched.Error)
	if !errors.As(e.Err, &refused) {
		return e.Err.Error()
	}
	short := *refused
	if short.Request == e.Request {
		short.Request = ""
	}
	if short.Class == e.Class {
		short.Class = ""
	}
	return strings.TrimPrefix(short.Error(), "turnstile: ")
}

// Events returns the events kept, newest first. A nil Recent has none.
func (r *Recent) Events() []Event {
	if r == nil {
		return []Event{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.all.newestFirst()
}

// Failures returns those kept that went wrong, newest first: rejections that were no
// cancellation, and bookings that ended without their owner. A nil Recent has none.
func (r *Recent) Failures() []Event {
	if r == nil {
		return []Event{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.failed.newestFirst()
}

// clip cuts what is too long for a page.
func clip(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	runes := 0
	for i := range s {
		if runes == most {
			return s[:i] + "…"
		}
		runes++
	}
	return s
}
