package sched_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// A request that would have to wait is refused if it asks for that.
func ExampleScheduler_Schedule() {
	file, err := policy.Parse([]byte(`
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: file})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})

	ctx := context.Background()
	first, _ := s.Schedule(ctx, &sched.Request{ID: "first", ISL: 100})
	_, err = s.Schedule(ctx, &sched.Request{ID: "second", ISL: 100, DoNotQueue: true})
	fmt.Println(errors.Is(err, sched.ErrWouldQueue))
	_ = first.PrefillDone()
	second, err := s.Schedule(ctx, &sched.Request{ID: "second", ISL: 100})
	fmt.Println(second.Placement().Rank, err)
	// Output:
	// true
	// 1/0 <nil>
}

// Two families share the pool three to one while both have work. The request
// names its family; its uncached tokens choose the column of the matrix.
func Example_classes() {
	file, err := policy.Parse([]byte(`
default_policy_family: interactive
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: interactive, policy_family: interactive, cache_bucket: all, quantum: 3000, prefill_busy_threshold: 0}
  - {name: batch, policy_family: batch, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 0}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: file})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})

	running := booked(s, &sched.Request{ID: "running", ISL: 1000})
	var callers sync.WaitGroup
	for i := range 4 {
		for _, class := range []string{"batch", "interactive"} {
			callers.Go(func() {
				r := &sched.Request{ID: fmt.Sprint(class, i), Class: class, ISL: 1000}
				_ = s.Do(context.Background(), r, func(context.Context, *sched.Booking) error {
					fmt.Println(class) // one at a time: the rank works on one prompt
					return nil
				})
			})
		}
	}
	untilWaiting(s, 8)
	_ = running.Release()
	callers.Wait()
	// Output:
	// interactive
	// interactive
	// interactive
	// batch
	// interactive
	// batch
	// batch
	// batch
}

// The profile is swapped while requests wait. They keep their place: each is
// classed anew by the name it asked for.
func ExampleScheduler_SetProfile() {
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime)})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	running := booked(s, &sched.Request{ID: "running", ISL: 1000})

	admitted := make(chan *sched.Booking)
	go func() { admitted <- booked(s, &sched.Request{ID: "waiting", ISL: 1000}) }()
	untilWaiting(s, 1)

	wider, err := policy.Parse([]byte(`
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 4096}
`))
	if err != nil {
		fmt.Println(err) // every fault with its line; the old profile stays
		return
	}
	_ = s.SetProfile(wider.For("some/model"))
	fmt.Println((<-admitted).ID(), "runs beside", running.ID())
	// Output: waiting runs beside running
}

// Each model has a pool of its own, and so a scheduler of its own. One policy
// file serves them all; they share nothing and need no closing in any order.
func ExampleNew() {
	file, err := policy.Parse([]byte(`
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 8192}
models:
  tiny:
    default_policy_family: all
    uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
    policy_classes: [{name: all, policy_family: all, cache_bucket: any, quantum: 1}]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	schedulers := make(map[string]*sched.Scheduler)
	for i, model := range []string{"large", "tiny"} {
		s, err := sched.New(sched.Config{BlockSize: 16, Policy: file, Model: model})
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = s.UpsertWorker(sched.Worker{ID: uint64(i + 1), Ranks: 1})
		schedulers[model] = s
	}
	for _, model := range []string{"large", "tiny"} {
		s := schedulers[model]
		b := booked(s, &sched.Request{ID: "r1", ISL: 100}) // ids are unique in one scheduler
		fmt.Println(model, b.Placement().Rank, s.Stats().Classes[0].Name)
	}
	// Output:
	// large 1/0 chat
	// tiny 2/0 all
}
