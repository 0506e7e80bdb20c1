package selector_test

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// A policy can be tested without a scheduler.
func ExampleCompose() {
	fewestBlocks := selector.Compose(selector.Policy{
		Name:   "fewest-blocks",
		Needs:  selector.NeedsLoad,
		Filter: func(in *selector.Input, i int) bool { return in.Candidates[i].Requests < 8 },
		Score:  func(in *selector.Input, i int) float64 { return float64(in.Candidates[i].ActiveBlocks) },
	})
	in := &selector.Input{Candidates: []selector.Candidate{
		{Rank: selector.RankID{Worker: 1}, ActiveBlocks: 9},
		{Rank: selector.RankID{Worker: 2}, ActiveBlocks: 2, Requests: 8},
		{Rank: selector.RankID{Worker: 3}, ActiveBlocks: 6},
	}}
	p, err := fewestBlocks.Pick(in)
	fmt.Println(in.Candidates[p.Index].Rank, p.Cost, p.RunnerUp, err)
	// Output: 3/0 6 9 <nil>
}

// evenWorkers is a selector from scratch: it takes the first worker with an even
// number.
type evenWorkers struct{}

func (evenWorkers) Pick(in *selector.Input) (selector.Pick, error) {
	for i, c := range in.Candidates {
		if c.Rank.Worker%2 == 0 {
			return selector.Pick{Index: i}, nil
		}
	}
	return selector.Pick{}, fmt.Errorf("no worker is even: %w", selector.ErrNoCandidates)
}

// Needs says that it reads nothing but the ranks.
func (evenWorkers) Needs() selector.Needs { return selector.NeedsNothing }

func ExampleSelector() {
	var s selector.Selector = evenWorkers{}
	in := &selector.Input{Candidates: []selector.Candidate{
		{Rank: selector.RankID{Worker: 1}}, {Rank: selector.RankID{Worker: 4}},
	}}
	p, err := s.Pick(in)
	fmt.Println(in.Candidates[p.Index].Rank, err)
	_, err = s.Pick(&selector.Input{Candidates: in.Candidates[:1]})
	fmt.Println(err)
	// Output:
	// 4/0 <nil>
	// no worker is even: selector: no candidates
}
