package sched_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Do releases the booking on every way out, a panic included.
func ExampleScheduler_Do() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: "http://gpu-1:8000"})
	err := s.Do(context.Background(), &sched.Request{ID: "r", ISL: 100}, func(_ context.Context, b *sched.Booking) error {
		fmt.Println("to", b.Placement().Endpoint)
		return errors.New("client gone")
	})
	fmt.Println(err, s.Stats().Live)
	// Output:
	// to http://gpu-1:8000
	// client gone 0
}

// A worker that fails before any output reached the client is left out, and the
// request is tried elsewhere. Errors after that are returned as they are.
func ExampleRetryElsewhere() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1})
	refused := errors.New("connection refused")

	tries := 0
	r := &sched.Request{ID: "r", ISL: 100, Prefer: &sched.RankID{Worker: 1}}
	err := s.Do(context.Background(), r, func(_ context.Context, b *sched.Booking) error {
		tries++
		if b.Placement().Rank.Worker == 1 {
			return sched.RetryElsewhere(refused)
		}
		fmt.Println("served by", b.Placement().Rank, "at try", tries)
		return nil
	})
	fmt.Println(err)

	// When nobody is left, both reasons can be matched.
	err = s.Do(context.Background(), r, func(context.Context, *sched.Booking) error {
		return sched.RetryElsewhere(refused)
	})
	fmt.Println(errors.Is(err, refused), errors.Is(err, sched.ErrNoEndpoints))
	// Output:
	// served by 2/0 at try 2
	// <nil>
	// true true
}
