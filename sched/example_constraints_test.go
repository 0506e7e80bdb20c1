package sched_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Who may serve a request is settled before anything is weighed: pins, allowed
// and excluded workers and required taints are never traded for load.
func ExampleRequest() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.SetWorkers([]sched.Worker{
		{ID: 1, Ranks: 2, Taints: []string{"h100"}},
		{ID: 2, Ranks: 1, Taints: []string{"h100", "lora-7"}},
		{ID: 3, Ranks: 1},
	})
	show := func(what string, r *sched.Request) {
		p, err := s.Select(context.Background(), r)
		if err != nil {
			fmt.Println(what, err)
			return
		}
		fmt.Println(what, p.Rank)
	}
	show("pinned:", &sched.Request{Pin: &sched.RankID{Worker: 1, Rank: 1}})
	show("preferred:", &sched.Request{Prefer: &sched.RankID{Worker: 3, Rank: 0}})
	show("allowed:", &sched.Request{Allowed: []uint64{3}})
	show("excluded:", &sched.Request{Excluded: []uint64{1, 3}})
	show("required:", &sched.Request{RequiredTaints: []string{"h100", "lora-7"}})
	show("away from:", &sched.Request{ISL: 1000, PreferredTaints: map[string]float64{"h100": -1}})
	show("nobody:", &sched.Request{Allowed: []uint64{3}, RequiredTaints: []string{"h100"}})
	// Output:
	// pinned: 1/1
	// preferred: 3/0
	// allowed: 3/0
	// excluded: 2/0
	// required: 2/0
	// away from: 3/0
	// nobody: turnstile: no-endpoints: 4 ranks: none eligible (3 not in the allowed set or excluded, 1 lacks a required taint)
}

// A request goes where its prompt is cached, if the load there is worth it: the
// cost of a rank is the work in its queue, plus the prompt, less what is cached.
func ExampleRequest_overlaps() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1})
	r := sched.Request{
		ID: "r", ISL: 160,
		Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 2}, Device: 8}}, // of the prompt's 10 blocks
	}
	first := booked(s, &r)
	fmt.Println(first.Placement().Rank, first.Placement().CachedTokens)

	_, _ = s.Schedule(context.Background(), &sched.Request{ID: "long", ISL: 900, Pin: &sched.RankID{Worker: 2}})
	r.ID = "s"
	second := booked(s, &r)
	fmt.Println(second.Placement().Rank, second.Placement().CachedTokens)
	// Output:
	// 2/0 128
	// 1/0 0
}

// Query waits for the request's turn and says where it would be put; Select says
// where it would be put now. Neither books.
func ExampleScheduler_Query() {
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime)})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	ctx := context.Background()
	running := booked(s, &sched.Request{ID: "running", ISL: 100})

	p, _ := s.Select(ctx, &sched.Request{ISL: 100}) // the rank is busy, and still the best
	fmt.Println("select:", p.Rank, p.Attempt)

	_, err := s.Query(ctx, &sched.Request{ID: "q", ISL: 100, DoNotQueue: true})
	fmt.Println("query would wait:", errors.Is(err, sched.ErrWouldQueue))

	_ = running.PrefillDone()
	p, _ = s.Query(ctx, &sched.Request{ID: "q", ISL: 100})
	fmt.Println("query:", p.Rank, p.Attempt, "live bookings:", s.Stats().Live)
	// Output:
	// select: 1/0 0
	// query would wait: true
	// query: 1/0 0 live bookings: 1
}

// PotentialLoads gives the figures from which another component can choose.
func ExampleScheduler_PotentialLoads() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 2})
	booked(s, &sched.Request{ID: "r", ISL: 32, Blocks: []uint64{11, 12}, Pin: &sched.RankID{Worker: 1, Rank: 0}})

	loads, _ := s.PotentialLoads(&sched.Request{ISL: 48, Blocks: []uint64{11, 12, 13}})
	for _, l := range loads {
		fmt.Println(l.Rank, "prefill tokens:", l.PotentialPrefillTokens, "blocks:", l.PotentialDecodeBlocks)
	}
	// Output:
	// 1/0 prefill tokens: 80 blocks: 3
	// 1/1 prefill tokens: 48 blocks: 3
}
