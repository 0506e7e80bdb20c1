package sched_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Many bookings that leave for a decode pool at once, from one rank or from many, are
// spread over it: each looks, chooses and moves in one step.
func TestTransferToBestSpreads(t *testing.T) {
	t.Parallel()
	const ranks, each = 8, 8
	for _, how := range []struct {
		sel  selector.Selector
		from uint32 // ranks of the worker that they leave
	}{{selector.KV(), 1}, {selector.LeastLoaded(), 1}, {selector.KV(), ranks * each}} {
		s := newScheduler(t, sched.Config{Role: selector.RoleDecode, RequestWeight: 1, Selector: how.sel})
		var decode []uint64
		for id := range uint64(ranks) {
			require.NoError(t, s.UpsertWorker(sched.Worker{ID: id + 1, Ranks: 1}))
			decode = append(decode, id+1)
		}
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: 100, Ranks: how.from}))
		for range 20 {
			var moved sync.WaitGroup
			start := make(chan struct{})
			for i := range ranks * each {
				b := schedule(t, s, sched.Request{
					ID: fmt.Sprint(i), ISL: 100, NoPrefillTracking: true, Blocks: []uint64{uint64(i + 1)},
					Pin: &sched.RankID{Worker: 100, Rank: uint32(i) % how.from},
				})
				moved.Go(func() {
					<-start
					_, err := b.TransferToBest(decode)
					assert.NoError(t, err)
				})
			}
			close(start)
			moved.Wait()
			for _, l := range s.Loads() {
				if l.Rank.Worker == 100 {
					require.Zero(t, l.Requests)
				} else {
					require.EqualValues(t, each, l.Requests, "rank %v", l.Rank)
				}
			}
			for i := range ranks * each {
				require.NoError(t, s.Release(fmt.Sprint(i), 0))
			}
		}
		requireIdle(t, s)
	}
}

// What holds of a request for the transfer to the best rank, and what does not.
func TestTransferToBest(t *testing.T) {
	t.Parallel()
	two, three := sched.RankID{Worker: 2}, sched.RankID{Worker: 3}
	for name, tt := range map[string]struct {
		request sched.Request
		prepare func(t *testing.T, s *sched.Scheduler)
		allowed []uint64
		to      uint64 // 0: an error
		err     error
	}{
		"the least loaded":               {request: sched.Request{Pin: &two}, to: 3},
		"preference does not hold":       {request: sched.Request{Prefer: &two}, to: 3},
		"the allowed of this call":       {request: sched.Request{Allowed: []uint64{2}}, allowed: []uint64{1, 4}, to: 1},
		"those of the request":           {request: sched.Request{Allowed: []uint64{1, 2}}, to: 1},
		"nobody is allowed":              {request: sched.Request{Pin: &two}, allowed: []uint64{}, err: sched.ErrNoEndpoints},
		"the excluded":                   {request: sched.Request{Pin: &two, Excluded: []uint64{3}}, to: 1},
		"the required taints":            {request: sched.Request{RequiredTaints: []string{"gpu"}}, to: 1},
		"the preferred taints":           {request: sched.Request{Pin: &two, PreferredTaints: map[string]float64{"gpu": 3}}, to: 1},
		"cached where it goes":           {request: sched.Request{Pin: &two, Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 60}}}, to: 1},
		"a credit of its own":            {request: sched.Request{Pin: &two, OverlapCredit: new(float64), Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 60}}}, to: 3},
		"its own rank is best":           {request: sched.Request{Pin: &three}, err: sched.ErrUnchanged},
		"its own rank, but for it":       {request: sched.Request{Pin: &three, ISL: 5000}, err: sched.ErrUnchanged},
		"its own rank is aside":          {request: sched.Request{Pin: &three}, prepare: aside(3), to: 1},
		"all are aside":                  {request: sched.Request{Pin: &two}, prepare: aside(1, 2, 3), err: sched.ErrOverloaded},
		"its own rank is draining":       {request: sched.Request{Pin: &three}, prepare: drain(3), to: 1},
		"busy ranks, whatever the class": {request: sched.Request{Pin: &two}, allowed: []uint64{1}, to: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing)})
			require.NoError(t, s.SetWorkers([]sched.Worker{
				{ID: 1, Ranks: 1, Taints: []string{"gpu"}}, {ID: 2, Ranks: 1, Taints: []string{"gpu"}}, {ID: 3, Ranks: 1},
			}))
			r := tt.request
			r.ID = "moves"
			if r.ISL == 0 {
				r.ISL = 1000
			}
			if r.Pin == nil && r.Prefer == nil {
				r.Prefer = &two
			}
			b := schedule(t, s, r)
			// 1 and 2 are busy for the class.
			schedule(t, s, sched.Request{ID: "one", ISL: 300, Pin: &sched.RankID{Worker: 1}})
			if b.Placement().Rank != two {
				schedule(t, s, sched.Request{ID: "two", ISL: 600, Pin: &two})
			} else {
				require.NoError(t, s.UpsertWorker(sched.Worker{ID: 4, Ranks: 1}))
				schedule(t, s, sched.Request{ID: "two", ISL: 600, Pin: &sched.RankID{Worker: 4}})
				_, err := s.Transfer("two", 0, two)
				require.NoError(t, err)
				require.NoError(t, s.RemoveWorker(4))
			}
			if tt.prepare != nil {
				tt.prepare(t, s)
			}
			from, loads := b.Placement(), s.Loads()
			p, err := b.TransferToBest(tt.allowed)
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, loads, s.Loads())
				require.Equal(t, from, b.Placement())
			} else {
				require.NoError(t, err)
				require.Equal(t, tt.to, p.Rank.Worker)
				require.Greater(t, p.Attempt, from.Attempt)
				require.Equal(t, p, b.Placement())
				_, err = s.TransferToBest("moves", from.Attempt, nil)
				require.ErrorIs(t, err, sched.ErrStaleAttempt)
			}
			require.NoError(t, s.Close())
			_, err = b.TransferToBest(tt.allowed)
			if tt.err != nil {
				require.ErrorIs(t, err, tt.err)
			} else {
				require.ErrorIs(t, err, sched.ErrUnchanged, "it is where it is best")
			}
			require.NoError(t, b.Release())
			_, err = b.TransferToBest(nil)
			require.ErrorIs(t, err, sched.ErrUnchanged)
			_, err = s.TransferToBest("moves", 0, nil)
			require.ErrorIs(t, err, sched.ErrNotFound)
			require.NoError(t, s.Release("one", 0))
			require.NoError(t, s.Release("two", 0))
			requireIdle(t, s)
		})
	}
}

func aside(ids ...uint64) func(*testing.T, *sched.Scheduler) {
	return func(t *testing.T, s *sched.Scheduler) {
		for _, id := range ids {
			require.NoError(t, s.SetAside(id, 1<<60))
		}
	}
}

func drain(id uint64) func(*testing.T, *sched.Scheduler) {
	return func(t *testing.T, s *sched.Scheduler) { require.NoError(t, s.DrainWorker(id)) }
}

// A selector with a position keeps it, and one of the embedder's is asked outside the
// locks, also when other changes make every try lose its race.
func TestTransferToBestAsksTheSelector(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{Selector: selector.RoundRobin()})
	addWorkers(t, s, 3)
	b := schedule(t, s, sched.Request{ID: "moves", ISL: 10}) // on 1, so 2 is next
	for range 2 {
		p, err := b.TransferToBest(nil)
		if err == nil {
			require.EqualValues(t, 2, p.Rank.Worker)
		} else {
			require.ErrorIs(t, err, sched.ErrUnchanged)
		}
	}
	require.EqualValues(t, 2, schedule(t, s, sched.Request{ID: "next", ISL: 10}).Placement().Rank.Worker)
	require.NoError(t, s.Release("next", 0))
	require.NoError(t, b.Release())

	asked := 0
	require.NoError(t, s.SetSelector(pickFunc(func(in *selector.Input) (selector.Pick, error) {
		asked++
		// Whatever it chose, the rank's load changes before it is booked there.
		require.NoError(t, s.AddOutputBlock("other", 0))
		return selector.Pick{Index: len(in.Candidates) - 1}, nil
	})))
	_, err := s.Schedule(t.Context(), &sched.Request{ID: "moves", ISL: 10, Pin: &sched.RankID{Worker: 1}})
	require.NoError(t, err)
	_, err = s.Schedule(t.Context(), &sched.Request{ID: "other", ISL: 10, Pin: &sched.RankID{Worker: 3}})
	require.NoError(t, err)
	p, err := s.TransferToBest("moves", 0, nil)
	require.NoError(t, err)
	require.EqualValues(t, 3, p.Rank.Worker)
	require.Greater(t, asked, 1)
	require.NoError(t, s.Release("moves", 0))
	require.NoError(t, s.Release("other", 0))
	requireIdle(t, s)
}
