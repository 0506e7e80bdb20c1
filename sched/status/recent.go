package status

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Recent keeps the last events of a scheduler for the page. Its methods are safe
// for concurrent use.
type Recent struct {
	mu struct {
		sync.Mutex
		ring  []Event
		next  int   // where the next event goes
		total int64 // events seen
	}
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
	r.mu.ring = make([]Event, 0, max(1, events))
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
	if len(r.mu.ring) < cap(r.mu.ring) {
		r.mu.ring = append(r.mu.ring, event)
		return
	}
	r.mu.ring[r.mu.next] = event
	r.mu.next = (r.mu.next + 1) % len(r.mu.ring)
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
	events := []Event{}
	if r == nil {
		return events
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.mu.ring)
	for i := range n {
		events = append(events, r.mu.ring[(r.mu.next+n-1-i)%n])
	}
	return events
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
