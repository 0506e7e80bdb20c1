package policy

import (
	"math"
	"testing"
)

func TestThresholdsBesideThePrefill(t *testing.T) {
	t.Parallel()
	frac := func(f float64) *float64 { return &f }
	for name, tc := range map[string]struct {
		class   Class
		total   int64
		blocks  int64
		ok, can bool
	}{
		"none":                  {Class{}, 10, 0, false, false},
		"requests alone":        {Class{MaxRequestsPerRank: 1}, 10, 0, false, true},
		"half of an odd number": {Class{KVBusyThresholdFrac: frac(0.5)}, 11, 5, true, true},
		"all of it":             {Class{KVBusyThresholdFrac: frac(1)}, 11, 11, true, true},
		"no block":              {Class{KVBusyThresholdFrac: frac(0)}, 11, 0, true, true},
		"an unknown total":      {Class{KVBusyThresholdFrac: frac(0.5)}, 0, 0, false, true},
		"more than there can be": {
			Class{KVBusyThresholdFrac: frac(math.MaxFloat64)}, math.MaxInt64, math.MaxInt64, true, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocks, ok := tc.class.BlocksAbove(tc.total)
			if blocks != tc.blocks || ok != tc.ok || tc.class.CanQueue() != tc.can {
				t.Errorf("above %d (%t), can queue: %t", blocks, ok, tc.class.CanQueue())
			}
			if _, ok := tc.class.BusyAbove(10); ok {
				t.Error("a prefill threshold")
			}
		})
	}
}
