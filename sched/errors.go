package sched

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinel errors, one for each way in which the scheduler says no. Test with
// errors.Is; errors.As with *Error gives the details.
var (
	// ErrInvalid: a value of a request, worker, profile or config breaks a rule.
	ErrInvalid = errors.New("invalid")
	// ErrNoEndpoints: no rank satisfies the constraints of the request, or none
	// that does is wanted by a selector of one's own.
	ErrNoEndpoints = errors.New("no-endpoints")
	// ErrOverloaded: ranks satisfy the constraints, and all are overloaded.
	ErrOverloaded = errors.New("overloaded")
	// ErrPinnedOverloaded: the pinned rank is overloaded.
	ErrPinnedOverloaded = errors.New("pinned-overloaded")
	// ErrPinNotAllowed: the pinned rank's worker is not in the allowed set.
	ErrPinNotAllowed = errors.New("pin-not-allowed")
	// ErrQueueFull: the request would have to wait and its class is full.
	ErrQueueFull = errors.New("queue-full")
	// ErrWouldQueue: the request would have to wait and asked not to.
	ErrWouldQueue = errors.New("would-queue")
	// ErrDuplicate: a request of that id waits, is booked or is being decided.
	ErrDuplicate = errors.New("duplicate")
	// ErrDeadline: the due time or the context's deadline has passed.
	ErrDeadline = errors.New("deadline")
	// ErrCanceled: the caller's context was cancelled.
	ErrCanceled = errors.New("canceled")
	// ErrClosed: the scheduler is closed or shutting down.
	ErrClosed = errors.New("closed")
	// ErrNotFound: no worker or no live booking has that id.
	ErrNotFound = errors.New("not-found")
	// ErrStaleAttempt: a later attempt of that request has taken the place of
	// the one the call carries.
	ErrStaleAttempt = errors.New("stale-attempt")

	// ErrSelector: a selector of one's own returned an error, no rank or a cost that
	// is not finite, or panicked.
	ErrSelector = errors.New("selector-failed")

	// ErrUnchanged: a lifecycle call had nothing to change, because the booking
	// has ended or the step was made before. Harmless: every lifecycle call is
	// idempotent.
	ErrUnchanged = errors.New("unchanged")
	// ErrExpired: the booking ended because it was not touched for its ttl.
	ErrExpired = errors.New("expired")
	// ErrWorkerRemoved: the booking ended, or cannot be dispatched, because its
	// worker or rank was removed.
	ErrWorkerRemoved = errors.New("worker-removed")
)

// Error is the one detailed error type. It unwraps to its sentinel and, where
// there is one, to its cause, such as context.Canceled.
type Error struct {
	// Code is one of the sentinel errors above.
	Code error
	// Request is the id of the request, if one was concerned.
	Request string
	// Class is the policy class, for refusals that concern one.
	Class string
	// Limit names the limit that was met: requests, raw-tokens, cached-tokens.
	Limit string
	// Usage and Bound are that limit's use and its bound at the decision.
	Usage, Bound int64
	// Pending, Tokens and Cached are the class's counters, for ErrWouldQueue.
	Pending, Tokens, Cached int64
	// Worker and Rank name what was concerned, when HasRank or HasWorker is set.
	Worker    uint64
	Rank      uint32
	HasWorker bool
	HasRank   bool
	// Rule says in words which rule was broken or which check failed.
	Rule string
	// Cause is the underlying error, such as that of the context.
	Cause error
}

// Error describes the refusal in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("turnstile: ")
	b.WriteString(e.Code.Error())
	if e.Request != "" {
		fmt.Fprintf(&b, ": request %q", e.Request)
	}
	switch {
	case e.HasRank:
		fmt.Fprintf(&b, ": rank %d/%d", e.Worker, e.Rank)
	case e.HasWorker:
		fmt.Fprintf(&b, ": worker %d", e.Worker)
	}
	if e.Class != "" {
		fmt.Fprintf(&b, ": class %s", e.Class)
	}
	if e.Limit != "" {
		fmt.Fprintf(&b, ": limit %s: usage %d of %d", e.Limit, e.Usage, e.Bound)
	}
	if e.Code == ErrWouldQueue {
		fmt.Fprintf(&b, ": %d pending, %d tokens, %d cached", e.Pending, e.Tokens, e.Cached)
	}
	if e.Rule != "" {
		b.WriteString(": ")
		b.WriteString(e.Rule)
	}
	if e.Cause != nil {
		b.WriteString(": ")
		b.WriteString(e.Cause.Error())
	}
	return b.String()
}

// Unwrap returns the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Code}
	}
	return []error{e.Code, e.Cause}
}
