package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The error types of the OpenAI API.
const (
	kindRequest = "invalid_request_error"
	kindLimit   = "rate_limit_error"
	kindServer  = "server_error"
)

// statusClientGone is what logs say of a client that did not wait for its answer;
// nothing is sent.
const statusClientGone = 499

// refusal is an answer that the gateway gives itself.
type refusal struct {
	status              int
	kind, code, message string
	param               string // the field or header at fault, if one is
	retryAfter          int    // seconds; 0 for none
}

// body is the refusal as the OpenAI API words it.
func (f *refusal) body() []byte {
	type details struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	d := details{Message: f.message, Type: f.kind, Code: f.code}
	if f.param != "" {
		d.Param = &f.param
	}
	text, _ := json.Marshal(map[string]details{"error": d}) // strings only: cannot fail
	return text
}

func refuse(w http.ResponseWriter, f *refusal) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(append(f.body(), '\n'))
}

// backendError is a worker's failure before the first byte of its answer.
type backendError struct {
	endpoint string
	status   int   // what it answered, if it did
	cause    error // else why it did not
}

func (e *backendError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("backend %s: %v", e.endpoint, e.cause)
	}
	return fmt.Sprintf("backend %s answered %d %s", e.endpoint, e.status, http.StatusText(e.status))
}

func (e *backendError) Unwrap() error { return e.cause }

// refusalFor maps why a request was not served to what its client is told. The
// state of the pool, the addresses of backends and what went wrong there are for the
// log alone.
func refusalFor(err error) *refusal {
	f := &refusal{kind: kindServer}
	set := func(status int, code string, retryAfter int) *refusal {
		f.status, f.code, f.retryAfter = status, code, retryAfter
		return f
	}
	var field *prompt.FieldError
	var backend *backendError
	var large *http.MaxBytesError
	var refused *sched.Error
	switch {
	case errors.As(err, &field):
		f.kind, f.param, f.message = kindRequest, field.Field, field.Error()
		return set(http.StatusBadRequest, "invalid_value", 0)
	case errors.As(err, &large):
		f.kind = kindRequest
		f.message = fmt.Sprintf("the body is larger than %d bytes", large.Limit)
		return set(http.StatusRequestEntityTooLarge, "request_too_large", 0)
	case errors.Is(err, sched.ErrDeadline), errors.Is(err, context.DeadlineExceeded):
		f.message = "the request took longer than it may"
		return set(http.StatusGatewayTimeout, "timeout", 0)
	case errors.Is(err, sched.ErrCanceled), errors.Is(err, context.Canceled):
		return set(statusClientGone, "client_gone", 0)
	case errors.Is(err, sched.ErrQueueFull):
		f.kind, f.message = kindLimit, "too many requests wait already"
		return set(http.StatusTooManyRequests, "queue_full", soonest)
	case errors.Is(err, sched.ErrWouldQueue):
		f.kind, f.message = kindLimit, "the request would have to wait, and asked not to"
		return set(http.StatusTooManyRequests, "would_queue", soonest)
	case errors.Is(err, sched.ErrOverloaded), errors.Is(err, sched.ErrPinnedOverloaded):
		f.message = "all backends that could take the request are overloaded"
		return set(http.StatusServiceUnavailable, "overloaded", soonest)
	case errors.Is(err, sched.ErrClosed):
		f.message = "the gateway is shutting down"
		return set(http.StatusServiceUnavailable, "shutting_down", soonest)
	case errors.As(err, &backend) && backend.status == http.StatusServiceUnavailable:
		f.message = "the backends that were tried are unavailable"
		return set(http.StatusServiceUnavailable, "backend_unavailable", soonest)
	case backend != nil:
		f.message = "the backends that were tried failed"
		return set(http.StatusBadGateway, "backend_failed", 0)
	case errors.Is(err, sched.ErrNoEndpoints), errors.Is(err, sched.ErrWorkerRemoved):
		f.message = "no backend can take the request"
		return set(http.StatusServiceUnavailable, "no_endpoints", soonest)
	case errors.Is(err, sched.ErrInvalid) && errors.As(err, &refused):
		f.kind, f.message = kindRequest, refused.Rule
		return set(http.StatusBadRequest, "invalid_value", 0)
	default:
		f.message = "internal error"
		return set(http.StatusInternalServerError, "internal_error", 0)
	}
}
