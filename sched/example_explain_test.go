package sched_test

import (
	"context"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Why does a request go where it goes? Println of the explanation prints it as a
// table; its fields have the same, and so has its JSON.
func ExampleScheduler_Explain() {
	s, _ := sched.New(sched.Config{BlockSize: 16, Ties: selector.TiesLowest})
	_ = s.SetWorkers([]sched.Worker{{ID: 1, Ranks: 1}, {ID: 2, Ranks: 1}, {ID: 3, Ranks: 1}, {ID: 4, Ranks: 1}})
	_ = s.SetOverloaded([]uint64{3})
	_ = s.DrainWorker(4)
	_, _ = s.Schedule(context.Background(), &sched.Request{ID: "busy", ISL: 320, Pin: &sched.RankID{Worker: 1}})

	e, err := s.Explain(&sched.Request{
		ISL: 400, Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 4, Host: 8}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Outcome, e.Rank, e.Why)
	for _, x := range e.Ranks {
		switch {
		case x.Cost != nil:
			fmt.Printf("rank %v: %v tokens of prefill less %v cached cost %v\n",
				x.Rank, x.Cost.Raw, x.Cost.Device+x.Cost.Host, x.Cost.Total)
		default:
			fmt.Printf("rank %v: %v\n", x.Rank, x.Against[0].Detail)
		}
	}
	// Output:
	// admitted 2/0 it has the least cost
	// rank 1/0: 720 tokens of prefill less 160 cached cost 560
	// rank 2/0: 400 tokens of prefill less 0 cached cost 400
	// rank 3/0: worker 3 is overloaded
	// rank 4/0: worker 4 is draining
}
