package lifecycle

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestBusyAbove(t *testing.T) {
	t.Parallel()
	decaying := Prefill{130, 0, 100, 10 * time.Second, 0, true, 0}
	steady := Prefill{84, 1, 64, NoDuration, 0, true, 0}
	for name, tt := range map[string]struct {
		above  BusyAbove
		load   Load
		busy   bool
		idleAt int64
		ever   bool
	}{
		"never busy":              {NeverBusy(), Load{Prefill: steady, Blocks: math.MaxInt64, Requests: math.MaxInt64}, false, 0, true},
		"at the prefill bound":    {BusyAbove{84, Never, Never}, Load{Prefill: steady}, false, 0, true},
		"above it":                {BusyAbove{83, Never, Never}, Load{Prefill: steady}, true, math.MaxInt64, false},
		"above it for some time":  {BusyAbove{50, Never, Never}, Load{Prefill: decaying}, true, 8 * second, true},
		"at the bound of blocks":  {BusyAbove{Never, Never, 5}, Load{Blocks: 5}, false, 0, true},
		"above it, whatever time": {BusyAbove{50, Never, 5}, Load{Prefill: decaying, Blocks: 6}, true, math.MaxInt64, false},
		"as many requests":        {BusyAbove{Never, 3, Never}, Load{Requests: 3}, false, 0, true},
		"one more":                {BusyAbove{Never, 3, Never}, Load{Requests: 4}, true, math.MaxInt64, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.above.Busy(&tt.load, 0); got != tt.busy {
				t.Errorf("busy: %t", got)
			}
			if at, ever := tt.above.IdleAt(&tt.load); at != tt.idleAt || ever != tt.ever {
				t.Errorf("idle at %d, %t", at, ever)
			}
		})
	}
}

// IdleAt is the first instant at which Busy ends, and what Frees does not report
// never ends Busy sooner.
func TestBusyAboveAgrees(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	load := func() Load {
		l := Load{Blocks: rng.Int64N(5), Requests: rng.Int64N(5)}
		if rng.IntN(4) > 0 {
			l.Prefill = randomPrefill(rng)
			l.Prefill.AnchorSince = 0
		}
		return l
	}
	bound := func(n int64) int64 {
		if rng.IntN(3) == 0 {
			return Never
		}
		return rng.Int64N(n)
	}
	ends, kept := 0, 0
	for range 50_000 {
		before, after := load(), load()
		above := BusyAbove{bound(1 << 20), bound(5), bound(5)}
		if rng.IntN(2) == 0 && before.Prefill.Sum > 0 {
			above.Prefill = rng.Int64N(before.Prefill.Sum)
		}
		at, ever := above.IdleAt(&before)
		switch {
		case !ever:
			if !above.Busy(&before, math.MaxInt64) {
				t.Fatalf("%+v, %+v: idle at last, not ever", above, before)
			}
		case at > 0:
			ends++
			if above.Busy(&before, at) || !above.Busy(&before, at-1) {
				t.Fatalf("%+v, %+v: idle at %d?", above, before, at)
			}
		case above.Busy(&before, at):
			t.Fatalf("%+v, %+v: busy at %d", above, before, at)
		}
		watched := Watched{Requests: above.Requests != Never, Blocks: above.Blocks != Never}
		if watched.Frees(&before, &after) {
			continue
		}
		kept++
		if then, ends := above.IdleAt(&after); ends && above.Busy(&before, 0) && (!ever || then < at) {
			t.Fatalf("%+v: %+v to %+v is idle at %d, not %d, and frees nothing", above, before, after, then, at)
		}
	}
	if ends < 1000 || kept < 100 {
		t.Fatalf("only %d loads decayed below the bound, %d freed nothing", ends, kept)
	}
}
