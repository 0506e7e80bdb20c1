package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
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
	words               []byte // a worker's own, instead of the message
	wordsKind           string // their content type
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
	kind, text := "application/json", f.words
	if text == nil {
		text = append(f.body(), '\n')
	} else {
		kind = f.wordsKind
	}
	h.Set("Content-Type", kind)
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(text)
}

// backendError is a worker's failure before the first byte of its answer.
type backendError struct {
	endpoint   string
	status     int           // what it answered, if it did
	retryAfter time.Duration // for how long it asks to be left alone, if it does
	kind       string        // content type of text
	text       []byte        // its own words, if it spoke of the request
	cause      error         // else why it did not answer
}

// maxWords bounds what is kept of a worker's own words.
const maxWords = 16 << 10

func newBackendError(endpoint string, response *http.Response) *backendError {
	e := &backendError{endpoint: endpoint, status: response.StatusCode}
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		e.retryAfter = time.Duration(seconds) * time.Second
	}
	if e.status == http.StatusInternalServerError {
		e.kind = response.Header.Get("Content-Type")
		e.text, _ = io.ReadAll(io.LimitReader(response.Body, maxWords))
	}
	return e
}

// suspicious tells whether a request can have caused the failure: it did reach the
// worker, which did not just say that it has no room.
func (e *backendError) suspicious() bool {
	var unreachable *net.OpError
	switch {
	case e.cause != nil:
		refused := errors.As(e.cause, &unreachable) && unreachable.Op == "dial"
		return !refused && !errors.Is(e.cause, fleet.ErrGivenUp)
	default:
		return e.status == http.StatusInternalServerError
	}
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
	case errors.Is(err, errWaited):
		f.kind, f.message = kindLimit, errWaited.Error()
		return set(http.StatusTooManyRequests, "wait_exceeded", soonest)
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
	case errors.As(err, &backend) && backend.status == http.StatusTooManyRequests:
		f.kind, f.message = kindLimit, "the backends that were tried have no room"
		return set(http.StatusTooManyRequests, "backend_full", soonest)
	case backend != nil && backend.status == http.StatusServiceUnavailable:
		f.message = "the backends that were tried are unavailable"
		return set(http.StatusServiceUnavailable, "backend_unavailable", soonest)
	case backend != nil && backend.status == http.StatusInternalServerError && len(backend.text) > 0:
		f.words, f.wordsKind = backend.text, backend.kind
		return set(http.StatusInternalServerError, "", 0)
	case backend != nil:
		f.message = "the backends that were tried failed"
		return set(http.StatusBadGateway, "backend_failed", soonest)
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
