package micro

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

func TestHold(t *testing.T) {
	h := &hold{}
	failed := errors.New("failed")
	require.ErrorIs(t, h.call(func() error { return failed }), failed)
	for range 9 {
		require.NoError(t, h.call(func() error { return nil }))
	}
	h.walls = []float64{3, 1, 2, 10, 5, 4, 6, 7, 8, 9} // what the clock said does not matter here
	h.cpus = []float64{1, 7, 2}
	r := h.round()
	require.Equal(t, 5.5, r[report.P50])
	require.Equal(t, 10.0, r[report.P90])
	require.Equal(t, 10.0, r[report.Max])
	require.Equal(t, 7.0, r[report.CallCPU], "the longest, whichever call it was")
	require.NotEqual(t, r[report.Others], r[report.Others], "nothing was counted")
	h.other(3)
	h.other(2)
	require.Equal(t, 3.0, h.round()[report.Others])
}

func TestCutShort(t *testing.T) {
	row := heldRow{name: "x", groups: []string{"other"}}
	c := row.contender(Turnstile, "", func(_ context.Context, s Settings, r *heldRound) error {
		r.calls.walls, r.calls.cpus = []float64{100}, []float64{50}
		r.after(s.limit(), 1, 4)
		return nil
	})
	out, err := c.run(context.Background(), Settings{Limit: time.Second})
	require.NoError(t, err)
	require.Equal(t, 400.0, out.total[report.Max], "as if the rest took as long")
	require.Equal(t, 200.0, out.total[report.CallCPU])
	require.Equal(t, []string{"> 1s for 1 of 4; the figures are for all, if the others take as long"}, out.notes)
	require.Len(t, out.groups, 1)
	require.Equal(t, 10*time.Second, Settings{}.limit())
}

func TestBeside(t *testing.T) {
	b := &beside{}
	b.run(func(n int64) error {
		if n == 5 {
			return errors.New("the sixth fails")
		}
		return nil
	})
	err := <-b.done
	require.EqualError(t, err, "the sixth fails")
	require.EqualValues(t, 5, b.calls.Load())
	require.Len(t, b.hold.walls, 6)
}

func TestLeapClock(t *testing.T) {
	h := &hold{}
	c := newLeapClock(h)
	before := c.Now()
	ran := make(chan string, 4)
	c.AfterFunc(time.Hour, func() { ran <- "in an hour" })
	late := c.AfterFunc(3*time.Hour, func() { ran <- "too early" })
	gone := c.AfterFunc(time.Hour, func() { ran <- "stopped" })
	require.True(t, gone.Stop())
	c.leap(2 * time.Hour)
	require.Equal(t, "in an hour", <-ran)
	require.False(t, c.Now().Before(before.Add(2*time.Hour)))
	require.True(t, late.Stop())
	require.False(t, gone.Stop())
	require.Empty(t, ran)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Empty(t, c.timers)
}

func TestLeaving(t *testing.T) {
	h := &hold{}
	var threads atomic.Int64
	threads.Store(1)
	first := &leaving{Context: context.Background(), done: make(chan struct{}), most: &threads}
	second := &leaving{Context: context.Background(), done: make(chan struct{}), most: &threads}
	require.NoError(t, first.Err(), "it has not ended")
	close(first.done)
	close(second.done)
	require.ErrorIs(t, first.Err(), context.Canceled)
	require.ErrorIs(t, first.Err(), context.Canceled)
	require.ErrorIs(t, second.Err(), context.Canceled)
	require.True(t, first.holds)
	require.False(t, second.holds, "no more threads than are allowed")
	first.left(h)
	second.left(h)
	require.Len(t, h.walls, 1)
	require.EqualValues(t, 1, threads.Load())
}

// TestChoices: the requests and pools are as their names say.
func TestChoices(t *testing.T) {
	const ranks = 32
	for i := range choices {
		c := &choices[i]
		t.Run(c.name, func(t *testing.T) {
			trial, err := c.selects(all()[0], 1, ranks)
			require.NoError(t, err)
			require.NoError(t, trial.callers[0].timed())
			own := c.prompts(0, 1, ranks)
			switch c.name {
			case "one exclusion":
				require.Len(t, own[0].Excluded, 1)
				require.NotEqual(t, own[0].Excluded, own[1].Excluded)
			case "half allowed":
				require.Len(t, own[0].Allowed, ranks/2)
			case "half excluded":
				require.Len(t, own[0].Excluded, ranks/2)
			case "ISL 0":
				require.Zero(t, own[0].ISL)
			case "tracking off":
				require.True(t, own[0].NoPrefillTracking)
			case "required taint":
				require.Equal(t, []string{needed}, own[0].RequiredTaints)
			}
			require.NoError(t, trial.end())
		})
	}
}

// TestBacked: a holder keeps its rank until enough stand in line, but not for
// ever.
func TestBacked(t *testing.T) {
	for _, e := range all() {
		g, err := newGate(e, onePrompt, 1)
		require.NoError(t, err)
		require.NoError(t, g.open())
		w := g.backed(context.Background(), &prompts(1, 1, 0)[0][0], 5)
		require.NoError(t, w.timed())
		require.NoError(t, w.rest(), e.Name)
		require.Zero(t, g.inside.Load())
		require.NoError(t, g.finish())
	}
}

func TestThreadTime(t *testing.T) {
	m := begin()
	h := &hold{}
	sum := uint64(0)
	for i := range uint64(1 << 20) {
		sum += i * i
	}
	require.NotZero(t, sum)
	if _, known := threadTime(); !known {
		t.Skip("not known on this system")
	}
	require.Positive(t, h.end(m))
}
