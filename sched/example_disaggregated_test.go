package sched_test

import (
	"context"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Two pools, a scheduler each: one computes prompts, the other the output. The first
// has the policy by which requests wait; in the second a class without a threshold
// never waits, so that no request waits there while it holds a place here.
func ExampleConfig_disaggregated() {
	prefills, _ := sched.New(sched.Config{BlockSize: 16, Policy: mustParse(oneAtATime)})
	_ = prefills.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: "http://prefill-1:8000"})
	// A decode pool computes no prompts: its cost is memory, and cached blocks save that.
	decodes, _ := sched.New(sched.Config{BlockSize: 16, Role: selector.RoleDecode, RequestWeight: 1})
	_ = decodes.UpsertWorker(sched.Worker{ID: 11, Ranks: 1, Endpoint: "http://decode-1:8000"})
	_ = decodes.UpsertWorker(sched.Worker{ID: 12, Ranks: 1, Endpoint: "http://decode-2:8000"})

	serve := func(r *sched.Request) error {
		return prefills.Do(context.Background(), r, func(ctx context.Context, prefill *sched.Booking) error {
			// The decode engine fetches what the prefill engine computes, so it is chosen before.
			next := *r
			next.NoPrefillTracking = true
			return decodes.Do(ctx, &next, func(ctx context.Context, decode *sched.Booking) error {
				fmt.Println(r.ID, prefill.Placement().Endpoint, decode.Placement().Endpoint)
				for range generate(ctx, decode.Placement().Endpoint) {
					_ = prefill.Release() // at the first token the prompt has been computed and fetched
					_ = decode.AddOutputBlock()
				}
				return nil
			})
		})
	}
	// Somebody has a conversation on decode-1 already.
	decode1 := sched.RankID{Worker: 11}
	booked(decodes, &sched.Request{ID: "other", Blocks: []uint64{1, 2}, NoPrefillTracking: true, Pin: &decode1})
	fmt.Println(serve(&sched.Request{ID: "a", ISL: 32, Blocks: []uint64{21, 22}}))
	// Its first blocks are cached there, which saves more than the other engine has less.
	fmt.Println(serve(&sched.Request{
		ID: "b", ISL: 64, Blocks: []uint64{31, 32, 33, 34}, Overlaps: []sched.Overlap{{Rank: decode1, Device: 4}},
	}))
	for _, load := range append(prefills.Loads(), decodes.Loads()...) {
		fmt.Println(load.Rank, load.Requests)
	}
	// Output:
	// a http://prefill-1:8000 http://decode-2:8000
	// <nil>
	// b http://prefill-1:8000 http://decode-1:8000
	// <nil>
	// 1/0 0
	// 11/0 1
	// 12/0 0
}

// Two pools in one scheduler: a booking goes from the worker that computed its prompt to
// the best of the decode workers, in one step, so that many at once are spread.
func ExampleBooking_TransferToBest() {
	s, _ := sched.New(sched.Config{BlockSize: 16, RequestWeight: 1})
	prefill, decode := []uint64{1}, []uint64{2, 3, 4}
	for _, id := range append(prefill, decode...) {
		_ = s.UpsertWorker(sched.Worker{ID: id, Ranks: 1})
	}
	var bookings []*sched.Booking
	for i := range 6 {
		bookings = append(bookings, booked(s, &sched.Request{ID: fmt.Sprint("r", i), ISL: 100, Allowed: prefill}))
	}
	for _, b := range bookings {
		_ = b.PrefillDone()
		if _, err := b.TransferToBest(decode); err != nil {
			fmt.Println(err)
		}
	}
	for _, load := range s.Loads() {
		fmt.Println(load.Rank, load.Requests)
	}
	// Output:
	// 1/0 0
	// 2/0 2
	// 3/0 2
	// 4/0 2
}
