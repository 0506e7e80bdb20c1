package policy

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func ptr[T any](v T) *T { return &v }

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, o := range []Order{FCFS, LCFS, WSPT} {
		got, err := ParseOrder(o.String())
		require.NoError(t, err)
		require.Equal(t, o, got)
	}
	require.Equal(t, FCFS, Order(0))
	for _, s := range []string{"", "FCFS", "fifo", "fcfs ", "Order(3)"} {
		_, err := ParseOrder(s)
		require.ErrorIs(t, err, ErrInvalid, s)
	}
	require.Equal(t, "Order(3)", Order(3).String())
}

func TestCanQueue(t *testing.T) {
	t.Parallel()
	require.False(t, (&Class{}).CanQueue())
	require.True(t, (&Class{BusyThreshold: ptr[int64](0)}).CanQueue())
	require.True(t, (&Class{BusyThresholdFrac: ptr(0.0)}).CanQueue())
	require.True(t, (&Class{MaxRequestsPerRank: 1}).CanQueue())
	require.True(t, (&Class{KVBusyThresholdFrac: ptr(0.0)}).CanQueue())
}

func TestChooseFrom(t *testing.T) {
	t.Parallel()
	for _, c := range []ChooseFrom{ChooseEligible, ChooseIdle} {
		got, err := ParseChooseFrom(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	for _, s := range []string{"", "Idle", "ChooseFrom(2)"} {
		_, err := ParseChooseFrom(s)
		require.ErrorIs(t, err, ErrInvalid, s)
	}
	require.Equal(t, "ChooseFrom(2)", ChooseFrom(2).String())
}

// TestWhoWaits: what a limit of 0, and no threshold, do to the rules for those who
// wait.
func TestWhoWaits(t *testing.T) {
	t.Parallel()
	zero := ptr[int64](0)
	for _, tc := range []struct {
		class                  Class
		guards, bound, patient bool
	}{
		{Class{}, false, false, false},
		{Class{EndpointWait: 1}, false, false, true},
		{Class{MaxRequestsPerRank: 1}, false, true, false},
		{Class{BusyThreshold: zero, GuardAfter: 1, EndpointWait: 1}, true, true, true},
		{Class{BusyThreshold: zero, GuardAfter: 1, EndpointWait: 1, Limits: Limits{RawTokens: zero}}, false, false, false},
	} {
		got := []bool{tc.class.Guards(), tc.class.BoundByGuards(), tc.class.WaitsForEndpoint()}
		require.Equal(t, []bool{tc.guards, tc.bound, tc.patient}, got, "%+v", tc.class)
	}
	p, err := New(Config{DefaultFamily: "f", Buckets: []Bucket{{Name: "b"}}, Classes: []Class{
		{Name: "a", Family: "f", Bucket: "b", Quantum: 1},
		{Name: "g", Quantum: 1, BusyThreshold: zero, GuardAfter: 1},
		{Name: "w", Quantum: 1, EndpointWait: 1},
	}})
	require.NoError(t, err)
	require.True(t, p.Guards())
	require.True(t, p.WaitsForEndpoint())
	require.False(t, Default().Guards())
	require.False(t, Default().WaitsForEndpoint())
}

func TestBlocksAbove(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		frac  *float64
		total int64
		above int64
		ok    bool
	}{
		{nil, 10, 0, false},
		{ptr(0.5), 0, 0, false},
		{ptr(0.0), 4, 0, true},
		{ptr(0.5), 5, 2, true},
		{ptr(1.0), 12, 12, true},
		{ptr(1e300), 12, math.MaxInt64, true},
	} {
		above, ok := (&Class{KVBusyThresholdFrac: tc.frac}).BlocksAbove(tc.total)
		require.Equal(t, []any{tc.above, tc.ok}, []any{above, ok})
	}
	_, ok := (&Class{MaxRequestsPerRank: 3}).BusyAbove(100)
	require.False(t, ok, "a cap on requests is no prefill threshold")
}

func TestNeverQueues(t *testing.T) {
	t.Parallel()
	zero, one := ptr[int64](0), ptr[int64](1)
	for _, tc := range []struct {
		limits Limits
		limit  string
		never  bool
	}{
		{Limits{}, "", false},
		{Limits{one, one, one}, "", false},
		{Limits{zero, zero, zero}, "requests", true},
		{Limits{one, zero, zero}, "raw-tokens", true},
		{Limits{nil, zero, nil}, "raw-tokens", true},
		{Limits{one, nil, zero}, "cached-tokens", true},
	} {
		limit, never := (&Class{Limits: tc.limits}).NeverQueues()
		require.Equal(t, tc.limit, limit)
		require.Equal(t, tc.never, never)
	}
}

func TestMustWait(t *testing.T) {
	t.Parallel()
	threshold := ptr[int64](0)
	for _, tc := range []struct {
		ratio             float64
		blocked, eligible int
		want              bool
	}{
		{0, 0, 0, false},
		{0, 0, 1, false},
		{0, 127, 128, false},
		{0, 128, 128, true},
		{1, 0, 0, false},
		{1, 1, 2, false},
		{1, 2, 2, true},
		{0.95, 121, 128, false},
		{0.95, 122, 128, true},
		{0.95, 1, 2, false},
		{0.95, 2, 2, true},
		{0.5, 1, 2, true},
		{0.5, 0, 2, false},
		{0.5, 1, 3, false},
		{0.5, 2, 3, true},
		{math.SmallestNonzeroFloat64, 0, 1000, false},
		{math.SmallestNonzeroFloat64, 1, 1000, true},
		// In float64, 0.07*100 is a little more than 7 and 0.29*100 a little
		// less than 29.
		{0.07, 7, 100, false},
		{0.29, 29, 100, true},
	} {
		c := Class{BusyThreshold: threshold, BusyWorkerRatio: tc.ratio}
		require.Equal(t, tc.want, c.MustWait(tc.blocked, tc.eligible), "%+v", tc)
	}
	require.False(t, (&Class{}).MustWait(3, 3), "a class without threshold never waits")
}

func TestLimitReached(t *testing.T) {
	t.Parallel()
	c := Class{Limits: Limits{ptr[int64](2), ptr[int64](10), ptr[int64](5)}}
	for _, tc := range []struct {
		name                        string
		class                       *Class
		requests, raw, cached, work int64
		limit                       string
		usage, bound                int64
	}{
		{"below all", &c, 3, 19, 9, 2, "", 0, 0},
		{"requests first", &c, 4, 20, 10, 2, "requests", 4, 4},
		{"raw next", &c, 3, 20, 10, 2, "raw-tokens", 20, 20},
		{"cached last", &c, 3, 19, 11, 2, "cached-tokens", 11, 10},
		{"no worker", &c, 0, 0, 0, 0, "requests", 0, 0},
		{"no limits", &Class{}, math.MaxInt64, math.MaxInt64, math.MaxInt64, 0, "", 0, 0},
		{"zero", &Class{Limits: Limits{CachedTokens: ptr[int64](0)}}, 9, 9, 0, 5, "cached-tokens", 0, 0},
		{"saturated", &Class{Limits: Limits{RawTokens: ptr[int64](math.MaxInt64)}}, 0, math.MaxInt64 - 1, 0, 3, "", 0, 0},
		{"saturated, reached", &Class{Limits: Limits{RawTokens: ptr[int64](1 << 62)}}, 0, math.MaxInt64, 0, 3, "raw-tokens", math.MaxInt64, math.MaxInt64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			limit, usage, bound, reached := tc.class.LimitReached(tc.requests, tc.raw, tc.cached, tc.work)
			require.Equal(t, tc.limit != "", reached)
			require.Equal(t, tc.limit, limit)
			require.Equal(t, tc.usage, usage)
			require.Equal(t, tc.bound, bound)
		})
	}
}

func TestSaturatingMul(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		a, b := rng.Int64()>>rng.IntN(63), rng.Int64()>>rng.IntN(63)
		want := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		require.Equal(t, want.Int64(), saturatingMul(a, b), "%d × %d", a, b)
	}
}

// busy is the definition that BusyAbove has to agree with.
func busy(c *Class, active, maxBatched int64) bool {
	return c.BusyThreshold != nil && active > *c.BusyThreshold ||
		c.BusyThresholdFrac != nil && float64(active) > *c.BusyThresholdFrac*float64(maxBatched)
}

func requireBusyAbove(t *testing.T, c *Class, maxBatched int64, actives ...int64) {
	t.Helper()
	tokens, ok := c.BusyAbove(maxBatched)
	require.Equal(t, c.CanQueue(), ok)
	if ok {
		actives = append(actives, tokens-1, tokens)
		if tokens < math.MaxInt64 {
			actives = append(actives, tokens+1)
		}
	}
	for _, active := range actives {
		require.Equal(t, busy(c, active, maxBatched), ok && active > tokens,
			"active %d, above %d, max %d, class %+v", active, tokens, maxBatched, c)
	}
}

func TestBusyAbove(t *testing.T) {
	t.Parallel()
	fracs := []float64{
		0, math.SmallestNonzeroFloat64, 0.1, 0.25, 0.5, 1, 1.5, 16, 1e3,
		1 << 53, 1<<53 + 2, 1<<53 + 4, 1 << 62, 1 << 63, 1 << 64, 1e18, math.MaxFloat64,
		math.Nextafter(1<<53, 0), math.Nextafter(1<<63, 0), math.Nextafter(1<<62, 0), math.Nextafter(1<<62, 1<<63),
	}
	maxes := []int64{1, 2, 3, 10, 4096, 10_000_000, 1 << 53, 1<<53 + 1, 1 << 62, math.MaxInt64}
	for _, frac := range fracs {
		for _, m := range maxes {
			requireBusyAbove(t, &Class{BusyThresholdFrac: &frac}, m, 0, 1, math.MaxInt64, math.MaxInt64-1)
		}
	}
	requireBusyAbove(t, &Class{}, 10, 0, math.MaxInt64)
	requireBusyAbove(t, &Class{BusyThreshold: ptr[int64](math.MaxInt64)}, 10, 0, math.MaxInt64)
	for _, tc := range []struct {
		threshold *int64
		frac      *float64
		want      int64
	}{
		{ptr[int64](7), nil, 7},
		{nil, ptr(0.25), 2},
		{ptr[int64](7), ptr(0.25), 2},
		{ptr[int64](1), ptr(0.25), 1},
		{nil, ptr(16.0), 160},
	} {
		tokens, ok := (&Class{BusyThreshold: tc.threshold, BusyThresholdFrac: tc.frac}).BusyAbove(10)
		require.True(t, ok)
		require.Equal(t, tc.want, tokens)
	}
}

func TestBusyAboveRandom(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		var c Class
		if rng.IntN(2) == 0 {
			c.BusyThreshold = ptr(rng.Int64() >> rng.IntN(63))
		}
		if rng.IntN(4) > 0 {
			c.BusyThresholdFrac = ptr(math.Ldexp(rng.Float64(), rng.IntN(70)-5))
		}
		maxBatched := 1 + rng.Int64()>>(1+rng.IntN(62))
		requireBusyAbove(t, &c, maxBatched, rng.Int64()>>rng.IntN(63))
	}
}
