package sched

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// The router section of a policy file says what a block in a lower tier is worth,
// unless the config does.
func TestTierWeightsOfThePolicyFile(t *testing.T) {
	t.Parallel()
	own := &selector.TierWeights{Device: 1, Host: 0.1, Disk: 0.2}
	for _, tc := range []struct {
		text string
		own  *selector.TierWeights
		want selector.TierWeights
	}{
		{"", nil, selector.DefaultTierWeights()},
		{"router: {}", nil, selector.DefaultTierWeights()},
		{"router: {host_cache_hit_weight: 0.5}", nil, selector.TierWeights{Device: 1, Host: 0.5, Disk: 0.25}},
		{"router: {disk_cache_hit_weight: 0}", nil, selector.TierWeights{Device: 1, Host: 0.75}},
		{"router: {host_cache_hit_weight: 0.5}", own, *own},
	} {
		file, err := policy.Parse([]byte(tc.text))
		require.NoError(t, err)
		c := Config{BlockSize: 16, Policy: file, TierWeights: tc.own}
		require.Equal(t, tc.want, c.params().Tiers, tc.text)
	}
	require.Equal(t, selector.DefaultTierWeights(), (&Config{BlockSize: 16}).params().Tiers)
}
