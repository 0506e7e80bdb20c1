package report

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLabels: no number hides another, or the point of another.
func TestLabels(t *testing.T) {
	lo, hi := spot{0, 0}, spot{700, 300}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var points []spot
		for range 15 {
			// In clusters, some exactly on one another.
			at := spot{100 + 250*float64(r.IntN(3)), 150}
			points = append(points, spot{at.x + float64(r.IntN(60)), at.y + float64(r.IntN(40))})
		}
		points = append(points, points[0])
		placed := labels(points, lo, hi)
		for i, at := range placed {
			for j := range points {
				if i != j {
					require.GreaterOrEqual(t, at.from(placed[j]), 2*labelRadius, "numbers %d and %d", i, j)
				}
				if at != points[i] {
					require.GreaterOrEqual(t, at.from(points[j]), labelRadius+pointRadius, "number %d, point %d", i, j)
				}
			}
			require.True(t, at.x >= 0 && at.x <= hi.x && at.y >= 0 && at.y <= hi.y)
		}
	}
	alone := []spot{{50, 50}, {200, 50}}
	require.Equal(t, alone, labels(alone, lo, hi), "at the point itself")
	require.Equal(t, 5.0, spot{5, 5}.fromLine(spot{0, 0}, spot{10, 0}))
	require.Equal(t, 5.0, spot{13, 4}.fromLine(spot{0, 0}, spot{10, 0}))
	require.Equal(t, 5.0, spot{3, 4}.fromLine(spot{0, 0}, spot{0, 0}))
}
