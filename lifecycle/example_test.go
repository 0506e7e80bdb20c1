package lifecycle_test

import (
	"fmt"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func Example() {
	now := int64(0)
	clock := func() int64 { return now }
	rank := lifecycle.NewRank(nil)

	a := &lifecycle.Booking{ID: "a", Tokens: 100, Expected: 10 * time.Second, Tracked: true}
	b := &lifecycle.Booking{ID: "b", Tokens: 30, Expected: lifecycle.NoDuration, Tracked: true}
	rank.Book(a, []uint64{1, 2, 4, 5}, clock)
	rank.Book(b, []uint64{1, 2, 3, 5}, clock)

	now += int64(4 * time.Second)
	load := rank.Load()
	fmt.Println(load.Prefill.Active(now), load.Blocks, load.Requests)

	at, _ := load.Prefill.FallsTo(50)
	fmt.Println("50 tokens at", time.Duration(at))

	rank.PrefillDone(a, clock)
	half, _ := lifecycle.DecayWeight(0.5)
	rank.AddOutputBlockWithDecay(a, half)
	load = rank.Load()
	fmt.Println(load.Prefill.Active(now), load.Blocks, load.Requests)

	rank.Release(a, clock)
	rank.Release(b, clock)
	fmt.Println(rank.Load() == lifecycle.Load{})
	// Output:
	// 90 6 2
	// 50 tokens at 8s
	// 30 6 2
	// true
}
