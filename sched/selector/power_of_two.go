package selector

import (
	"math"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
)

// PowerOfTwo returns the selector that draws two distinct candidates and takes
// the one with fewer active requests, the first drawn if they have the same
// number; a single candidate is taken as it is. O(1). It keeps the longest queue
// within O(log log n) of the mean where a random choice does not (Mitzenmacher,
// "The Power of Two Choices in Randomized Load Balancing", 2001).
//
// It is a [Confirmer]: a pick stands while the chosen rank has no more active
// requests than the other one had.
func PowerOfTwo() Selector { return powerOfTwo{} }

type powerOfTwo struct{}

func (powerOfTwo) Pick(in *Input) (Pick, error) {
	n := len(in.Candidates)
	if n == 0 {
		return Pick{}, ErrNoCandidates
	}
	if n == 1 {
		return Pick{Cost: float64(in.Candidates[0].Requests), RunnerUp: math.Inf(1)}, nil
	}
	first := int(chance.Below(in.Rand, uint64(n)))
	second := int(chance.Below(in.Rand, uint64(n-1)))
	if second >= first { // skip the one that is taken
		second++
	}
	if in.Candidates[second].Requests < in.Candidates[first].Requests {
		first, second = second, first
	}
	return Pick{
		Index:    first,
		Cost:     float64(in.Candidates[first].Requests),
		RunnerUp: float64(in.Candidates[second].Requests),
	}, nil
}

func (powerOfTwo) Confirm(_ *Input, p Pick, fresh Candidate) bool {
	return float64(fresh.Requests) <= p.RunnerUp
}

// Scores implements [Scorer]: the active requests.
func (powerOfTwo) Scores(in *Input, scores []float64) { requestScores(in, scores) }
