package wide_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/wide"
)

// A sum beyond 64 bits is clamped as long as it is that large, and is exact again after.
func TestSumBeyondAnInteger(t *testing.T) {
	t.Parallel()
	var s wide.Sum
	for range 5 {
		s.Add(math.MaxInt64)
	}
	s.Add(7)
	require.EqualValues(t, math.MaxInt64, s.Clamped())
	for range 4 {
		s.Sub(math.MaxInt64)
		require.EqualValues(t, math.MaxInt64, s.Clamped())
	}
	s.Sub(math.MaxInt64)
	require.EqualValues(t, 7, s.Clamped())
	require.Equal(t, wide.Of(7), s)
	s.Sub(7)
	require.Zero(t, s)
}
