package selector

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func byRequests(in *Input, i int) float64 { return float64(in.Candidates[i].Requests) }

func notBusy(in *Input, i int) bool { return in.Candidates[i].Requests < 5 }

func TestComposedPicksTheLeastOfThoseThatPass(t *testing.T) {
	t.Parallel()
	s := Compose(Policy{Name: "mine", Needs: NeedsLoad, Filter: notBusy, Score: func(in *Input, i int) float64 { return -byRequests(in, i) }})
	in := &Input{Candidates: withRequests(9, 1, 4, 4, 7), Rand: noRand{t}, Params: Params{Ties: TiesLowest}}
	p, err := s.Pick(in)
	require.NoError(t, err)
	require.Equal(t, 2, p.Index)
	require.Equal(t, -4.0, p.Cost)
	require.Equal(t, -4.0, p.RunnerUp)
	require.Equal(t, NeedsLoad, NeedsOf(s))
	require.Equal(t, "mine", Name(s))
	require.Equal(t, "policy", Name(Compose(Policy{})))
	require.False(t, Builtin(s))
	require.Equal(t, LoadOther, LoadOf(s))
	scores := make([]float64, 5)
	s.(Scorer).Scores(in, scores)
	require.True(t, math.IsNaN(scores[0]) && math.IsNaN(scores[4]))
	require.Equal(t, []float64{-1, -4, -4}, scores[1:4])
}

func TestAllocsOfComposed(t *testing.T) {
	s := Compose(Policy{Filter: notBusy, Score: byRequests})
	for _, temperature := range []float64{0, 0.5} {
		in := &Input{Candidates: withRequests(9, 1, 4), Rand: seeded(1), Params: Params{Temperature: temperature}}
		_, err := s.Pick(in) // makes room
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = s.Pick(in) }))
	}
}

// Ties, chance and temperature are as they are for the library's own.
func TestComposedDrawsAsItsChancesSay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy      Policy
		temperature float64
		requests    []int64
		want        []float64 // nil: as Chances says
	}{
		{Policy{}, 0, []int64{1, 2, 3}, uniform(3)},
		{Policy{}, 0.5, []int64{1, 2, 3}, uniform(3)},
		{Policy{Filter: notBusy}, 0, []int64{9, 2, 3}, []float64{0, 0.5, 0.5}},
		{Policy{Filter: notBusy}, 2, []int64{9, 2, 3}, []float64{0, 0.5, 0.5}},
		{Policy{Filter: notBusy, Score: byRequests}, 0, []int64{9, 2, 3, 2}, []float64{0, 0.5, 0, 0.5}},
		{Policy{Filter: notBusy, Score: byRequests}, 0.5, []int64{9, 2, 3, 4, 8}, nil},
		{Policy{Filter: notBusy, Score: byRequests}, 0.5, []int64{9, 2, 9}, []float64{0, 1, 0}},
		{Policy{Score: byRequests}, 0.3, []int64{0, 1, 2}, nil},
	} {
		s := Compose(test.policy)
		in := &Input{Candidates: withRequests(test.requests...), Rand: seeded(5), Params: Params{Temperature: test.temperature}}
		chances := make([]float64, len(test.requests))
		require.True(t, Chances(s, in, chances))
		if test.want != nil {
			require.InDeltaSlice(t, test.want, chances, 1e-12)
		}
		require.Less(t, chiSquare(t, counts(t, s, in, 20_000), chances), 40.0, "%+v: %v", test, chances)
	}
}

// A composed policy with the score of KV is KV.
func TestComposedCanBeKV(t *testing.T) {
	t.Parallel()
	s := Compose(Policy{Needs: NeedsAll, Score: func(in *Input, i int) float64 { return Cost(in, &in.Candidates[i]) }})
	r := seeded(6)
	for range 500 {
		in := anyInput(r, 1+r.IntN(6))
		in.Params.Ties = TiesLowest
		want, err := KV().Pick(in)
		require.NoError(t, err)
		got, err := s.Pick(in)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestComposedMisbehaves(t *testing.T) {
	t.Parallel()
	in := &Input{Candidates: withRequests(1, 2, 9)}
	for name, cost := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1)} {
		s := Compose(Policy{Score: func(_ *Input, i int) float64 { return [...]float64{0, cost, 0}[i] }})
		_, err := s.Pick(in)
		var costErr *CostError
		require.ErrorAs(t, err, &costErr, name)
		require.Equal(t, in.Candidates[1].Rank, costErr.Rank)
		require.Equal(t, math.IsNaN(cost), math.IsNaN(costErr.Cost))
		require.False(t, Chances(s, in, make([]float64, 3)))
	}
	none := Compose(Policy{Name: "picky", Filter: func(*Input, int) bool { return false }})
	_, err := none.Pick(in)
	require.ErrorIs(t, err, ErrNoCandidates)
	require.ErrorContains(t, err, "picky")
	require.False(t, Chances(none, in, make([]float64, 3)))
	_, err = none.Pick(&Input{})
	require.ErrorIs(t, err, ErrNoCandidates)

	for _, index := range []int{-1, 3, 2} { // the last is filtered out
		s := Compose(Policy{Filter: notBusy, Pick: func(*Input, []float64) int { return index }})
		_, err := s.Pick(in)
		require.Error(t, err)
		require.False(t, errors.Is(err, ErrNoCandidates))
	}
	panics := Compose(Policy{Score: func(*Input, int) float64 { panic("no") }})
	require.False(t, Chances(panics, in, make([]float64, 3)))
}

// The policy's own step to pick gets the scores, and is held to them.
func TestComposedWithItsOwnPick(t *testing.T) {
	t.Parallel()
	in := &Input{Candidates: withRequests(1, 9, 3)}
	s := Compose(Policy{Filter: notBusy, Score: byRequests, Pick: func(in *Input, scores []float64) int {
		require.True(t, math.IsNaN(scores[1]))
		return len(in.Candidates) - 1
	}})
	p, err := s.Pick(in)
	require.NoError(t, err)
	require.Equal(t, Pick{Index: 2, Cost: 3, RunnerUp: math.Inf(1), Exact: true}, p)
	require.False(t, Chances(s, in, make([]float64, 3)))
	require.Equal(t, "the selector chose it", Why(struct{ Selector }{}, &Params{}, 1))
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	require.Equal(t, NeedsAll, NeedsOf(struct{ Selector }{}))
	require.Equal(t, NeedsAll, NeedsOf(Compose(Policy{Score: byRequests})), "what is not said is not left out")
	require.Equal(t, NeedsNothing, NeedsOf(Compose(Policy{Needs: NeedsNothing})))
	for _, some := range []Needs{NeedsLoad, NeedsBlocks, NeedsCache, NeedsTaints, NeedsWorkers, NeedsRequest} {
		require.True(t, NeedsAll.Has(some))
		require.False(t, NeedsNothing.Has(some))
	}
	require.Equal(t, NeedsNothing, NeedsOf(Random()))
	require.Equal(t, NeedsLoad, NeedsOf(LeastLoaded()))
	require.True(t, NeedsOf(KV()).Has(NeedsLoad|NeedsBlocks|NeedsCache))
	require.False(t, NeedsOf(KV()).Has(NeedsLoad|NeedsWorkers))
	w := NewWorker("b", "a")
	require.True(t, w.HasTaint("a"))
	require.False(t, w.HasTaint("c"))
	taints := w.Taints()
	taints[0] = "changed"
	require.Equal(t, []string{"a", "b"}, w.Taints())
}
