package selector

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func TestKVLeast(t *testing.T) {
	t.Parallel()
	load := func(prefill, blocks int64) Candidate {
		return Candidate{ActivePrefill: prefill, PotentialBlocks: blocks}
	}
	with := func(c Candidate, set func(*Candidate)) Candidate { set(&c); return c }
	// Three ranks with 100, 50 and 10 tokens of prompts and 10, 5 and 1 blocks.
	tests := []struct {
		name           string
		isl            int64
		cs             []Candidate
		want           int
		cost, runnerUp float64
	}{
		{"ties go to the lowest", 100, []Candidate{load(0, 0), load(0, 0), load(0, 0)}, 0, 100, 100},
		{
			"overlap outweighs a small difference", 200,
			[]Candidate{with(load(100, 10), func(c *Candidate) { c.Device = 20 }), load(50, 5), load(10, 1)},
			0, 200, 220,
		},
		{
			"and not a large one", 200,
			[]Candidate{with(load(100, 10), func(c *Candidate) { c.Device = 3 }), load(50, 5), load(10, 1)},
			2, 220, 300,
		},
		{
			"a live prefix needs no new blocks", 100,
			[]Candidate{with(load(100, 10), func(c *Candidate) { c.Device = 10 }), load(50, 15), load(10, 11)},
			0, 200, 220,
		},
		{
			"host and disk", 200,
			[]Candidate{
				load(100, 10),
				with(load(50, 5), func(c *Candidate) { c.Host = 20 }),
				with(load(10, 1), func(c *Candidate) { c.Disk = 20 }),
			},
			1, 150, 170,
		},
		{
			"an avoided taint", 100,
			[]Candidate{load(100, 10), load(50, 5), with(load(10, 1), func(c *Candidate) { c.TaintWeight = -3 })},
			1, 200, 300,
		},
		{"one alone", 100, []Candidate{load(10, 1)}, 0, 120, math.Inf(1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := &Input{Params: params(10), ISL: tt.isl, TrackPrefill: true, Candidates: tt.cs, Rand: noRand{t}}
			in.Params.Ties = TiesLowest
			p, err := KV().Pick(in)
			require.NoError(t, err)
			assert.Equal(t, Pick{Index: tt.want, Cost: tt.cost, RunnerUp: tt.runnerUp}, p)
		})
	}
}

func TestKVDrawsNothingWithoutTies(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(16), ISL: 10, TrackPrefill: true, Candidates: idle(4), Rand: noRand{t}}
	for i := range in.Candidates {
		in.Candidates[i].ActivePrefill = int64(10 - i)
	}
	p, err := KV().Pick(in)
	require.NoError(t, err)
	assert.Equal(t, 3, p.Index)
}

func TestKVTiesAreUniform(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(16), ISL: 10, TrackPrefill: true, Candidates: idle(12), Rand: seeded(2)}
	want := make([]float64, 12)
	for i := range in.Candidates {
		if in.Candidates[i].PotentialBlocks = 2; i%3 == 1 || i == 11 {
			in.Candidates[i].PotentialBlocks, want[i] = 1, 0.2
		}
	}
	// Four degrees of freedom: above 23.5 once in 10,000.
	assert.Less(t, chiSquare(t, counts(t, KV(), in, 50_000), want), 23.5)

	in.Candidates = idle(100)
	// 99 degrees of freedom: above 161 once in 10,000.
	assert.Less(t, chiSquare(t, counts(t, KV(), in, 200_000), uniform(100)), 161.0)
}

func TestKVSoftmax(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		temperature float64
		want        []float64
	}{
		// Costs 0, 50, 100 weigh 1, e^(-1/2τ), e^(-1/τ).
		{"1", 1, []float64{1, math.Exp(-0.5), math.Exp(-1)}},
		{"a half", 0.5, []float64{1, math.Exp(-1), math.Exp(-2)}},
		{"tiny", 5e-324, []float64{1, 0, 0}},
		{"huge", math.MaxFloat64, []float64{1, 1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := &Input{Params: params(10), Candidates: idle(3), TrackPrefill: true, Rand: seeded(3)}
			in.Params.Temperature = tt.temperature
			for i := range in.Candidates {
				in.Candidates[i].PotentialBlocks = int64(5 * i)
			}
			sum := tt.want[0] + tt.want[1] + tt.want[2]
			for i := range tt.want {
				tt.want[i] /= sum
			}
			// Two degrees of freedom: above 18.4 once in 10,000.
			assert.Less(t, chiSquare(t, counts(t, KV(), in, 50_000), tt.want), 18.4)
		})
	}
}

func TestKVSoftmaxEqualIsUniform(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(10), Candidates: idle(5), ISL: 7, TrackPrefill: true, Rand: seeded(4)}
	in.Params.Temperature = 1e-9
	assert.Less(t, chiSquare(t, counts(t, KV(), in, 50_000), uniform(5)), 23.5)
}

func TestKVSoftmaxPick(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(10), Candidates: idle(3), TrackPrefill: true, Rand: seeded(5)}
	in.Params.Temperature = 10
	for i := range in.Candidates {
		in.Candidates[i].PotentialBlocks = int64(5 * i)
	}
	wantUp := []float64{50, 0, 0}
	for range 100 {
		p, err := KV().Pick(in)
		require.NoError(t, err)
		assert.Equal(t, Pick{Index: p.Index, Cost: float64(50 * p.Index), RunnerUp: wantUp[p.Index], Exact: true}, p)
	}
	assert.GreaterOrEqual(t, cap(in.Scratch), 3, "kept for the next pick")
}

// Costs at both ends of the range must not make the width infinite.
func TestKVSoftmaxWidestRange(t *testing.T) {
	t.Parallel()
	costs := []float64{-math.MaxFloat64, 0, math.MaxFloat64}
	r := seeded(6)
	got := make([]int, 3)
	for range 30_000 {
		scratch := append([]float64(nil), costs...)
		got[draw(scratch, costs[0], costs[2], 1, 0, r)]++
	}
	w := []float64{1, math.Exp(-0.5), math.Exp(-1)}
	sum := w[0] + w[1] + w[2]
	assert.Less(t, chiSquare(t, got, []float64{w[0] / sum, w[1] / sum, w[2] / sum}), 18.4)
}

func TestKVNonFinite(t *testing.T) {
	t.Parallel()
	for _, temperature := range []float64{0, 1} {
		for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
			for i := range 3 {
				in := &Input{Params: params(10), ISL: 10, TrackPrefill: true, Candidates: idle(3), Rand: seeded(7)}
				in.Params.Temperature = temperature
				in.Candidates[i].Device = bad
				_, err := KV().Pick(in)
				require.ErrorIs(t, err, ErrNonFinite)
				var costErr *CostError
				require.True(t, errors.As(err, &costErr))
				assert.Equal(t, in.Candidates[i].Rank, costErr.Rank)
				assert.False(t, finite(costErr.Cost))
			}
		}
	}
	err := &CostError{Rank: lifecycle.RankID{Worker: 7, Rank: 2}, Cost: math.Inf(1)}
	assert.EqualError(t, err, "selector: non-finite cost: +Inf on rank 7/2")
}

func TestKVConfirm(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(10), ISL: 10, TrackPrefill: true, Candidates: idle(3), Rand: seeded(8)}
	in.Candidates[0].ActivePrefill = 20 // costs 30
	in.Candidates[1].ActivePrefill = 5  // costs 15
	in.Candidates[2].ActivePrefill = 40
	s := KV().(Confirmer)
	p, err := KV().Pick(in)
	require.NoError(t, err)
	require.Equal(t, Pick{Index: 1, Cost: 15, RunnerUp: 30}, p)

	fresh := in.Candidates[1]
	fresh.Version++
	assert.True(t, s.Confirm(in, p, fresh), "the version is nothing to a least cost")
	fresh.ActivePrefill = 20
	assert.True(t, s.Confirm(in, p, fresh), "equal still stands")
	fresh.ActivePrefill = 21
	assert.False(t, s.Confirm(in, p, fresh))
	fresh.ActivePrefill, fresh.Device = 0, math.NaN()
	assert.False(t, s.Confirm(in, p, fresh))
	fresh.Device = math.Inf(-1)
	alone := Pick{Index: 0, RunnerUp: math.Inf(1)}
	assert.False(t, s.Confirm(in, alone, fresh), "an infinite cost is no choice even for one alone")

	in.Params.Temperature = 1
	p, err = KV().Pick(in)
	require.NoError(t, err)
	fresh = in.Candidates[p.Index]
	assert.True(t, s.Confirm(in, p, fresh))
	fresh.Version++
	assert.False(t, s.Confirm(in, p, fresh), "a draw is bound to what was read")
}

// The least active prefill is taken as read, though the chosen rank is now below.
func TestKVConfirmBelowLeast(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(10), ISL: 100, TrackPrefill: true, Candidates: idle(2), LeastPrefill: 100}
	in.Params.CreditDecay = 1
	in.Candidates[0].ActivePrefill, in.Candidates[0].Device = 100, 5
	in.Candidates[1].ActivePrefill = 100
	p, err := KV().Pick(in)
	require.NoError(t, err)
	require.Equal(t, 0, p.Index)
	fresh := in.Candidates[0]
	fresh.ActivePrefill = 0
	assert.True(t, KV().(Confirmer).Confirm(in, p, fresh))
}
