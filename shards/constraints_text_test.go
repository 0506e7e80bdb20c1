package shards_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

func TestConstraintsInWords(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]shards.Constraints{
		"any rank":                           {},
		"rank 3/1":                           {Pinned: true, Pin: lifecycle.RankID{Worker: 3, Rank: 1}},
		"workers none":                       {Allowed: []uint64{}},
		"workers 1 2 3 4 5 6 7 8 and 1 more": {Allowed: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		`workers 4, not workers 5 6, with taints "a" "b c"`: {
			Allowed: []uint64{4}, Excluded: []uint64{5, 6}, RequiredTaints: []string{"a", "b c"},
		},
	} {
		require.Equal(t, want, c.String())
	}
}
