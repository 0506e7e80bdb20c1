package selector_test

import (
	"fmt"
	"math"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// fewestBlocks takes the rank that holds the fewest blocks, the first of equals.
// It has no state, so it is safe for concurrent use as it is.
type fewestBlocks struct{}

func (fewestBlocks) Pick(in *selector.Input) (selector.Pick, error) {
	p := selector.Pick{Cost: math.Inf(1), RunnerUp: math.Inf(1)}
	for i, c := range in.Candidates {
		if cost := float64(c.ActiveBlocks); cost < p.Cost {
			p.Index, p.Cost, p.RunnerUp = i, cost, p.Cost
		} else {
			p.RunnerUp = min(p.RunnerUp, cost)
		}
	}
	return p, nil
}

// Confirm is optional. It spares a second pick when the load of the chosen rank
// has changed but not so far that another one would be better.
func (fewestBlocks) Confirm(_ *selector.Input, p selector.Pick, fresh selector.Candidate) bool {
	return float64(fresh.ActiveBlocks) <= p.RunnerUp
}

func ExampleSelector() {
	in := &selector.Input{Candidates: []selector.Candidate{
		{Rank: lifecycle.RankID{Worker: 1}, ActiveBlocks: 9},
		{Rank: lifecycle.RankID{Worker: 2}, ActiveBlocks: 4},
		{Rank: lifecycle.RankID{Worker: 3}, ActiveBlocks: 6},
	}}
	var s selector.Selector = fewestBlocks{}
	p, err := s.Pick(in)
	fmt.Println(in.Candidates[p.Index].Rank, p.Cost, p.RunnerUp, err)
	// Output: 2/0 4 6 <nil>
}
