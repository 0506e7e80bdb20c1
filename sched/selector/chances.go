package selector

import (
	"fmt"
	"math"
	"slices"
)

// Scorer is a [Selector] that can report the scores it compares, so that its choice can
// be explained. It is optional.
type Scorer interface {
	// Scores writes a score for each candidate, lower is better; NaN means: would
	// not be chosen. It changes no state. scores is as long as the candidates.
	Scores(in *Input, scores []float64)
}

// Chances writes with which probability each candidate is chosen: a 1 for the
// only one that can be. It draws no random number and changes nothing. It is not
// ok if s is not one of the selectors of this package, or would fail. For KV and
// LeastLoaded it costs O(candidates), for PowerOfTwo the sorting of them.
func Chances(s Selector, in *Input, chances []float64) (ok bool) {
	clear(chances)
	n := len(in.Candidates)
	if n == 0 {
		return false
	}
	switch s := s.(type) {
	case kv:
		return kvChances(in, chances)
	case leastLoaded:
		for i := range in.Candidates {
			chances[i] = float64(in.Candidates[i].Requests)
		}
		shareLeast(in, chances)
	case powerOfTwo:
		powerOfTwoChances(in, chances)
	case random:
		for i := range chances {
			chances[i] = 1 / float64(n)
		}
	case *composed:
		return s.chances(in, chances)
	case *roundRobin:
		p, err := s.Pick(in)
		if err != nil {
			return false
		}
		chances[p.Index] = 1
	default:
		return false
	}
	return true
}

func kvChances(in *Input, chances []float64) (ok bool) {
	for i := range in.Candidates {
		if chances[i] = Cost(in, &in.Candidates[i]); !finite(chances[i]) {
			clear(chances)
			return false
		}
	}
	share(in, chances)
	return true
}

// share turns scores, NaN for those that cannot be chosen, into the chances of a choice
// by score.
func share(in *Input, scores []float64) {
	if in.Params.Temperature > 0 {
		shareSoftly(scores, in.Params.Temperature)
	} else {
		shareLeast(in, scores)
	}
}

// shareLeast turns scores into the chances of the least: equal shares, or all to
// the first of them.
func shareLeast(in *Input, scores []float64) {
	least, ties := math.Inf(1), 0
	for _, score := range scores {
		switch {
		case score < least:
			least, ties = score, 1
		case score == least:
			ties++
		}
	}
	given := false
	for i, score := range scores {
		switch {
		case score != least, given && in.Params.Ties == TiesLowest:
			scores[i] = 0
		case in.Params.Ties == TiesLowest:
			scores[i], given = 1, true
		default:
			scores[i] = 1 / float64(ties)
		}
	}
}

// shareSoftly turns costs into the chances of the softmax; those that are NaN
// have none.
func shareSoftly(costs []float64, temperature float64) {
	lo, hi, _ := span(costs)
	if lo < hi {
		total := weigh(costs, lo, hi, temperature)
		for i := range costs {
			costs[i] /= total
		}
		return
	}
	equal := 0
	for i := range costs {
		if costs[i] == lo {
			equal++
		}
	}
	for i := range costs {
		if costs[i] == lo {
			costs[i] = 1 / float64(equal)
		} else {
			costs[i] = 0
		}
	}
}

// powerOfTwoChances: of the ordered pairs of distinct candidates, one wins those
// with a busier one, and of those with an equal one the half in which it is
// drawn first.
func powerOfTwoChances(in *Input, chances []float64) {
	n := len(in.Candidates)
	if n == 1 {
		chances[0] = 1
		return
	}
	sorted := make([]int64, n)
	for i := range in.Candidates {
		sorted[i] = in.Candidates[i].Requests
	}
	slices.Sort(sorted)
	pairs := float64(n) * float64(n-1)
	for i := range in.Candidates {
		requests := in.Candidates[i].Requests
		from, _ := slices.BinarySearch(sorted, requests)
		to, _ := slices.BinarySearch(sorted, requests+1)
		chances[i] = (2*float64(n-to) + float64(to-from-1)) / pairs
	}
}

// Name names a selector for people: "kv", "round-robin", "random",
// "power-of-two" or "least-loaded", what String says of another that has that
// method, else its type.
func Name(s Selector) (name string) {
	defer func() {
		if recover() != nil {
			name = fmt.Sprintf("%T", s)
		}
	}()
	switch s := s.(type) {
	case kv:
		return "kv"
	case *roundRobin:
		return "round-robin"
	case random:
		return "random"
	case powerOfTwo:
		return "power-of-two"
	case leastLoaded:
		return "least-loaded"
	case fmt.Stringer:
		return s.String()
	default:
		return fmt.Sprintf("%T", s)
	}
}

// Why says in words how s chooses, given how many of the candidates could be
// chosen.
func Why(s Selector, p *Params, could int) string {
	one := func(why string) string {
		if could > 1 {
			return fmt.Sprintf("%s, drawn from %d that share it", why, could)
		}
		return why
	}
	switch s.(type) {
	case kv:
		if p.Temperature > 0 {
			return fmt.Sprintf("the likeliest of %d drawn from by cost, at temperature %v", could, p.Temperature)
		}
		return one("it has the least cost")
	case leastLoaded:
		return one("it has the fewest active requests")
	case powerOfTwo:
		return "the likeliest of two drawn at random, of which the one with fewer active requests is taken"
	case random:
		return "drawn at random"
	case *roundRobin:
		return "it is next in turn"
	case *composed:
		if p.Temperature > 0 {
			return fmt.Sprintf("the likeliest of %d drawn from by score, at temperature %v", could, p.Temperature)
		}
		return one("it has the least score")
	default:
		return "the selector chose it"
	}
}
