package measure_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
)

func TestHistogramBuckets(t *testing.T) {
	t.Parallel()
	b := measure.Buckets{First: 250, Scale: 0.5, N: 3} // up to 250, 500, 1000 and above
	h := b.Histogram()
	sum := 0.0
	for _, tt := range []struct {
		measure int64
		bucket  int
	}{
		{math.MinInt64, 0}, {-1, 0}, {0, 0}, {1, 0}, {250, 0}, {251, 1}, {500, 1}, {501, 2}, {1000, 2}, {1001, 3}, {1 << 40, 3},
	} {
		want := b.Read(h)
		want.Counts[tt.bucket]++
		sum += float64(max(0, tt.measure)) / 2
		want.Sum = sum
		h.Record(tt.measure)
		require.Equal(t, want, b.Read(h), tt.measure)
	}
	require.Equal(t, measure.Reading{Bounds: []float64{125, 250, 500}, Counts: make([]int64, 4)}, b.Read(nil))
}

func TestSampler(t *testing.T) {
	t.Parallel()
	var none *measure.Sampler
	none.End(none.Begin())

	now := int64(0)
	b := measure.Buckets{First: 1, Scale: 1, N: 4}
	every := measure.NewSampler(1, func() int64 { now += 3; return now }, b)
	for range 5 {
		every.End(every.Begin())
	}
	require.Equal(t, []int64{0, 0, 5, 0, 0}, b.Read(every.Times).Counts)

	seldom := measure.NewSampler(1<<40, func() int64 { t.Error("the clock was read"); return 0 }, b)
	for range 100 {
		seldom.End(seldom.Begin())
	}
}
