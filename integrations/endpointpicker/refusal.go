package endpointpicker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// RefusalError is an answer to the client instead of an address. Config.Request returns one
// as its error to say more than "400".
type RefusalError struct {
	// Status is that of HTTP, from 400 to 599.
	Status int
	// Code and Message stand in the body, as the OpenAI API words errors.
	Code, Message string
	// RetryAfter is in seconds, 0 for none.
	RetryAfter int
}

func (r *RefusalError) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message) }

// kind is the error type of the OpenAI API.
func (r *RefusalError) kind() string {
	switch {
	case r.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case r.Status < http.StatusInternalServerError:
		return "invalid_request_error"
	default:
		return "server_error"
	}
}

func (r *RefusalError) answer() *extproc.ProcessingResponse {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{ // strings only: cannot fail
		"message": r.Message, "type": r.kind(), "param": nil, "code": r.Code,
	}})
	set := []*corepb.HeaderValueOption{setHeader("content-type", "application/json")}
	if r.RetryAfter > 0 {
		set = append(set, setHeader("retry-after", strconv.Itoa(r.RetryAfter)))
	}
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extproc.ImmediateResponse{
		Status:  &typepb.HttpStatus{Code: typepb.StatusCode(r.Status)},
		Headers: &extproc.HeaderMutation{SetHeaders: set},
		Body:    append(body, '\n'),
		Details: "turnstile_" + r.Code,
	}}}
}

var (
	errDraining = &RefusalError{Status: http.StatusServiceUnavailable, Code: "shutting_down", Message: "the picker is shutting down", RetryAfter: soonest}
	errSubset   = &RefusalError{Status: http.StatusServiceUnavailable, Code: "no_endpoints",
		Message: "none of the endpoints that may serve the request is known", RetryAfter: soonest}
	errNoBody   = &RefusalError{Status: http.StatusBadRequest, Code: "invalid_value", Message: "the request has no body"}
	errInternal = &RefusalError{Status: http.StatusInternalServerError, Code: "internal_error", Message: "internal error"}
)

func tooLarge(limit int64) *RefusalError {
	return &RefusalError{Status: http.StatusRequestEntityTooLarge, Code: "request_too_large", Message: fmt.Sprintf("the body is larger than %d bytes", limit)}
}

// invalid is the refusal for an error of Config.Request.
func invalid(err error) *RefusalError {
	r := new(RefusalError)
	if !errors.As(err, &r) {
		return &RefusalError{Status: http.StatusBadRequest, Code: "invalid_value", Message: err.Error()}
	}
	if r.Status < http.StatusBadRequest || r.Status > 599 {
		return errInternal
	}
	return r
}

// refusal says what the client is told of an error of the scheduler's.
func (s *Server) refusal(err error) *RefusalError {
	var detail *sched.Error
	if !errors.As(err, &detail) {
		return errInternal
	}
	full := func(code, message string) *RefusalError {
		return &RefusalError{Status: http.StatusTooManyRequests, Code: code, Message: message,
			RetryAfter: s.waits.retryAfter(s.config.Scheduler, detail.Class)}
	}
	unavailable := func(code, message string) *RefusalError {
		return &RefusalError{Status: http.StatusServiceUnavailable, Code: code, Message: message, RetryAfter: soonest}
	}
	switch {
	case errors.Is(err, sched.ErrQueueFull):
		return full("queue_full", "too many requests wait already")
	case errors.Is(err, sched.ErrWouldQueue):
		return full("would_queue", "the request would have to wait, and asked not to")
	case errors.Is(err, sched.ErrOverloaded), errors.Is(err, sched.ErrPinnedOverloaded):
		return unavailable("overloaded", "all engines that could take the request are overloaded")
	case errors.Is(err, sched.ErrNoEndpoints), errors.Is(err, sched.ErrPinNotAllowed):
		return unavailable("no_endpoints", "no engine can take the request")
	case errors.Is(err, sched.ErrClosed):
		return errDraining
	case errors.Is(err, sched.ErrDeadline):
		return &RefusalError{Status: http.StatusGatewayTimeout, Code: "timeout", Message: "the request took longer than it may"}
	case errors.Is(err, sched.ErrInvalid):
		return &RefusalError{Status: http.StatusBadRequest, Code: "invalid_value", Message: detail.Rule}
	default:
		return errInternal
	}
}
