package actor_test

import (
	"context"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func Example() {
	e, err := actor.New(actor.Config{Config: sched.Config{BlockSize: 16}, Direct: true})
	if err != nil {
		panic(err)
	}
	_ = e.UpsertWorker(sched.Worker{ID: 7, Ranks: 1})
	b, err := e.Schedule(context.Background(), &sched.Request{ID: "r1", ISL: 100})
	if err != nil {
		panic(err)
	}
	fmt.Println(b.Placement().Rank, b.Release(), e.Close())
	// Output: 7/0 <nil> <nil>
}
