package sched_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The README quotes these lines.
func embed(ctx context.Context) error {
	s, err := sched.New(sched.Config{BlockSize: 16})
	if err != nil {
		return err
	}
	if err := s.UpsertWorker(sched.Worker{ID: 1, Ranks: 2, Endpoint: "http://gpu-1:8000"}); err != nil {
		return err
	}
	return s.Do(ctx, &sched.Request{ID: "r1", ISL: 1200}, func(ctx context.Context, b *sched.Booking) error {
		for token := range generate(ctx, b.Placement().Endpoint) {
			_ = b.PrefillDone() // counts once: at the first token the prompt is computed
			fmt.Print(token)
		}
		return nil // released here, and on error, panic or cancellation too
	})
}

// generate stands for the client of an engine: it yields the tokens of an answer as
// they come.
func generate(_ context.Context, endpoint string) iter.Seq[string] {
	return func(yield func(string) bool) {
		_ = yield("from ") && yield(endpoint)
	}
}

func Example() {
	if err := embed(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: from http://gpu-1:8000
}
