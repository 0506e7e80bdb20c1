package sched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Sentinel errors, one for each way in which the scheduler says no. Test with
// errors.Is; errors.As with *Error gives the details.
var (
	// ErrInvalid: a value of a request, worker, profile or config breaks a rule.
	ErrInvalid = errors.New("invalid")
	// ErrNoEndpoints: no rank satisfies the constraints of the request, or none
	// that does is wanted by a custom selector.
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
	// ErrStaleIncarnation: the call names another incarnation of the worker than the
	// one that is known.
	ErrStaleIncarnation = errors.New("stale-incarnation")

	// ErrSelector: a custom selector returned an error, no rank or a cost that
	// is not finite, or panicked.
	ErrSelector = errors.New("selector-failed")
	// ErrInternal: what decides about the request panicked or ended its goroutine.
	ErrInternal = errors.New("internal")

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
	// Limit names the limit reached: requests, raw-tokens, cached-tokens.
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
	if e.Code != nil {
		b.WriteString(e.Code.Error())
	} else {
		b.WriteString("error without a code")
	}
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
	return slices.DeleteFunc([]error{e.Code, e.Cause}, func(err error) bool { return err == nil })
}

// contextError is the one place where context errors become ours.
func contextError(id string, cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return &Error{Code: ErrDeadline, Request: id, Cause: cause}
	}
	return &Error{Code: ErrCanceled, Request: id, Cause: cause}
}

func pastDue(id string) error {
	return &Error{Code: ErrDeadline, Request: id, Rule: "the due time has passed"}
}

func pinNotAllowed(id string, c *shards.Constraints) error {
	return &Error{
		Code: ErrPinNotAllowed, Request: id, Worker: c.Pin.Worker, Rank: c.Pin.Rank, HasWorker: true, HasRank: true,
		Rule: "the pinned rank's worker must be in the allowed set",
	}
}

func noContext(id string) error {
	return &Error{Code: ErrInvalid, Request: id, Rule: "context: must not be nil"}
}

func notMade(rule string) error { return &Error{Code: ErrInvalid, Rule: rule} }

func duplicate(id string) error {
	return &Error{Code: ErrDuplicate, Request: id, Rule: "a request of this id waits or is booked"}
}

func noWorkers(id string) error {
	return &Error{Code: ErrNoEndpoints, Request: id, Rule: "there are no workers"}
}

func wouldQueue(id, class string, u queue.Usage, why string) error {
	return &Error{
		Code: ErrWouldQueue, Request: id, Class: class, Pending: u.Requests, Tokens: u.Raw, Cached: u.Cached,
		Rule: why,
	}
}

func queueFull(id, class, limit string, usage, bound int64) error {
	return &Error{
		Code: ErrQueueFull, Request: id, Class: class, Limit: limit, Usage: usage, Bound: bound,
	}
}

// invalidWorkers gives each fault that shards found its code and its worker.
func invalidWorkers(err error) error {
	found := []error{err}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		found = joined.Unwrap()
	}
	faults := make([]error, len(found))
	for i, fault := range found {
		e := &Error{Code: ErrInvalid, Rule: fault.Error()}
		var bad *shards.WorkerError
		if errors.As(fault, &bad) {
			e.Worker, e.HasWorker, e.Rule = bad.ID, true, bad.Rule
		}
		faults[i] = e
	}
	if len(faults) == 1 {
		return faults[0]
	}
	return errors.Join(faults...)
}

func staleIncarnation(id uint64, named, known string) error {
	return &Error{
		Code: ErrStaleIncarnation, Worker: id, HasWorker: true,
		Rule: fmt.Sprintf("incarnation %q: the worker's is %q", named, known),
	}
}

func unknownWorker(id uint64) error {
	return &Error{Code: ErrNotFound, Worker: id, HasWorker: true, Rule: "no such worker"}
}

// failureError turns the reason for which no rank was chosen for a request into
// an *Error.
func failureError(request string, f *pool.Failure) error {
	e := &Error{Request: request, Rule: f.Rule, Cause: f.Cause}
	if f.HasRank {
		e.Worker, e.Rank, e.HasWorker, e.HasRank = f.Rank.Worker, f.Rank.Rank, true, true
	}
	switch f.Reason {
	case pool.Overloaded:
		e.Code = ErrOverloaded
	case pool.PinnedOverloaded:
		e.Code = ErrPinnedOverloaded
	case pool.NonFinite:
		e.Code = ErrInvalid
	case pool.SelectorFailed:
		e.Code = ErrSelector
	default:
		e.Code = ErrNoEndpoints
	}
	return e
}

// brokenOff is the error of a request whose decision did not come to an end.
func brokenOff(id string) error {
	return &Error{Code: ErrInternal, Request: id, Rule: "what decides about it panicked or ended its goroutine"}
}

// rejectionCodes is the number of codes that a rejection can have.
const rejectionCodes = 14

// codes returns the sentinels of rejections, by their index as a code of measure.Class.
func codes() [rejectionCodes]error {
	return [...]error{
		ErrInvalid, ErrNoEndpoints, ErrOverloaded, ErrPinnedOverloaded, ErrPinNotAllowed, ErrQueueFull,
		ErrWouldQueue, ErrDuplicate, ErrDeadline, ErrCanceled, ErrClosed, ErrSelector, ErrInternal, ErrWorkerRemoved,
	}
}
