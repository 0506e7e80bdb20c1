package selector

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func TestPartsAddUpToTheCost(t *testing.T) {
	t.Parallel()
	r := seeded(4)
	for range 5000 {
		in := anyInput(r, 1)
		c := in.Candidates[0]
		parts := Parts(in, &c)
		require.Equal(t, Cost(in, &c), parts.Total) // bit for bit
		require.InDelta(t, parts.Total, (parts.Prefill+parts.Decode+parts.Requests)*parts.TaintFactor, 1e-6*(1+parts.Total))
		require.InDelta(t, parts.Prefill, in.Params.PrefillScale*max(0, parts.Raw-parts.Device-parts.Host-parts.Disk), 1e-6)
		require.True(t, parts.Finite())
	}
	huge := &Input{Params: params(16), ISL: 1, TrackPrefill: true}
	huge.Params.PrefillScale = math.MaxFloat64
	bad := Parts(huge, &Candidate{ActivePrefill: math.MaxInt64})
	require.False(t, bad.Finite())
	require.True(t, math.IsNaN(Parts(&Input{}, &Candidate{}).Total))
}

// What Chances promises is how often candidates are chosen.
func TestChancesAreHowOftenCandidatesAreChosen(t *testing.T) {
	t.Parallel()
	const picks = 20_000
	r := seeded(8)
	for name, s := range map[string]Selector{
		"kv": KV(), "least loaded": LeastLoaded(), "power of two": PowerOfTwo(), "random": Random(), "round robin": RoundRobin(),
	} {
		for n := 1; n <= 6; n++ {
			in := anyInput(r, n)
			if n%3 == 0 {
				in.Params.Temperature = 0.4
			}
			if n%4 == 0 {
				in.Params.Ties = TiesLowest
			}
			chances := make([]float64, n)
			in.Rand = noRand{t}
			require.True(t, Chances(s, in, chances), name)
			sum := 0.0
			for _, p := range chances {
				sum += p
			}
			require.InDelta(t, 1, sum, 1e-9, name)
			in.Rand = seeded(uint64(n))
			// 40 is beyond the 1e-6 quantile for 5 degrees of freedom.
			require.Less(t, chiSquare(t, counts(t, s, in, picks), chances), 40.0, "%s of %d: %v", name, n, chances)
		}
	}
}

func TestChancesOfWhatCannotTell(t *testing.T) {
	t.Parallel()
	require.False(t, Chances(KV(), &Input{}, nil))
	require.False(t, Chances(struct{ Selector }{}, &Input{Candidates: idle(1)}, make([]float64, 1)))
	in := &Input{Params: params(16), ISL: 1, TrackPrefill: true, Candidates: idle(2)}
	in.Params.PrefillScale = math.Inf(1)
	chances := []float64{3, 3}
	require.False(t, Chances(KV(), in, chances))
	require.Equal(t, []float64{0, 0}, chances)
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "kv", Name(KV()))
	require.Equal(t, "round-robin", Name(RoundRobin()))
	require.Equal(t, "random", Name(Random()))
	require.Equal(t, "power-of-two", Name(PowerOfTwo()))
	require.Equal(t, "least-loaded", Name(LeastLoaded()))
	require.Equal(t, "mine", Name(named{name: "mine"}))
	require.Equal(t, "selector.named", Name(named{}))
	require.Equal(t, "struct { selector.Selector }", Name(struct{ Selector }{}))
}

type named struct {
	Selector
	name string
}

func (n named) String() string {
	if n.name == "" {
		panic("no name")
	}
	return n.name
}

// anyInput returns an input of n candidates that are often tied.
func anyInput(r *rand.Rand, n int) *Input {
	in := &Input{
		Params: params(16), ISL: r.Int64N(200), TrackPrefill: r.IntN(5) > 0, Candidates: idle(n), LeastPrefill: math.MaxInt64,
	}
	in.Params.RequestWeight = float64(r.IntN(2))
	in.Params.CreditDecay = float64(r.IntN(2))
	in.Params.PrefillScale = float64(1 + r.IntN(2))
	for i := range in.Candidates {
		c := &in.Candidates[i]
		c.Rank = lifecycle.RankID{Worker: uint64(i + 1)}
		c.ActivePrefill, c.Requests = 50*r.Int64N(3), r.Int64N(3)
		c.ActiveBlocks = r.Int64N(3)
		c.PotentialBlocks = c.ActiveBlocks
		c.Device, c.Host, c.Disk = float64(r.IntN(3)), float64(r.IntN(2)), float64(r.IntN(2))
		if r.IntN(4) == 0 {
			c.TaintWeight = r.Float64() - 0.5
		}
		in.LeastPrefill = min(in.LeastPrefill, c.ActivePrefill)
	}
	return in
}
