package chance_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
)

// For n = 3·2^62 a plain multiply-shift returns every third value twice as often as the
// others; the rejection must undo that.
func TestBelowIsUnbiased(t *testing.T) {
	t.Parallel()
	const draws = 60_000
	r := rand.New(rand.NewPCG(5, 6))
	var counts [3]float64
	for range draws {
		x := chance.Below(r, 3<<62)
		require.Less(t, x, uint64(3<<62))
		counts[x%3]++
	}
	chiSquare := 0.0
	for _, n := range counts {
		chiSquare += (n - draws/3) * (n - draws/3) / (draws / 3)
	}
	require.Less(t, chiSquare, 18.4) // two degrees of freedom: more once in 10,000
}

// A source that is stuck gives a number in the range all the same, and soon.
func TestBelowOfAStuckSource(t *testing.T) {
	t.Parallel()
	for _, bits := range []stuck{0, 1, ^stuck(0)} {
		require.Less(t, chance.Below(bits, 3<<62), uint64(3<<62))
	}
}

type stuck uint64

func (s stuck) Uint64() uint64 { return uint64(s) }
