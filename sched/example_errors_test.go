package sched_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// httpStatus is how a gateway may answer for the scheduler.
func httpStatus(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, sched.ErrQueueFull), errors.Is(err, sched.ErrWouldQueue):
		return http.StatusTooManyRequests
	case errors.Is(err, sched.ErrInvalid), errors.Is(err, sched.ErrPinNotAllowed):
		return http.StatusBadRequest
	case errors.Is(err, sched.ErrDuplicate):
		return http.StatusConflict
	case errors.Is(err, sched.ErrDeadline):
		return http.StatusGatewayTimeout
	case errors.Is(err, sched.ErrCanceled):
		return 499 // the client has gone and will not read it
	default: // no-endpoints, overloaded, pinned-overloaded, closed, worker-removed, selector-failed
		return http.StatusServiceUnavailable
	}
}

// errors.Is asks what happened, errors.As gives the details.
func ExampleError() {
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(`
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - name: chat
    policy_family: chat
    cache_bucket: all
    quantum: 8192
    prefill_busy_threshold: 0
    request_queue_limit_per_worker: 0   # refuse rather than queue
`)})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	ctx, cancel := context.WithCancel(context.Background())
	booked(s, &sched.Request{ID: "running", ISL: 100})

	_, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 100})
	fmt.Println(httpStatus(err), err)
	var detail *sched.Error
	if errors.As(err, &detail) {
		fmt.Println(detail.Class, detail.Limit, detail.Usage, detail.Bound)
	}

	_, err = s.Schedule(ctx, &sched.Request{ID: "running"})
	fmt.Println(httpStatus(err), err)

	cancel()
	_, err = s.Schedule(ctx, &sched.Request{ID: "r"})
	fmt.Println(errors.Is(err, sched.ErrCanceled), errors.Is(err, context.Canceled))
	// Output:
	// 429 turnstile: queue-full: request "r": class chat: limit requests: usage 0 of 0
	// chat requests 0 0
	// 409 turnstile: duplicate: request "running": a request of this id waits or is booked
	// true true
}
