package selector

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var builtins = []struct {
	name        string
	new         func() Selector
	temperature float64
}{
	{"kv", KV, 0},
	{"kv-softmax", KV, 0.5},
	{"round-robin", RoundRobin, 0},
	{"random", Random, 0},
	{"power-of-two", PowerOfTwo, 0},
	{"least-loaded", LeastLoaded, 0},
}

// pool returns n candidates under a mixed load, with the overlap of few.
func pool(n int) []Candidate {
	r := seeded(uint64(n))
	cs := idle(n)
	for i := range cs {
		c := &cs[i]
		c.ActivePrefill, c.ActiveBlocks, c.Requests = r.Int64N(4000), r.Int64N(400), r.Int64N(8)
		c.PotentialBlocks = c.ActiveBlocks + 64
		if i%8 == 0 {
			c.Device, c.Host = float64(r.Int64N(64)), float64(r.Int64N(16))
		}
	}
	return cs
}

func TestEveryBuiltin(t *testing.T) {
	t.Parallel()
	for _, b := range builtins {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := b.new()
			_, err := s.Pick(&Input{Params: params(16)})
			require.ErrorIs(t, err, ErrNoCandidates)

			in := &Input{Params: params(16), TrackPrefill: true, ISL: 10, Candidates: idle(1), Rand: noRand{t}}
			in.Params.Temperature = b.temperature
			p, err := s.Pick(in)
			require.NoError(t, err)
			assert.Equal(t, 0, p.Index)
			assert.True(t, math.IsInf(p.RunnerUp, 1))
			assert.True(t, s.(Confirmer).Confirm(in, p, in.Candidates[0]))

			in.Candidates, in.Rand = pool(50), seeded(1)
			before := slices.Clone(in.Candidates)
			for range 200 {
				p, err = s.Pick(in)
				require.NoError(t, err)
				require.True(t, s.(Confirmer).Confirm(in, p, in.Candidates[p.Index]))
				require.False(t, p.RunnerUp < p.Cost && !p.Exact, "%+v", p)
			}
			assert.Equal(t, before, in.Candidates)
		})
	}
}

// A source that is stuck must not hang a caller nor lead out of the candidates.
func TestStuckSource(t *testing.T) {
	t.Parallel()
	for _, stuck := range []stuckRand{0, 1, math.MaxUint64} {
		for _, b := range builtins {
			in := &Input{Params: params(16), Candidates: idle(7), Rand: stuck}
			in.Params.Temperature = b.temperature
			p, err := b.new().Pick(in)
			require.NoError(t, err)
			require.True(t, p.Index >= 0 && p.Index < 7)
		}
	}
}

type stuckRand uint64

func (r stuckRand) Uint64() uint64 { return uint64(r) }

func TestLeastLoaded(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(16), Candidates: withRequests(3, 1, 2, 1, 1), Rand: seeded(2)}
	assert.Less(t, chiSquare(t, counts(t, LeastLoaded(), in, 30_000), []float64{0, 1. / 3, 0, 1. / 3, 1. / 3}), 18.4)

	in.Params.Ties, in.Rand = TiesLowest, noRand{t}
	p, err := LeastLoaded().Pick(in)
	require.NoError(t, err)
	assert.Equal(t, Pick{Index: 1, Cost: 1, RunnerUp: 1}, p)

	in.Candidates = withRequests(3, 1, 2)
	p, err = LeastLoaded().Pick(in)
	require.NoError(t, err)
	assert.Equal(t, Pick{Index: 1, Cost: 1, RunnerUp: 2}, p)
	confirmRequests(t, LeastLoaded().(Confirmer), in, p)
}

func TestPowerOfTwo(t *testing.T) {
	t.Parallel()
	// Of the six pairs of 0, 1, 2, 3 the least wins three, the next two.
	in := &Input{Params: params(16), Candidates: withRequests(2, 0, 3, 1), Rand: seeded(3)}
	got := counts(t, PowerOfTwo(), in, 60_000)
	assert.Less(t, chiSquare(t, got, []float64{1. / 6, 3. / 6, 0, 2. / 6}), 18.4)

	in.Candidates = idle(6)
	assert.Less(t, chiSquare(t, counts(t, PowerOfTwo(), in, 60_000), uniform(6)), 25.7, "equals")

	in.Candidates = withRequests(2, 1)
	p, err := PowerOfTwo().Pick(in)
	require.NoError(t, err)
	assert.Equal(t, Pick{Index: 1, Cost: 1, RunnerUp: 2}, p, "two distinct")
	confirmRequests(t, PowerOfTwo().(Confirmer), in, p)
}

// confirmRequests expects p to stand up to a runner-up of 2 requests.
func confirmRequests(t *testing.T, s Confirmer, in *Input, p Pick) {
	t.Helper()
	fresh := in.Candidates[p.Index]
	fresh.Version++
	for requests, want := range []bool{true, true, true, false} {
		fresh.Requests = int64(requests)
		assert.Equal(t, want, s.Confirm(in, p, fresh), "%d", requests)
	}
}

func TestRandom(t *testing.T) {
	t.Parallel()
	in := &Input{Params: params(16), Candidates: pool(11), Rand: seeded(4)}
	// Ten degrees of freedom: above 35.6 once in 10,000.
	assert.Less(t, chiSquare(t, counts(t, Random(), in, 60_000), uniform(11)), 35.6)
}

func TestAllocs(t *testing.T) {
	for _, b := range builtins {
		in := &Input{
			Params: params(16), ISL: 1024, TrackPrefill: true, Candidates: pool(64),
			Rand: seeded(1), Scratch: make([]float64, 64),
		}
		in.Params.Temperature = b.temperature
		in.Params.CreditDecay = 0.5
		in.Candidates[3].TaintWeight = 1
		s := b.new()
		if tracker, ok := s.(Tracker); ok {
			tracker.Booked(in, Pick{}, in.Candidates[9].Rank, true)
		}
		confirmer := s.(Confirmer)
		assert.Zero(t, testing.AllocsPerRun(200, func() {
			p, _ := s.Pick(in)
			confirmer.Confirm(in, p, in.Candidates[p.Index])
		}), b.name)
	}
}

func TestAllocsOfBooked(t *testing.T) {
	in := &Input{Params: params(16), Candidates: idle(64)}
	s := RoundRobin()
	assert.Equal(t, 1.0, testing.AllocsPerRun(200, func() {
		p, _ := s.Pick(in)
		s.(Tracker).Booked(in, p, in.Candidates[p.Index].Rank, false)
	}))
	p, _ := s.Pick(in)
	rank := in.Candidates[p.Index].Rank
	assert.True(t, s.(Tracker).Booked(in, p, rank, false))
	assert.Zero(t, testing.AllocsPerRun(200, func() {
		s.(Tracker).Booked(in, p, rank, false) // lost
		s.(Tracker).Booked(in, p, rank, true)  // stays
	}))
}

func BenchmarkPick(b *testing.B) {
	for _, s := range builtins {
		for _, n := range []int{16, 2048} {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				benchmark(b, s.new(), s.temperature, pool(n))
			})
		}
	}
	b.Run("kv-idle/2048", func(b *testing.B) { benchmark(b, KV(), 0, idle(2048)) })
}

func benchmark(b *testing.B, s Selector, temperature float64, cs []Candidate) {
	in := &Input{
		Params: params(16), ISL: 1024, TrackPrefill: true, Candidates: cs,
		Rand: seeded(1), Scratch: make([]float64, len(cs)),
	}
	in.Params.Temperature = temperature
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Pick(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRoundRobinBooked(b *testing.B) {
	s := RoundRobin()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		in := &Input{Params: params(16), Candidates: idle(16)}
		for pb.Next() {
			p, _ := s.Pick(in)
			s.(Tracker).Booked(in, p, in.Candidates[p.Index].Rank, false)
		}
	})
}
