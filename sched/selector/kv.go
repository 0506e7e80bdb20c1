package selector

import (
	"math"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
)

// KV returns the selector that compares [Cost]. At temperature 0 it takes the least
// cost, ties as [Params.Ties] says. At a temperature τ above 0 it draws: a candidate's
// chance is proportional to exp(−(cost − min)/((max − min)·τ)), the same for all if all
// costs are equal. A candidate whose cost is not finite is an error, whatever the
// others cost.
//
// It is a [Confirmer]. At temperature 0 a pick stands while the fresh cost of
// the chosen rank is not above the runner-up's, with the least active prefill as
// it was read; above, only while that rank's version does.
//
// It costs O(candidates); 8 bytes of [Input.Scratch] per candidate if τ > 0.
func KV() Selector { return kv{} }

type kv struct{}

func (kv) Pick(in *Input) (Pick, error) {
	if len(in.Candidates) == 0 {
		return Pick{}, ErrNoCandidates
	}
	if in.Params.Temperature > 0 && len(in.Candidates) > 1 {
		return softmax(in)
	}
	best := newLeast()
	for i := range in.Candidates {
		cost := Cost(in, &in.Candidates[i])
		if !finite(cost) {
			return Pick{}, &CostError{Rank: in.Candidates[i].Rank, Cost: cost}
		}
		best.offer(in, i, cost)
	}
	return best.pick(), nil
}

func (kv) Confirm(in *Input, p Pick, fresh Candidate) bool {
	if p.Exact {
		return fresh.Version == in.Candidates[p.Index].Version
	}
	cost := Cost(in, &fresh)
	// The only candidate has an infinite runner-up, but must be finite itself.
	return finite(cost) && cost <= p.RunnerUp
}

// softmax draws one of at least two candidates.
func softmax(in *Input) (Pick, error) {
	n := len(in.Candidates)
	if cap(in.Scratch) < n {
		in.Scratch = make([]float64, n)
	}
	in.Scratch = in.Scratch[:n]

	weights := in.Scratch // the costs at first
	lo, second, hi, argmin := math.Inf(1), math.Inf(1), math.Inf(-1), 0
	for i := range in.Candidates {
		cost := Cost(in, &in.Candidates[i])
		if !finite(cost) {
			return Pick{}, &CostError{Rank: in.Candidates[i].Rank, Cost: cost}
		}
		weights[i] = cost
		if cost < lo {
			lo, second, argmin = cost, lo, i
		} else {
			second = min(second, cost)
		}
		hi = max(hi, cost)
	}

	var index int
	if lo == hi {
		index = int(chance.Below(in.Rand, uint64(n)))
	} else {
		index = draw(weights, lo, hi, in.Params.Temperature, argmin, in.Rand)
	}
	p := Pick{Index: index, Cost: Cost(in, &in.Candidates[index]), RunnerUp: lo, Exact: true}
	if index == argmin {
		p.RunnerUp = second
	}
	return p, nil
}

// draw turns costs between lo and hi, not all equal, into weights and returns
// the index of one of them, or argmin should rounding leave none.
func draw(costs []float64, lo, hi, temperature float64, argmin int, r Rand) int {
	target := unit(r) * weigh(costs, lo, hi, temperature)
	sum := 0.0
	for i, w := range costs {
		if sum += w; target < sum {
			return i
		}
	}
	return argmin
}

// weigh turns costs between lo and hi, not all equal, into weights and returns
// their sum. A cost that is NaN weighs 0.
func weigh(costs []float64, lo, hi, temperature float64) (total float64) {
	scale := 1.0
	if hi-lo > math.MaxFloat64 {
		scale = 0.5
	}
	width := float64(hi*scale) - float64(lo*scale)
	for i, cost := range costs {
		if math.IsNaN(cost) {
			costs[i] = 0
			continue
		}
		// Divided in two steps: width·temperature could underflow to 0 and make
		// 0/0 of the least; so the least weighs 1 and a tiny temperature only
		// makes the others 0.
		x := (float64(cost*scale) - float64(lo*scale)) / width
		costs[i] = math.Exp(-(x / temperature))
		total += costs[i]
	}
	return total
}
