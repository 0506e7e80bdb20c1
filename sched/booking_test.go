package sched_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

func rank(worker uint64) sched.RankID { return sched.RankID{Worker: worker} }

func TestLifecycleIsIdempotentAndAttemptsCount(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 2)
	b := schedule(t, s, sched.Request{ID: "r", ISL: 32, Blocks: []uint64{1, 2}, Pin: &sched.RankID{Worker: 1}})
	first := b.Attempt()
	require.Equal(t, "host-1", b.Placement().Endpoint)
	require.NoError(t, b.PrefillDone())
	require.ErrorIs(t, b.PrefillDone(), sched.ErrUnchanged)
	require.ErrorIs(t, s.PrefillDone("r", 0), sched.ErrUnchanged)
	_, err := b.Transfer(rank(1))
	require.ErrorIs(t, err, sched.ErrUnchanged)
	_, err = b.Transfer(rank(9))
	require.ErrorIs(t, err, sched.ErrNoEndpoints)
	p, err := b.Transfer(rank(2))
	require.NoError(t, err)
	require.Equal(t, "host-2", p.Endpoint)
	require.Greater(t, p.Attempt, first)
	require.Equal(t, p.Attempt, b.Attempt())
	require.ErrorIs(t, s.Release("r", first), sched.ErrStaleAttempt)
	require.ErrorIs(t, s.Touch("r", p.Attempt+1), sched.ErrNotFound)

	// A transfer by id leaves the handle behind.
	moved, err := s.Transfer("r", p.Attempt, rank(1))
	require.NoError(t, err)
	require.ErrorIs(t, b.Release(), sched.ErrStaleAttempt)
	require.ErrorIs(t, b.AddOutputBlock(), sched.ErrStaleAttempt)
	require.ErrorIs(t, s.AddOutputBlockWithDecay("r", 0, 2), sched.ErrInvalid)
	require.NoError(t, s.AddOutputBlockWithDecay("r", 0, 0.5))
	require.NoError(t, s.Release("r", moved.Attempt))
	require.ErrorIs(t, s.Release("r", moved.Attempt), sched.ErrNotFound)
	requireIdle(t, s)
}

// A release hits the generation that booked: the worker that came back stays at 0.
func TestRemovedWorkerComesBackEmpty(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 1)
	b := schedule(t, s, sched.Request{ID: "r", ISL: 10})
	done := b.Done()
	require.NoError(t, s.RemoveWorker(1))
	<-done
	<-b.Done()
	require.ErrorIs(t, b.Err(), sched.ErrWorkerRemoved)
	_, err := b.Worker()
	require.ErrorIs(t, err, sched.ErrWorkerRemoved)
	addWorkers(t, s, 1)
	require.ErrorIs(t, b.Release(), sched.ErrUnchanged)
	require.ErrorIs(t, s.RemoveWorker(9), sched.ErrNotFound)
	requireIdle(t, s)
	require.EqualValues(t, 1, s.Stats().Dropped)
}

func TestReclaimLeaked(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{ReclaimLeaked: true})
	addWorkers(t, s, 1)
	schedule(t, s, sched.Request{ID: "leaked", ISL: 10})
	schedule(t, s, sched.Request{ID: "detached", ISL: 10}).Detach()
	kept := schedule(t, s, sched.Request{ID: "kept", ISL: 10})
	require.Eventually(t, func() bool {
		runtime.GC()
		return s.Stats().Leaked == 1
	}, time.Minute, time.Millisecond)
	runtime.GC()
	require.EqualValues(t, 2, s.Stats().Live)
	require.NoError(t, kept.Release())
	require.NoError(t, s.Release("detached", 0))
	requireIdle(t, s)
}

func TestErrorsCarryDetails(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{Profile: policyOf(t, mixed)})
	_, err := s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 10})
	require.ErrorIs(t, err, sched.ErrNoEndpoints)
	addWorkers(t, s, 2)
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: 500, Pin: &sched.RankID{Worker: 1}})

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	nan := math.NaN()
	past := -time.Second
	for _, tt := range []struct {
		name string
		ctx  context.Context
		r    sched.Request
		want error
		text string
	}{
		{"no id", nil, sched.Request{}, sched.ErrInvalid, "id: must not be empty"},
		{"negative ISL", nil, sched.Request{ID: "x", ISL: -1}, sched.ErrInvalid, "ISL -1"},
		{"jump", nil, sched.Request{ID: "x", Jump: nan}, sched.ErrInvalid, "jump NaN"},
		{"override", nil, sched.Request{ID: "x", Temperature: &nan}, sched.ErrInvalid, "temperature NaN"},
		{"expected", nil, sched.Request{ID: "x", ExpectedPrefill: &past}, sched.ErrInvalid, "-1s"},
		{"overlap twice", nil, sched.Request{ID: "x", Overlaps: []sched.Overlap{{}, {}}}, sched.ErrInvalid, "twice"},
		{"taint weight", nil, sched.Request{ID: "x", PreferredTaints: map[string]float64{"gpu": math.Inf(1)}}, sched.ErrInvalid, "gpu"},
		{"context", cancelled, sched.Request{ID: "x"}, sched.ErrCanceled, "canceled"},
		{"due", nil, sched.Request{ID: "x", Due: time.Now().Add(-time.Second)}, sched.ErrDeadline, "due time"},
		{"pin", nil, sched.Request{ID: "x", Pin: &sched.RankID{Worker: 1}, Allowed: []uint64{2}}, sched.ErrPinNotAllowed, "1/0"},
		{"duplicate", nil, sched.Request{ID: "hold"}, sched.ErrDuplicate, "hold"},
		{"nowhere", nil, sched.Request{ID: "x", Pin: &sched.RankID{Worker: 7}}, sched.ErrNoEndpoints, "does not exist"},
		{"nobody allowed", nil, sched.Request{ID: "x", Excluded: []uint64{1}, RequiredTaints: []string{"gpu"}}, sched.ErrNoEndpoints, "2 ranks: none eligible (1 not in the allowed set or excluded, 1 lacks a required taint)"},
		{"never queues", nil, sched.Request{ID: "x", ISL: 1, Class: "never", Pin: &sched.RankID{Worker: 1}}, sched.ErrQueueFull, "limit requests"},
		{"would queue", nil, sched.Request{ID: "x", ISL: 1, DoNotQueue: true, Pin: &sched.RankID{Worker: 1}}, sched.ErrWouldQueue, "class f: 0 pending, 0 tokens, 0 cached: 1 of 1 eligible ranks are busy"},
	} {
		ctx := tt.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		_, err := s.Schedule(ctx, &tt.r)
		require.ErrorIs(t, err, tt.want, tt.name)
		require.ErrorContains(t, err, tt.text, tt.name)
		var e *sched.Error
		require.ErrorAs(t, err, &e, tt.name)
		require.Equal(t, tt.want, e.Code, tt.name)
	}
	require.NoError(t, hold.Release())
	requireIdle(t, s)
}

// The public API does not panic on what is missing.
func TestMissingArguments(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{}, sched.WithClock(nil), sched.WithRand(nil), sched.WithDecisionHook(nil),
		sched.WithOverlapRefresher(nil), sched.WithPrefillEstimator(nil))
	addWorkers(t, s, 1)
	var none context.Context
	r := &sched.Request{ID: "r"}
	for name, call := range map[string]func() error{
		"schedule no request": func() error { _, err := s.Schedule(t.Context(), nil); return err },
		"schedule no context": func() error { _, err := s.Schedule(none, r); return err },
		"query no request":    func() error { _, err := s.Query(t.Context(), nil); return err },
		"select no context":   func() error { _, err := s.Select(none, r); return err },
		"loads no request":    func() error { _, err := s.PotentialLoads(nil); return err },
		"do no function":      func() error { return s.Do(t.Context(), r, nil) },
		"do no request":       func() error { return s.Do(t.Context(), nil, nil) },
	} {
		require.ErrorIs(t, call(), sched.ErrInvalid, name)
	}
	requireIdle(t, s)
}

// Sums of tokens that exceed 64 bits come back to exactly zero.
func TestHugeRequests(t *testing.T) {
	t.Parallel()
	s := under(t, queueing, 1)
	hold := schedule(t, s, sched.Request{ID: "hold", ISL: math.MaxInt64})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			_, err := s.Schedule(ctx, &sched.Request{ID: fmt.Sprint(i), ISL: math.MaxInt64})
			assert.ErrorIs(t, err, sched.ErrCanceled)
		})
	}
	require.Eventually(t, func() bool {
		c := s.Stats().Classes[0]
		return c.Pending == 3 && c.Tokens == math.MaxInt64
	}, time.Minute, time.Millisecond)
	cancel()
	wg.Wait()
	require.NoError(t, hold.Release())
	requireIdle(t, s)
}

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	_, err := sched.New(sched.Config{BlockSize: 0, CreditDecay: -1, BookingTTL: -1, Temperature: math.Inf(1)})
	require.ErrorIs(t, err, sched.ErrInvalid)
	for _, text := range []string{"block size 0", "credit decay -1", "ttl", "temperature +Inf"} {
		require.ErrorContains(t, err, text)
	}
}

func TestInvalidWorkersChangeNothing(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 2)
	for _, workers := range [][]sched.Worker{
		{{ID: 1, Ranks: 1}, {ID: 1, Ranks: 1}},
		{{ID: 1, Ranks: 1}, {ID: 2}},
		{{ID: 3, Ranks: 1025}},
		{{ID: 3, Ranks: 1, StartRank: math.MaxUint32}},
		{{ID: 3, Ranks: 1, MaxBatchedTokens: -1}},
	} {
		err := s.SetWorkers(workers)
		require.ErrorIs(t, err, sched.ErrInvalid)
		var e *sched.Error
		require.ErrorAs(t, err, &e)
		require.True(t, e.HasWorker)
		require.Len(t, s.Loads(), 2)
	}
	require.EqualError(t, s.SetWorkers([]sched.Worker{{ID: 3}, {ID: 4, Ranks: 1}, {ID: 5, Ranks: 1, MaxBatchedTokens: -1, TotalKVBlocks: -2}, {ID: 4, Ranks: 1}}),
		"turnstile: invalid: worker 3: 0 ranks: must be 1 to 1024\n"+
			"turnstile: invalid: worker 5: max batched tokens -1: must not be negative; total KV blocks -2: must not be negative\n"+
			"turnstile: invalid: worker 4: id 4 is given twice")
}

func TestDo(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	t.Run("tries elsewhere before any output", func(t *testing.T) {
		t.Parallel()
		s := newScheduler(t, sched.Config{Ties: selector.TiesLowest})
		addWorkers(t, s, 3)
		var tried []uint64
		r := sched.Request{ID: "r", ISL: 10}
		err := s.Do(t.Context(), &r, func(_ context.Context, b *sched.Booking) error {
			w, err := b.Worker()
			require.NoError(t, err)
			tried = append(tried, w.ID)
			if len(tried) < 3 {
				return sched.RetryElsewhere(refused)
			}
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, []uint64{1, 2, 3}, tried)
		assert.Empty(t, r.Excluded, "the caller's request is left as it is")
		requireIdle(t, s)
	})
	t.Run("says both when nowhere is left", func(t *testing.T) {
		t.Parallel()
		s := newScheduler(t, sched.Config{})
		addWorkers(t, s, 2)
		err := s.Do(t.Context(), &sched.Request{ID: "r"}, func(context.Context, *sched.Booking) error {
			return sched.RetryElsewhere(refused)
		})
		require.ErrorIs(t, err, refused)
		require.ErrorIs(t, err, sched.ErrNoEndpoints)
		require.ErrorContains(t, err, "2 ranks: none eligible (2 already tried)")
		requireIdle(t, s)
	})
	t.Run("tells what was tried from what was excluded", func(t *testing.T) {
		t.Parallel()
		s := newScheduler(t, sched.Config{})
		addWorkers(t, s, 5)
		r := &sched.Request{ID: "r", Allowed: []uint64{1, 2, 3, 4}, Excluded: []uint64{2, 3}}
		err := s.Do(t.Context(), r, func(context.Context, *sched.Booking) error { return sched.RetryElsewhere(refused) })
		require.ErrorContains(t, err, "5 ranks: none eligible (2 already tried, 3 not in the allowed set or excluded)")
	})
	t.Run("never reroutes a pin", func(t *testing.T) {
		t.Parallel()
		s := newScheduler(t, sched.Config{})
		addWorkers(t, s, 2)
		calls := 0
		err := s.Do(t.Context(), &sched.Request{ID: "r", Pin: &sched.RankID{Worker: 2}},
			func(context.Context, *sched.Booking) error { calls++; return sched.RetryElsewhere(refused) })
		require.ErrorIs(t, err, refused)
		require.Equal(t, 1, calls)
		requireIdle(t, s)
	})
	t.Run("releases on error and panic", func(t *testing.T) {
		t.Parallel()
		s := newScheduler(t, sched.Config{})
		addWorkers(t, s, 1)
		err := s.Do(t.Context(), &sched.Request{ID: "r"}, func(context.Context, *sched.Booking) error { return refused })
		require.Equal(t, refused, err)
		require.PanicsWithValue(t, "boom", func() {
			_ = s.Do(t.Context(), &sched.Request{ID: "r"}, func(context.Context, *sched.Booking) error { panic("boom") })
		})
		requireIdle(t, s)
	})
}

// A cost that is not finite because of what was asked for is no choice.
func TestCostThatIsNotFinite(t *testing.T) {
	t.Parallel()
	huge := math.MaxFloat64
	s := newScheduler(t, sched.Config{PrefillScale: &huge})
	addWorkers(t, s, 2)
	_, err := s.Schedule(t.Context(), &sched.Request{ID: "r", ISL: 1000})
	require.ErrorIs(t, err, sched.ErrInvalid)
	require.ErrorIs(t, err, selector.ErrNonFinite)
}

type pickFunc func(*selector.Input) (selector.Pick, error)

func (f pickFunc) Pick(in *selector.Input) (selector.Pick, error) { return f(in) }

func TestPrefillEstimator(t *testing.T) {
	t.Parallel()
	var asked []sched.PrefillWork
	s := newScheduler(t, sched.Config{}, sched.WithPrefillEstimator(func(w sched.PrefillWork) (time.Duration, bool) {
		asked = append(asked, w)
		if w.ExpectedOSL == 13 {
			panic("unlucky")
		}
		return time.Duration(w.Tokens) * time.Millisecond, true
	}))
	addWorkers(t, s, 1)
	r := sched.Request{ID: "r", ISL: 64, ExpectedOSL: 5, Overlaps: []sched.Overlap{{Rank: rank(1), Device: 1}}}
	require.NoError(t, schedule(t, s, r).Release())
	require.Equal(t, []sched.PrefillWork{{Rank: rank(1), Tokens: 48, ISL: 64, ExpectedOSL: 5}}, asked)
	r.ExpectedOSL = 13
	require.NoError(t, schedule(t, s, r).Release())
	requireIdle(t, s)
}

func TestDecisionHook(t *testing.T) {
	t.Parallel()
	var told []string
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing)}, sched.WithDecisionHook(func(d sched.Decision) {
		told = append(told, d.Kind.String()+" "+d.Request)
		if d.Request == "panics" {
			panic("hook")
		}
	}))
	addWorkers(t, s, 1)
	a := schedule(t, s, sched.Request{ID: "a", ISL: 10})
	_, err := s.Schedule(t.Context(), &sched.Request{ID: "panics", ISL: 10, DoNotQueue: true})
	require.ErrorIs(t, err, sched.ErrWouldQueue)
	require.NoError(t, a.Release())
	_, err = s.Query(t.Context(), &sched.Request{ID: "q", ISL: 10})
	require.NoError(t, err)
	require.Equal(t, []string{"admitted a", "rejected panics", "admitted q"}, told)
}

// Every rank that could serve the request is there, also where a choice looks at
// few of them.
func TestPotentialLoadsOfEveryRank(t *testing.T) {
	t.Parallel()
	for _, sel := range []selector.Selector{selector.KV(), selector.LeastLoaded(), selector.Random()} {
		s := newScheduler(t, sched.Config{Selector: sel})
		addWorkers(t, s, 300)
		schedule(t, s, sched.Request{ID: "hold", ISL: 10, Blocks: []uint64{1}, Pin: &sched.RankID{Worker: 7}})
		loads, err := s.PotentialLoads(&sched.Request{ISL: 10, Blocks: []uint64{1, 2}})
		require.NoError(t, err)
		require.Len(t, loads, 300)
		require.EqualValues(t, 2, loads[6].PotentialDecodeBlocks)
		require.EqualValues(t, 2, loads[7].PotentialDecodeBlocks)
	}
}

func TestPotentialLoads(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 2)
	b := schedule(t, s, sched.Request{ID: "a", ISL: 32, Blocks: []uint64{1, 2}, Pin: &sched.RankID{Worker: 1}})
	loads, err := s.PotentialLoads(&sched.Request{
		ISL: 48, Blocks: []uint64{1, 2, 3}, Overlaps: []sched.Overlap{{Rank: rank(2), Device: 1}},
	})
	require.NoError(t, err)
	require.Len(t, loads, 2)
	assert.EqualValues(t, 80, loads[0].PotentialPrefillTokens)
	assert.EqualValues(t, 3, loads[0].PotentialDecodeBlocks)
	assert.EqualValues(t, 32, loads[1].PotentialPrefillTokens)
	assert.EqualValues(t, 16, loads[1].CachedTokens)
	require.NoError(t, b.Release())
}

func TestAllocationBudgets(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops at random under the race detector")
	}
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 16)
	ctx := context.Background()
	r := sched.Request{ID: "r", ISL: 100}
	// The record and its place in the id map.
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		b, _ := s.Schedule(ctx, &r)
		_ = b.Release()
	}), 2.0)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = s.Select(ctx, &r) }))
	withBlocks := sched.Request{ISL: 64, Blocks: []uint64{1, 2, 3, 4}, Overlaps: []sched.Overlap{{Rank: rank(3), Device: 2}, {Rank: rank(1), Device: 1}}}
	keep := schedule(t, s, sched.Request{ID: "keep", ISL: 64, Blocks: []uint64{1, 2, 3, 4}})
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = s.Select(ctx, &withBlocks) }))
	b := schedule(t, s, sched.Request{ID: "b", ISL: 64})
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _ = b.AddOutputBlock() }))
	require.NoError(t, b.Release())
	require.NoError(t, keep.Release())
}

// No clock is read on the fast path unless a modelled prefill decays.
func TestFastPathReadsNoClock(t *testing.T) {
	t.Parallel()
	c := &countingClock{}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing)}, sched.WithClock(c))
	addWorkers(t, s, 4)
	before := c.reads
	for i := range 4 {
		b := schedule(t, s, sched.Request{ID: fmt.Sprint(i), ISL: 10})
		require.NoError(t, b.PrefillDone())
		require.NoError(t, b.AddOutputBlock())
		require.NoError(t, b.Release())
	}
	_, err := s.Select(t.Context(), &sched.Request{ISL: 10})
	require.NoError(t, err)
	require.Equal(t, before, c.reads)
}
