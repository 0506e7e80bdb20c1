package selector

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCost(t *testing.T) {
	t.Parallel()
	// Hand-computed with blocks of 10 tokens.
	tests := []struct {
		name  string
		isl   int64
		off   bool // prefill is not tracked
		least int64
		set   func(*Params)
		c     Candidate
		want  float64
	}{
		{name: "idle", isl: 100, want: 100},
		{name: "empty prompt", isl: 0, want: 0},
		{name: "empty prompt on a loaded rank", isl: 0, c: Candidate{ActivePrefill: 7, PotentialBlocks: 3}, want: 7 + 30},
		{name: "active prefill and blocks", isl: 100, c: Candidate{ActivePrefill: 50, ActiveBlocks: 5, PotentialBlocks: 15}, want: 150 + 150},
		{name: "active blocks alone cost nothing", isl: 100, c: Candidate{ActiveBlocks: 5}, want: 100},
		{name: "device overlap", isl: 200, c: Candidate{ActivePrefill: 100, PotentialBlocks: 10, Device: 20}, want: 200},
		{name: "overlap beyond the work", isl: 100, c: Candidate{PotentialBlocks: 1, Device: 11}, want: 10},
		{name: "host", isl: 200, c: Candidate{ActivePrefill: 50, PotentialBlocks: 5, Host: 20}, want: 250 - 150 + 50},
		{name: "disk", isl: 200, c: Candidate{ActivePrefill: 50, PotentialBlocks: 5, Disk: 20}, want: 250 - 50 + 50},
		{name: "all tiers", isl: 100, c: Candidate{Device: 2, Host: 4, Disk: 8}, want: 100 - 20 - 30 - 20},
		{name: "fractional overlap", isl: 100, c: Candidate{Device: 2.5}, want: 75},
		{
			name: "tier weights", isl: 100,
			set: func(p *Params) { p.Tiers = TierWeights{Device: 0.5, Host: 0.25, Disk: 0.125} },
			c:   Candidate{Device: 2, Host: 4, Disk: 8}, want: 100 - 10 - 10 - 10,
		},
		{
			name: "credit counts for the device alone", isl: 100,
			set: func(p *Params) { p.OverlapCredit = 0.5 },
			c:   Candidate{Device: 4, Host: 4}, want: 100 - 20 - 30,
		},
		{
			name: "prefill scale spares the blocks", isl: 100,
			set: func(p *Params) { p.PrefillScale = 3 },
			c:   Candidate{Device: 5, PotentialBlocks: 2}, want: 150 + 20,
		},
		{
			name: "request weight", isl: 100,
			set: func(p *Params) { p.RequestWeight = 0.5 },
			c:   Candidate{Requests: 3}, want: 100 + 15,
		},
		{
			name: "decode pool", isl: 100, off: true,
			set: func(p *Params) { p.Role, p.RequestWeight, p.CreditDecay = RoleDecode, 1, 5 },
			c:   Candidate{ActivePrefill: 900, PotentialBlocks: 9, Requests: 2, Device: 3, Host: 4, Disk: 4}, want: 10*(9-3-3-1) + 20,
		},
		{
			name: "decode pool, all of it cached", isl: 100, off: true,
			set: func(p *Params) { p.Role = RoleDecode },
			c:   Candidate{PotentialBlocks: 3, Device: 5}, want: 0,
		},
		{
			name: "decode pool, a prompt that is computed here", isl: 100,
			set: func(p *Params) { p.Role = RoleDecode },
			c:   Candidate{PotentialBlocks: 9, Device: 3}, want: 70 + 90,
		},
		{
			name: "decode pool, cached blocks count for nothing", isl: 100, off: true,
			set: func(p *Params) { p.Role, p.OverlapCredit = RoleDecode, 0 },
			c:   Candidate{PotentialBlocks: 9, Device: 3, Host: 4}, want: 90,
		},
		{
			name: "untracked prefill leaves the blocks", isl: 100, off: true,
			set: func(p *Params) { p.RequestWeight = 1 },
			c:   Candidate{ActivePrefill: 900, PotentialBlocks: 4, Requests: 2, Device: 3}, want: 40 + 20,
		},
		{
			// Excess of 10 blocks, R = 10: d = 1/2.
			name: "decay", isl: 100, least: 20,
			set: func(p *Params) { p.CreditDecay = 1 },
			c:   Candidate{ActivePrefill: 120, Device: 8, Host: 4}, want: 220 - 40 - 30,
		},
		{
			name: "decay of the least loaded", isl: 100, least: 120,
			set: func(p *Params) { p.CreditDecay = 1 },
			c:   Candidate{ActivePrefill: 120, Device: 8}, want: 220 - 80,
		},
		{
			// 101 tokens are 11 blocks; excess of 11 blocks, k = 3: d = 1/4.
			name: "decay rounds the request up", isl: 101,
			set: func(p *Params) { p.CreditDecay = 3 },
			c:   Candidate{ActivePrefill: 110, Device: 8}, want: 211 - 20,
		},
		{
			// R = 1 though the request has no block; excess of 1 block.
			name: "decay of an empty prompt", isl: 0,
			set: func(p *Params) { p.CreditDecay = 1 },
			c:   Candidate{ActivePrefill: 10, Device: 1}, want: 10 - 5,
		},
		{
			name: "decay below the least that was read", isl: 100, least: 100,
			set: func(p *Params) { p.CreditDecay = 1 },
			c:   Candidate{ActivePrefill: 50, Device: 8}, want: 150 - 80,
		},
		{name: "wanted taint", isl: 100, c: Candidate{TaintWeight: 1}, want: 100 * math.Exp(-math.Tanh(1))},
		{name: "avoided taint", isl: 100, c: Candidate{TaintWeight: -3}, want: 100 * math.Exp(math.Tanh(3))},
		{name: "taint beyond measure", isl: 100, c: Candidate{TaintWeight: math.Inf(1)}, want: 100 * math.Exp(-1)},
		{
			name: "taint multiplies the whole", isl: 100,
			c: Candidate{PotentialBlocks: 10, TaintWeight: 1}, want: 200 * math.Exp(-math.Tanh(1)),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := &Input{Params: params(10), ISL: tt.isl, TrackPrefill: !tt.off, LeastPrefill: tt.least}
			if tt.set != nil {
				tt.set(&in.Params)
			}
			assert.Equal(t, tt.want, Cost(in, &tt.c))
		})
	}
}

func TestCostUntrackedDoesNotDecay(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(10), ISL: 100, TrackPrefill: false}
	in.Params.CreditDecay = 1
	c := Candidate{ActivePrefill: 1000, Device: 5}
	assert.Equal(t, 1.0, decay(in, &c, 10))
	in.TrackPrefill = true
	assert.Equal(t, 1.0/11, decay(in, &c, 10))
}

func TestCostBadInput(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(0), ISL: 100, TrackPrefill: true}
	assert.True(t, math.IsNaN(Cost(in, &Candidate{})), "block size 0")
	in.Params.BlockSize = 10
	assert.True(t, math.IsNaN(Cost(in, &Candidate{Device: math.NaN()})))
	in.Params.PrefillScale = math.Inf(1)
	assert.True(t, math.IsInf(Cost(in, &Candidate{}), 1))
	in.Params.PrefillScale = 1
	in.ISL = math.MaxInt64
	assert.Equal(t, 0x1p64, Cost(in, &Candidate{ActivePrefill: math.MaxInt64}), "the sum must not overflow")
}

// TestCostRounding compares with 53-bit arithmetic that rounds after each
// operation, which a fused multiply-add would not.
func TestCostRounding(t *testing.T) {
	t.Parallel()
	r := seeded(1)
	for range 20_000 {
		in := &Input{
			Params: Params{
				BlockSize: 1 + r.Int64N(1000), OverlapCredit: r.Float64(), PrefillScale: 3 * r.Float64(),
				CreditDecay: r.Float64(), RequestWeight: r.Float64(),
				Tiers: TierWeights{Device: r.Float64(), Host: r.Float64(), Disk: r.Float64()},
			},
			ISL: r.Int64N(100_000), TrackPrefill: true, LeastPrefill: r.Int64N(1000),
		}
		c := Candidate{
			ActivePrefill: in.LeastPrefill + r.Int64N(100_000), Requests: r.Int64N(100),
			PotentialBlocks: r.Int64N(10_000),
			Device:          10 * r.Float64(), Host: 10 * r.Float64(), Disk: 10 * r.Float64(),
		}
		require.Equal(t, roundedCost(in, &c), Cost(in, &c), "%+v %+v", in, c)
	}
}

func roundedCost(in *Input, c *Candidate) float64 {
	num := func(x float64) *big.Float { return new(big.Float).SetPrec(53).SetFloat64(x) }
	whole := func(x int64) *big.Float { return new(big.Float).SetPrec(53).SetInt64(x) }
	add := func(x, y *big.Float) *big.Float { return num(0).Add(x, y) }
	sub := func(x, y *big.Float) *big.Float { return num(0).Sub(x, y) }
	mul := func(x, y *big.Float) *big.Float { return num(0).Mul(x, y) }
	quo := func(x, y *big.Float) *big.Float { return num(0).Quo(x, y) }

	p := in.Params
	b := whole(p.BlockSize)
	r := max(1, (in.ISL+p.BlockSize-1)/p.BlockSize)
	excess := quo(whole(c.ActivePrefill-in.LeastPrefill), b)
	d := quo(num(1), add(num(1), quo(mul(num(p.CreditDecay), excess), whole(r))))
	credit := mul(mul(mul(num(p.OverlapCredit), d), num(p.Tiers.Device)), num(c.Device))
	credit = add(credit, mul(num(p.Tiers.Host), num(c.Host)))
	credit = add(credit, mul(num(p.Tiers.Disk), num(c.Disk)))
	prefill := sub(add(whole(c.ActivePrefill), whole(in.ISL)), mul(b, credit))
	if prefill.Sign() < 0 {
		prefill = num(0)
	}
	cost := mul(num(p.PrefillScale), prefill)
	cost = add(cost, mul(b, whole(c.PotentialBlocks)))
	cost = add(cost, mul(mul(b, num(p.RequestWeight)), whole(c.Requests)))
	f, _ := cost.Float64()
	return f
}

func TestCachedTokens(t *testing.T) {
	t.Parallel()
	w := DefaultTierWeights()
	tests := []struct {
		name               string
		device, host, disk float64
		block, isl, want   int64
	}{
		{"nothing", 0, 0, 0, 16, 100, 0},
		{"device", 3, 0, 0, 16, 100, 48},
		{"host", 0, 20, 0, 10, 200, 150},
		{"disk", 0, 0, 20, 10, 200, 50},
		{"sum", 2, 4, 8, 10, 100, 70},
		{"halves go up", 0.25, 0, 0, 2, 10, 1},
		{"2.5 is 3", 0, 0, 1, 10, 10, 3},
		{"below a half", 0.2, 0, 0, 2, 10, 0},
		{"capped", 30, 0, 0, 10, 200, 200},
		{"empty prompt", 30, 0, 0, 10, 0, 0},
		{"negative", -1, 0, 0, 10, 100, 0},
		{"negative prompt", 1, 0, 0, 10, -5, 0},
		{"huge", math.MaxFloat64, 0, 0, 10, 100, 100},
		{"overflow", math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"huge prompt", 1, 0, 0, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{"not a number", math.NaN(), 0, 0, 10, 100, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, w.CachedTokens(tt.device, tt.host, tt.disk, tt.block, tt.isl))
		})
	}
}

func FuzzCost(f *testing.F) {
	f.Add(int64(16), int64(100), int64(50), int64(20), int64(3), int64(7), 1.0, 1.0, 0.5, 0.1, 2.0, 1.0, 0.0, -1.0, true)
	f.Add(int64(0), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), int64(3), int64(7), 1e308, -1e308, -1.0, 1e300, 1e308, 1e308, 1e308, 1e308, true)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(0), int64(3), int64(7), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, false)
	f.Fuzz(func(t *testing.T, block, isl, prefill, least, blocks, requests int64,
		credit, scale, k, a, device, host, disk, taint float64, track bool,
	) {
		given := []float64{credit, scale, k, a, device, host, disk, taint}
		for _, x := range given {
			if !finite(x) {
				t.Skip()
			}
		}
		in := &Input{
			Params: Params{
				BlockSize: block, OverlapCredit: credit, PrefillScale: scale, CreditDecay: k,
				RequestWeight: a, Tiers: DefaultTierWeights(), Ties: TiesLowest,
			},
			ISL: isl, TrackPrefill: track, LeastPrefill: least, Rand: rand.New(rand.NewPCG(1, 2)),
			Candidates: idle(3),
		}
		c := Candidate{
			ActivePrefill: prefill, PotentialBlocks: blocks, Requests: requests,
			Device: device, Host: host, Disk: disk, TaintWeight: taint,
		}
		c.Rank = in.Candidates[1].Rank
		in.Candidates[1] = c

		ok := true
		for i := range in.Candidates {
			ok = ok && finite(Cost(in, &in.Candidates[i]))
		}
		for _, temperature := range []float64{0, 1e-320, 1} {
			in.Params.Temperature = temperature
			p, err := KV().Pick(in)
			if !ok {
				require.ErrorIs(t, err, ErrNonFinite)
				continue
			}
			require.NoError(t, err)
			require.True(t, finite(p.Cost) && finite(p.RunnerUp), "%+v", p)
			require.True(t, KV().(Confirmer).Confirm(in, p, in.Candidates[p.Index]), "what was read must confirm")
		}

		if got := DefaultTierWeights().CachedTokens(device, host, disk, block, isl); isl >= 0 {
			require.True(t, 0 <= got && got <= isl, "%d of %d", got, isl)
		} else {
			require.Zero(t, got)
		}
	})
}
