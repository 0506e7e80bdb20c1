package policy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	n := func(n int64) *int64 { return &n }
	require.Empty(t, (&Class{}).Bounds(3))
	c := &Class{Limits: Limits{Requests: n(2), RawTokens: n(math.MaxInt64), CachedTokens: n(0)}}
	require.Equal(t, []Bound{{LimitRequests, 6}, {LimitRawTokens, math.MaxInt64}, {LimitCachedTokens, 0}}, c.Bounds(3))
	for _, b := range c.Bounds(3) {
		limit, usage, bound, reached := (&Class{Limits: only(c.Limits, b.Limit)}).LimitReached(b.Bound, b.Bound, b.Bound, 3)
		require.Equal(t, []any{b.Limit, b.Bound, b.Bound, true}, []any{limit, usage, bound, reached})
	}
}

// only returns one limit of several.
func only(l Limits, name string) Limits {
	switch name {
	case LimitRequests:
		return Limits{Requests: l.Requests}
	case LimitRawTokens:
		return Limits{RawTokens: l.RawTokens}
	default:
		return Limits{CachedTokens: l.CachedTokens}
	}
}
