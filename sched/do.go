package sched

import (
	"context"
	"errors"
	"time"
)

// RetryElsewhere marks an error of a Do callback: its worker is gone or failed
// before any output reached the client, so another worker may be tried. It
// returns nil for nil.
func RetryElsewhere(err error, opts ...RetryOption) error {
	if err == nil {
		return nil
	}
	retry := &retryError{cause: err}
	for _, opt := range opts {
		if opt != nil {
			opt(retry)
		}
	}
	return retry
}

// RetryOption says what RetryElsewhere does beside.
type RetryOption func(*retryError)

// AndSetAside has Do set the worker aside for that time, as SetAside does, before it
// releases the booking: what one request learned of the worker holds for all. If
// another process has taken the worker's id meanwhile, that one is left alone. A time
// that is not positive changes nothing.
func AndSetAside(d time.Duration) RetryOption {
	return func(e *retryError) { e.aside = max(0, d) }
}

type retryError struct {
	cause error
	aside time.Duration // how long the worker is to be set aside
}

func (e *retryError) Error() string { return e.cause.Error() }

func (e *retryError) Unwrap() error { return e.cause }

// Do schedules the request, calls f with the booking, and releases the booking
// on every way out: error, panic or cancelled context. If f returns an error
// made by RetryElsewhere, or the worker had gone before f was called, the
// request is scheduled again without the workers already tried; it keeps its
// arrival time; if the error says so the worker is set aside for a time as well. An
// explicit pin is never rerouted. There is no other bound on the
// tries than the number of workers and ctx; f can count, and return its error
// unmarked.
//
// The context that f receives is made from ctx. It is cancelled when the booking ends
// without its owner, with the reason as its cause: the worker was removed, or the
// booking expired. It is cancelled too when f returns.
//
// Do returns f's error, or why the request could not be scheduled. If f returned
// context.Canceled because its booking ended, the reason (ErrWorkerRemoved, ErrExpired)
// can be matched as well. When there is nowhere else to try, both ErrNoEndpoints, which
// is what the request is counted as, and f's last error can be matched.
func (s *Scheduler) Do(ctx context.Context, r *Request, f func(context.Context, *Booking) error) error {
	if err := s.present(ctx, r); err != nil {
		return err
	}
	if f == nil {
		return &Error{Code: ErrInvalid, Request: r.ID, Rule: "function to call: must not be nil"}
	}
	again := *r
	again.Excluded = append([]uint64(nil), r.Excluded...)
	arrival := s.now()
	var failed error
	for {
		b, err := s.schedule(ctx, &again, arrival)
		if err != nil {
			return errors.Join(failed, err)
		}
		worker := b.Placement().Rank.Worker
		err = s.callAndRelease(ctx, b, f)
		var retry *retryError
		if !errors.As(err, &retry) || r.Pin != nil {
			return err
		}
		failed = err
		again.Excluded = append(again.Excluded, worker)
		again.tried++
	}
}

func (s *Scheduler) callAndRelease(ctx context.Context, b *Booking, f func(context.Context, *Booking) error) error {
	defer func() { _ = b.Release() }()
	worker, err := b.Worker()
	if err != nil {
		return RetryElsewhere(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.rec.cancelAtEnd(b.s, cancel)
	err = f(ctx, b)
	var retry *retryError
	if errors.As(err, &retry) && retry.aside > 0 {
		// It may have gone, or another process come: then there is nothing to teach.
		_ = s.SetAsideIncarnation(worker.ID, worker.Incarnation, retry.aside)
	}
	if why := context.Cause(ctx); retry == nil && errors.Is(err, context.Canceled) && b.Err() != nil && errors.Is(why, b.Err()) {
		return errors.Join(why, err)
	}
	return err
}
