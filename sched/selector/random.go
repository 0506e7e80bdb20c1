package selector

import (
	"math"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
)

// Random returns the selector that gives each candidate the same chance, in
// O(1). It is a [Confirmer]: the load of a rank is nothing to it.
func Random() Selector { return random{} }

type random struct{}

func (random) Pick(in *Input) (Pick, error) {
	n := len(in.Candidates)
	if n == 0 {
		return Pick{}, ErrNoCandidates
	}
	p := Pick{RunnerUp: math.Inf(1)}
	if n > 1 {
		p.Index = int(chance.Below(in.Rand, uint64(n)))
		p.RunnerUp = 0
	}
	return p, nil
}

func (random) Confirm(*Input, Pick, Candidate) bool { return true }

// unit returns a uniform number in [0,1), a multiple of 2^-53.
func unit(r Rand) float64 { return float64(r.Uint64()>>11) * 0x1p-53 }
