package report

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.True(t, math.IsNaN(Median(nil)))
	require.Equal(t, 3.0, Median([]float64{3}))
	require.Equal(t, 2.0, Median([]float64{9, 1, 2}))
	values := []float64{4, 1, 3, 2}
	require.Equal(t, 2.5, Median(values))
	require.Equal(t, []float64{4, 1, 3, 2}, values, "not sorted in place")
}

func seriesOf(engine string, rates ...float64) Series {
	s := Series{Engine: engine, Callers: 256, Ranks: 16}
	for _, v := range rates {
		r := NewRound()
		r[OpsPerSecond], r[TimePerOp], r[P50], r[P99], r[Max] = v, 1e9/v, 100, 200, 300
		s.Rounds = append(s.Rounds, r)
	}
	return s
}

func TestSeries(t *testing.T) {
	s := seriesOf("turnstile", 10, 30, 20)
	require.Equal(t, 20.0, s.Median(OpsPerSecond))
	least, most := s.Range(OpsPerSecond)
	require.Equal(t, []float64{10, 30}, []float64{least, most})
	require.Equal(t, 1.0, s.Spread(OpsPerSecond))
	require.Equal(t, 0.0, s.Spread(P50))
	require.True(t, math.IsNaN(s.Median(Fairness)))
	require.True(t, math.IsNaN(s.Spread(Fairness)))
	least, most = s.Range(Fairness)
	require.True(t, math.IsNaN(least) && math.IsNaN(most))

	s.Rounds[1][Fairness] = 0.9
	require.Equal(t, 0.9, s.Median(Fairness), "of the rounds in which it was taken")
	require.Equal(t, "turnstile", s.Name())
	s.Variant = "one lane"
	require.Equal(t, "turnstile (one lane)", s.Name())
}

func TestLimit(t *testing.T) {
	v := AtLeast(8).Judge("calls/s", 7.99, Times)
	require.Equal(t, Verdict{What: "calls/s", Need: "≥ 8 ×", Reached: "7.99 ×", Known: true}, v)
	require.Equal(t, "short", v.Mark())
	require.Equal(t, "met", AtLeast(8).Judge("", 8, Times).Mark())
	require.Equal(t, "met", AtMost(0.6).Judge("", 0.6, Times).Mark())
	require.Equal(t, "short", AtMost(0.6).Judge("", 0.61, Times).Mark())
	v = AtMost(0).Judge("allocations", math.NaN(), Short)
	require.Equal(t, Verdict{What: "allocations", Need: "≤ 0"}, v)
	require.Equal(t, "not run", v.Mark())
	v.Untold = "machine busy"
	require.Equal(t, "not told", v.Mark())
	require.Equal(t, "machine busy", v.Outcome())
}

func TestFigures(t *testing.T) {
	for want, got := range map[string]string{
		"0 ×":        Times(0),
		"0.0021 ×":   Times(0.00213),
		"0.000041 ×": Times(0.0000412),
		"0.61 ×":     Times(0.612),
		"8 ×":        Times(8.001),
		"65.2 ×":     Times(65.23),
		"400 ×":      Times(400),
		"-":          Rate(math.NaN()),
		"9.90":       Rate(9.9),
		"1.5 k":      Rate(1499),
		"150 k":      Rate(150_000),
		"1.23 M":     Rate(1_234_000),
		"12.3 M":     Rate(12_340_000),
		"531 ns":     Nanos(531),
		"1.5 µs":     Nanos(1500),
		"31 ms":      Nanos(31e6),
		"1.2 s":      Nanos(1.2e9),
		"0.87":       Count(0.871),
		"410":        Count(410.2),
		"7,119":      Count(7119),
		"2":          Short(2.001),
		"3,000":      Short(3000),
	} {
		require.Equal(t, want, got)
	}
	require.Equal(t, "-", Nanos(math.NaN()))
	require.Equal(t, "-", Count(math.NaN()))
	require.Nil(t, figure(math.NaN()))
	require.Nil(t, figure(math.Inf(1)))
	require.Equal(t, 1.23457e6, *figure(1_234_567.8))
	require.Equal(t, 0.0, *figure(0))
}
