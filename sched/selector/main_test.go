package selector

import (
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// params are the usual values.
func params(blockSize int64) Params {
	return Params{BlockSize: blockSize, OverlapCredit: 1, PrefillScale: 1, Tiers: DefaultTierWeights()}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed+1)) }

// noRand fails the test that draws from it.
type noRand struct{ t testing.TB }

func (r noRand) Uint64() uint64 {
	r.t.Error("a random number was drawn")
	return 0
}

// idle returns n equal candidates, two ranks to a worker.
func idle(n int) []Candidate {
	cs := make([]Candidate, n)
	for i := range cs {
		cs[i].Rank = lifecycle.RankID{Worker: uint64(i/2 + 1), Rank: uint32(i % 2)}
	}
	return cs
}

// withRequests returns a candidate for each number of active requests.
func withRequests(requests ...int64) []Candidate {
	cs := idle(len(requests))
	for i, n := range requests {
		cs[i].Requests = n
	}
	return cs
}

// counts picks n times and returns how often each candidate was chosen.
func counts(t *testing.T, s Selector, in *Input, n int) []int {
	t.Helper()
	got := make([]int, len(in.Candidates))
	for range n {
		p, err := s.Pick(in)
		if err != nil {
			t.Fatal(err)
		}
		got[p.Index]++
	}
	return got
}

// chiSquare returns the statistic of got against the expected probabilities and
// fails if an impossible candidate was chosen.
func chiSquare(t *testing.T, got []int, probabilities []float64) float64 {
	t.Helper()
	n := 0
	for _, g := range got {
		n += g
	}
	sum := 0.0
	for i, g := range got {
		want := probabilities[i] * float64(n)
		if want == 0 {
			if g != 0 {
				t.Errorf("candidate %d was chosen %d times, never expected", i, g)
			}
			continue
		}
		sum += (float64(g) - want) * (float64(g) - want) / want
	}
	return sum
}

func uniform(n int) []float64 {
	ps := make([]float64, n)
	for i := range ps {
		ps[i] = 1 / float64(n)
	}
	return ps
}
