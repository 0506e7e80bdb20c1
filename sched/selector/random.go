package selector

import (
	"math"
	"math/bits"
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
		p.Index = int(below(in.Rand, uint64(n)))
		p.RunnerUp = 0
	}
	return p, nil
}

func (random) Confirm(*Input, Pick, Candidate) bool { return true }

// below returns a uniform integer in [0,n), n > 0, without the bias of a
// remainder and mostly without a division: Lemire, "Fast Random Integer
// Generation in an Interval", 2019.
func below(r Rand, n uint64) uint64 {
	hi, lo := bits.Mul64(r.Uint64(), n)
	if lo < n {
		bound := -n % n
		// The bound on tries is for a source that is stuck. With a sound one they
		// run out with a chance of (n/2^64)^8.
		for try := 0; lo < bound && try < 8; try++ {
			hi, lo = bits.Mul64(r.Uint64(), n)
		}
	}
	return hi
}

// unit returns a uniform number in [0,1), a multiple of 2^-53.
func unit(r Rand) float64 { return float64(r.Uint64()>>11) * 0x1p-53 }
