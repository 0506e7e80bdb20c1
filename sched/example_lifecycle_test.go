package sched_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// A streaming response: the prefill ends with the first token, the booking with
// the stream.
func ExampleBooking() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	b, _ := s.Schedule(context.Background(), &sched.Request{ID: "r", ISL: 32, Blocks: []uint64{11, 12}})
	fmt.Printf("%+v\n", s.Loads()[0])
	_ = b.PrefillDone()
	_ = b.AddOutputBlock()
	fmt.Printf("%+v\n", s.Loads()[0])
	_ = b.Release()
	fmt.Println(errors.Is(b.Release(), sched.ErrUnchanged), s.Loads()[0].Requests)
	// Output:
	// {Rank:1/0 PrefillTokens:32 Blocks:2 Requests:1 TotalKVBlocks:0 Peers:{PrefillTokens:0 Blocks:0 Requests:0}}
	// {Rank:1/0 PrefillTokens:0 Blocks:3 Requests:1 TotalKVBlocks:0 Peers:{PrefillTokens:0 Blocks:0 Requests:0}}
	// true 0
}

// A proxy that streams counts tokens: the first one ends the prefill, every
// further block of them takes a KV block more.
func ExampleBooking_AddOutputBlock() {
	const blockSize = 4
	s, _ := sched.New(sched.Config{BlockSize: blockSize})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})

	r := &sched.Request{ID: "r", ISL: 8, Blocks: []uint64{11, 12}}
	err := s.Do(context.Background(), r, func(ctx context.Context, b *sched.Booking) error {
		tokens := 0
		for range generate(ctx, "engine") {
			if tokens == 0 {
				_ = b.PrefillDone()
			}
			if tokens%blockSize == 0 {
				_ = b.AddOutputBlock()
			}
			tokens++
		}
		fmt.Println(tokens, "tokens,", s.Loads()[0].Blocks, "blocks held")
		return nil
	})
	fmt.Println(err, s.Loads()[0].Blocks)
	// Output:
	// 2 tokens, 3 blocks held
	// <nil> 0
}

// A callback server knows a request by its id and attempt only. A call that
// carries an old attempt touches nothing.
func ExampleScheduler_PrefillDone() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1})
	b := booked(s, &sched.Request{ID: "r", ISL: 100, Pin: &sched.RankID{Worker: 1}})
	attempt := b.Attempt() // sent along with the request
	b.Detach()             // so that it lives on when this handle is garbage

	moved, _ := s.Transfer("r", attempt, sched.RankID{Worker: 2}) // its engine gave up: a new attempt
	fmt.Println(errors.Is(s.PrefillDone("r", attempt), sched.ErrStaleAttempt))
	fmt.Println(s.PrefillDone("r", moved.Attempt), s.Release("r", moved.Attempt))
	fmt.Println(errors.Is(s.Release("r", moved.Attempt), sched.ErrNotFound))
	// Output:
	// true
	// <nil> <nil>
	// true
}

// The prefill runs on one rank, the decode on another.
func ExampleBooking_Transfer() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: "http://prefill:8000"})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1, Endpoint: "http://decode:8000"})
	b := booked(s, &sched.Request{ID: "r", ISL: 100, Allowed: []uint64{1}})
	_ = b.PrefillDone()
	p, err := b.Transfer(sched.RankID{Worker: 2})
	fmt.Println(p.Endpoint, err)
	for _, load := range s.Loads() {
		fmt.Println(load.Rank, load.Requests, load.PrefillTokens)
	}
	// Output:
	// http://decode:8000 <nil>
	// 1/0 0 0
	// 2/0 1 0
}

// A booking that ends without its owner says so: a stream from an engine that is gone
// does not hang. The callback of Do need not watch for it, as its context ends then.
func ExampleBooking_Done() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	tokens := make(chan string) // from an engine that will never answer

	b, _ := s.Schedule(context.Background(), &sched.Request{ID: "r"})
	defer func() { _ = b.Release() }()
	_ = s.RemoveWorker(1) // discovery finds it gone
	select {
	case <-tokens:
	case <-b.Done():
		fmt.Println(b.Err(), errors.Is(b.Err(), sched.ErrWorkerRemoved))
	}
	// Output: worker-removed true
}

// A long-lived owner renews its booking; one that gets lost expires.
func ExampleBooking_Touch() {
	s, clock := withManualClock(sched.Config{BlockSize: 16, BookingTTL: time.Minute})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	b := booked(s, &sched.Request{ID: "r", ISL: 100})
	clock.Advance(50 * time.Second)
	fmt.Println(b.Touch(), b.Err())
	clock.Advance(50 * time.Second)
	fmt.Println(b.Err())
	clock.Advance(10 * time.Second)
	fmt.Println(b.Err())
	// Output:
	// <nil> <nil>
	// <nil>
	// expired
}
