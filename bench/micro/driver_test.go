package micro

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

func TestDrive(t *testing.T) {
	var timed, rest atomic.Int64
	ended := 0
	tr := &trial{groups: []string{"a", "b"}, shares: true, end: func() error { ended++; return nil }}
	for i := range 3 {
		tr.callers = append(tr.callers, caller{
			group: i % 2,
			timed: func() error { timed.Add(1); runtime.Gosched(); return nil },
			rest:  func() error { rest.Add(1); return nil },
		})
	}
	out, err := drive(context.Background(), tr, 20*time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, 1, ended)
	require.Equal(t, timed.Load(), rest.Load())
	var sum int64
	for _, n := range out.counts {
		sum += n
	}
	require.Positive(t, sum)
	require.LessOrEqual(t, sum, timed.Load(), "the warm-up is not counted")
	require.Len(t, out.groups, 2)
	if !out.blurred { // on a busy machine it cannot be told
		require.InDelta(t, float64(sum)/out.wall.Seconds(), out.total[report.OpsPerSecond], 1)
		require.InDelta(t, 1e9, out.total[report.OpsPerSecond]*out.total[report.TimePerOp], 1)
		require.InDelta(t, out.total[report.OpsPerSecond], out.groups[0][report.OpsPerSecond]+out.groups[1][report.OpsPerSecond], 1)
	}
	require.Positive(t, out.waits.TotalCount())
	if allocs := out.total[report.AllocsPerOp]; !math.IsNaN(allocs) { // on a busy machine it cannot be told
		require.Less(t, allocs, 1.0)
	}
	require.False(t, math.IsNaN(out.total[report.P99]))
	require.NotEmpty(t, out.shares)
	for _, s := range out.shares {
		require.LessOrEqual(t, s.Least, s.Tenth)
		require.LessOrEqual(t, s.Ninetieth, s.Most)
	}
}

func TestDriveFails(t *testing.T) {
	broken := errors.New("broken")
	aborted := make(chan struct{})
	tr := &trial{
		abort: func() { close(aborted) },
		end:   func() error { return errors.New("left over") },
		callers: []caller{
			{timed: func() error { return broken }},
			{timed: func() error { <-aborted; return errors.New("aborted") }},
		},
	}
	_, err := drive(context.Background(), tr, time.Second)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "left over", "the trial is ended whatever happens")
	require.NotContains(t, err.Error(), "aborted", "the first error is told")

	tr = &trial{end: func() error { return nil }, callers: []caller{{timed: func() error { return nil }, rest: func() error { return broken }}}}
	_, err = drive(context.Background(), tr, time.Second)
	require.ErrorIs(t, err, broken)

	tr = &trial{begin: func() error { return broken }, end: func() error { return nil }, callers: []caller{{timed: func() error { return nil }}}}
	_, err = drive(context.Background(), tr, time.Second)
	require.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tr = &trial{end: func() error { return nil }, callers: []caller{{timed: func() error { return nil }}}}
	_, err = drive(ctx, tr, time.Second)
	require.ErrorIs(t, err, context.Canceled)

	tr = &trial{backlog: func() int64 { return 3 }, least: 4, end: func() error { return nil }, callers: []caller{{timed: func() error { return nil }}}}
	out, err := drive(context.Background(), tr, 20*time.Millisecond)
	require.NoError(t, err, "a machine that is busy is no fault")
	require.Contains(t, out.thin, "only 3 waited on average")
}

func TestCycled(t *testing.T) {
	d := &driver{}
	require.False(t, d.cycled(255, 256))
	require.True(t, d.cycled(256, 256))
	require.True(t, d.cycled(270, 256), "some may be in the next cycle")
	require.False(t, d.cycled(400, 256), "not in the middle of one")
	require.True(t, d.cycled(768, 256))
	require.True(t, d.cycled(1, 1))
}

func TestPoints(t *testing.T) {
	h := hdrhistogram.New(1, longest, digits)
	for i := range 1000 {
		require.NoError(t, h.RecordValue(int64(i+1)))
	}
	p := points(h)
	require.Equal(t, 0.0, p[0].Quantile)
	for i := 1; i < len(p); i++ {
		require.Greater(t, p[i].Quantile, p[i-1].Quantile)
		require.GreaterOrEqual(t, p[i].Nanos, p[i-1].Nanos)
	}
	require.LessOrEqual(t, p[len(p)-1].Quantile, 0.999, "no further than there are samples")
	require.Empty(t, points(hdrhistogram.New(1, longest, digits)))
}
