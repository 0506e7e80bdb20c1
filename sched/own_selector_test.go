package sched_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Whatever a selector of one's own does wrong is a typed error of that request
// alone, for all doors, and the id is free again.
func TestMisbehavingSelectorIsATypedError(t *testing.T) {
	t.Parallel()
	cost := func(cost float64) selector.Selector {
		return pickFunc(func(*selector.Input) (selector.Pick, error) { return selector.Pick{Index: 1, Cost: cost}, nil })
	}
	score := func(score float64) selector.Selector {
		return selector.Compose(selector.Policy{Score: func(_ *selector.Input, i int) float64 { return float64(i) * score }})
	}
	second := sched.RankID{Worker: 2}
	for name, test := range map[string]struct {
		selector selector.Selector
		code     error
		says     string
		rank     *sched.RankID
	}{
		"NaN":             {cost(math.NaN()), sched.ErrSelector, "cost NaN: must be finite", &second},
		"infinite":        {cost(math.Inf(-1)), sched.ErrSelector, "cost -Inf: must be finite", &second},
		"NaN score":       {score(math.NaN()), sched.ErrSelector, "cost NaN: must be finite", &sched.RankID{Worker: 1}},
		"infinite score":  {score(math.Inf(1)), sched.ErrSelector, "must be finite", nil}, // 0·∞ is the first
		"unknown rank":    {pickFunc(func(*selector.Input) (selector.Pick, error) { return selector.Pick{Index: 2}, nil }), sched.ErrSelector, "candidate 2 of 2", nil},
		"negative":        {pickFunc(func(*selector.Input) (selector.Pick, error) { return selector.Pick{Index: -1}, nil }), sched.ErrSelector, "candidate -1 of 2", nil},
		"panic":           {pickFunc(func(*selector.Input) (selector.Pick, error) { panic("boom") }), sched.ErrSelector, "boom", nil},
		"nil dereference": {pickFunc(nil), sched.ErrSelector, "nil pointer", nil},
		"error":           {pickFunc(func(*selector.Input) (selector.Pick, error) { return selector.Pick{}, errFixture }), sched.ErrSelector, "fixture", nil},
		"cuts its input": {pickFunc(func(in *selector.Input) (selector.Pick, error) {
			in.Candidates = append(in.Candidates, in.Candidates...)
			return selector.Pick{Index: 3}, nil
		}), sched.ErrSelector, "candidate 3 of 2", nil},
		"panicking filter":   {selector.Compose(selector.Policy{Filter: func(*selector.Input, int) bool { panic("filter") }}), sched.ErrSelector, "filter", nil},
		"wants none":         {selector.Compose(selector.Policy{Filter: func(*selector.Input, int) bool { return false }}), sched.ErrNoEndpoints, "wants none of 2", nil},
		"picks out of range": {selector.Compose(selector.Policy{Pick: func(*selector.Input, []float64) int { return 9 }}), sched.ErrSelector, "candidate 9 of 2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, profile := range []string{"", queueing, mixed} {
				config := sched.Config{}
				if profile != "" {
					config.Profile = policyOf(t, profile)
				}
				s := newScheduler(t, config)
				addWorkers(t, s, 2)
				require.NoError(t, s.SetSelector(test.selector))
				check := func(err error) {
					t.Helper()
					require.ErrorIs(t, err, test.code)
					require.ErrorContains(t, err, test.says)
					var detail *sched.Error
					require.ErrorAs(t, err, &detail)
					if test.rank != nil {
						require.True(t, detail.HasRank)
						require.Equal(t, *test.rank, sched.RankID{Worker: detail.Worker, Rank: detail.Rank})
					}
				}
				r := &sched.Request{ID: "r", ISL: 10}
				_, err := s.Schedule(t.Context(), r)
				check(err)
				_, err = s.Query(t.Context(), r)
				check(err)
				_, err = s.Select(t.Context(), r)
				check(err)
				check(s.Do(t.Context(), r, func(context.Context, *sched.Booking) error { return nil }))
				half := &sched.Request{ID: "half", ISL: 10, Class: "half"} // with a busy_worker_ratio, all ranks are locked
				_, err = s.Schedule(t.Context(), half)
				check(err)
				e, err := s.Explain(r)
				require.NoError(t, err)
				require.Equal(t, sched.OutcomeRefused, e.Outcome)
				check(e.Err)
				require.NotEmpty(t, e.String())

				require.NoError(t, s.SetSelector(nil))
				require.NoError(t, schedule(t, s, *r).Release())
				requireIdle(t, s)
			}
		})
	}
}

var errFixture = errors.New("fixture")

// It harms nobody in line with it either: who waits before and behind the one it
// fails gets its turn.
func TestMisbehavingSelectorInLine(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() (selector.Pick, error){
		"panics": func() (selector.Pick, error) { panic("boom") },
		"NaN":    func() (selector.Pick, error) { return selector.Pick{Cost: math.NaN()}, nil },
		"fails":  func() (selector.Pick, error) { return selector.Pick{}, errFixture },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &decisions{}
			s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), Selector: declared{
				needs: selector.NeedsRequest,
				pick: func(in *selector.Input) (selector.Pick, error) {
					if in.Request.ID == "bad" {
						return fail()
					}
					return selector.Pick{}, nil
				},
			}}, sched.WithDecisionHook(d.hook))
			addWorkers(t, s, 1)
			first := schedule(t, s, sched.Request{ID: "first", ISL: 10})
			ended := make(map[string]chan error)
			for _, id := range []string{"before", "bad", "behind"} {
				ended[id] = make(chan error, 1)
				go func() {
					b, err := s.Schedule(withTimeout(t), &sched.Request{ID: id, ISL: 10})
					if err == nil {
						err = b.Release()
					}
					ended[id] <- err
				}()
				require.Equal(t, sched.DecisionQueued, (<-d.of(id)).Kind)
			}
			require.NoError(t, first.Release())
			require.NoError(t, <-ended["before"])
			require.ErrorIs(t, <-ended["bad"], sched.ErrSelector)
			require.NoError(t, <-ended["behind"])
			requireIdle(t, s)
		})
	}
}

// One that scribbles over its input, or keeps it, changes nothing that is decided
// by.
func TestSelectorCannotBreakItsInput(t *testing.T) {
	t.Parallel()
	var kept []selector.Candidate
	s := newScheduler(t, sched.Config{Selector: pickFunc(func(in *selector.Input) (selector.Pick, error) {
		in.Candidates[0], in.Candidates[1] = in.Candidates[1], in.Candidates[0]
		for i := range kept {
			kept[i] = selector.Candidate{Requests: -5}
		}
		kept = in.Candidates
		in.Workers[1].Taints()[0] = "changed"
		return selector.Pick{Index: 1}, nil
	})})
	for id := range uint64(3) {
		require.NoError(t, s.UpsertWorker(sched.Worker{ID: id + 1, Ranks: 1, Taints: []string{"t"}, Endpoint: fmt.Sprint("host-", id+1)}))
	}
	for i := range 4 {
		b := schedule(t, s, sched.Request{
			ID: fmt.Sprint(i), ISL: 100, Blocks: []uint64{1, 2}, RequiredTaints: []string{"t"},
			Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 2}, Device: 2}, {Rank: sched.RankID{Worker: 1}, Device: 1}},
		})
		p := b.Placement()
		require.Equal(t, sched.RankID{Worker: 2}, p.Rank)
		require.Equal(t, "host-2", p.Endpoint)
		require.EqualValues(t, 32, p.CachedTokens)
		require.EqualValues(t, 2, p.PotentialDecodeBlocks)
	}
	require.EqualValues(t, 4, s.Loads()[1].Requests)
}

// declared is a selector of one's own that says what it reads.
type declared struct {
	needs selector.Needs
	pick  func(*selector.Input) (selector.Pick, error)
}

func (d declared) Needs() selector.Needs                          { return d.needs }
func (d declared) Pick(in *selector.Input) (selector.Pick, error) { return d.pick(in) }

// A selector sees just what it declares, and its bookings have the rest all the
// same.
func TestSelectorSeesWhatItNeeds(t *testing.T) {
	t.Parallel()
	rank := sched.RankID{Worker: 1}
	facts := selector.Facts{ID: "r", Class: "c", Priority: 3, ExpectedOSL: 9, Blocks: []uint64{1, 2, 3}}
	for _, n := range []int{1, 200} { // with and without the index of loads
		for needs := range selector.NeedsAll + 1 {
			if needs == 0 {
				needs = selector.NeedsNothing
			}
			var seen selector.Input
			s := newScheduler(t, sched.Config{Selector: declared{needs, func(in *selector.Input) (selector.Pick, error) {
				seen = *in
				seen.Candidates = append([]selector.Candidate(nil), in.Candidates...)
				seen.Workers = append([]selector.Worker(nil), in.Workers...)
				return selector.Pick{}, nil
			}}})
			addWorkers(t, s, n)
			require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Taints: []string{"b", "a"}, Endpoint: "e", MaxBatchedTokens: 7, TotalKVBlocks: 8}))
			schedule(t, s, sched.Request{ID: "hold", ISL: 50, Blocks: []uint64{1, 2}, Pin: &rank})
			b := schedule(t, s, sched.Request{
				ID: "r", ISL: 100, Class: "c", Priority: 3, ExpectedOSL: 9, Blocks: []uint64{1, 2, 3},
				Overlaps: []sched.Overlap{{Rank: rank, Device: 1, Host: 2, Disk: 4}}, PreferredTaints: map[string]float64{"a": 0.5},
			})
			require.EqualValues(t, 100, seen.ISL)
			require.Len(t, seen.Candidates, n)
			c := seen.Candidates[0]
			require.Equal(t, rank, c.Rank)
			ifNeeded := func(need selector.Needs, want, zero, got any) {
				t.Helper()
				if needs.Has(need) {
					require.Equal(t, want, got)
				} else {
					require.Equal(t, zero, got)
				}
			}
			ifNeeded(selector.NeedsLoad, []int64{50, 2, 1}, []int64{0, 0, 0}, []int64{c.ActivePrefill, c.ActiveBlocks, c.Requests})
			ifNeeded(selector.NeedsLoad, true, false, c.Version != 0)
			ifNeeded(selector.NeedsBlocks, int64(3), int64(0), c.PotentialBlocks)
			ifNeeded(selector.NeedsCache, []float64{1, 2, 4}, []float64{0, 0, 0}, []float64{c.Device, c.Host, c.Disk})
			ifNeeded(selector.NeedsTaints, 0.5, 0.0, c.TaintWeight)
			ifNeeded(selector.NeedsWorkers, n, 0, len(seen.Workers))
			if needs.Has(selector.NeedsWorkers) {
				w := seen.Workers[0]
				require.Equal(t, []string{"a", "b"}, w.Taints())
				require.True(t, w.HasTaint("b"))
				require.Equal(t, []any{"e", int64(7), int64(8)}, []any{w.Endpoint, w.MaxBatchedTokens, w.TotalKVBlocks})
			}
			ifNeeded(selector.NeedsRequest, facts, selector.Facts{}, seen.Request)

			p := b.Placement()
			require.Equal(t, sched.Overlap{Rank: rank, Device: 1, Host: 2, Disk: 4}, p.Overlap)
			require.EqualValues(t, 56, p.CachedTokens)
			require.EqualValues(t, 3, p.PotentialDecodeBlocks)
			e, err := s.Explain(&sched.Request{ISL: 100, Blocks: []uint64{1, 2, 3}})
			require.NoError(t, err)
			require.EqualValues(t, 3, e.Ranks[0].PotentialBlocks)
		}
	}
}

// The load of a rank is looked at again before it is booked only for a selector
// that looks at loads.
func TestSelectorThatNeedsNoLoadIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for needs, want := range map[selector.Needs]int{
		selector.NeedsNothing: 1, selector.NeedsCache: 1, selector.NeedsRequest | selector.NeedsWorkers: 1,
		selector.NeedsLoad: 2, selector.NeedsBlocks: 2, selector.NeedsAll: 2,
	} {
		asked := 0
		var s *sched.Scheduler
		s = newScheduler(t, sched.Config{Selector: declared{needs, func(*selector.Input) (selector.Pick, error) {
			if asked++; asked == 1 {
				if err := s.AddOutputBlock("hold", 0); err != nil { // moves the rank's version
					return selector.Pick{}, err
				}
			}
			return selector.Pick{}, nil
		}}})
		addWorkers(t, s, 1)
		schedule(t, s, sched.Request{ID: "hold", ISL: 50, Blocks: []uint64{1}, Pin: &sched.RankID{Worker: 1}})
		b := schedule(t, s, sched.Request{ID: "r", ISL: 10, Blocks: []uint64{1, 2}})
		require.Equal(t, want, asked, "needs %b", needs)
		require.EqualValues(t, 3, b.Placement().PotentialDecodeBlocks) // two live, one more
	}
}

// A slow selector holds up those who wait in line with it, and nobody else: not
// who is on the fast path, who never queues, who only looks, nor any lifecycle
// call; and who waits can leave.
func TestSlowSelectorHoldsUpItsLineOnly(t *testing.T) {
	t.Parallel()
	entered, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d := &decisions{}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, mixed), Selector: declared{
		needs: selector.NeedsRequest,
		pick: func(in *selector.Input) (selector.Pick, error) {
			if in.Request.ID == "slow" {
				once.Do(func() { close(entered) })
				<-goOn
			}
			return selector.Pick{}, nil
		},
	}}, sched.WithDecisionHook(d.hook))
	addWorkers(t, s, 1)
	first := schedule(t, s, sched.Request{ID: "first", ISL: 200})
	ended := map[string]chan error{}
	leave := map[string]context.CancelFunc{}
	stand := func(id string) {
		ctx, cancel := context.WithCancel(t.Context())
		ended[id], leave[id] = make(chan error, 1), cancel
		go func() {
			_, err := s.Schedule(ctx, &sched.Request{ID: id, ISL: 10})
			ended[id] <- err
		}()
		require.Equal(t, sched.DecisionQueued, (<-d.of(id)).Kind)
	}
	stand("slow")
	stand("behind")
	stand("leaves")
	require.NoError(t, s.Settle(t.Context())) // or who came last may have the turn still
	released := make(chan error, 1)
	go func() { released <- first.PrefillDone() }() // gets the turn, and asks the selector for the slow one
	<-entered

	ctx := withTimeout(t)
	never, err := s.Schedule(ctx, &sched.Request{ID: "never", ISL: 10, Class: "never"})
	require.NoError(t, err)
	require.NoError(t, never.AddOutputBlock())
	require.NoError(t, never.Release())
	_, err = s.Select(ctx, &sched.Request{ISL: 10})
	require.NoError(t, err)
	_, err = s.Explain(&sched.Request{ISL: 10})
	require.NoError(t, err)
	require.NoError(t, first.Release())
	addWorkers(t, s, 2)
	require.EqualValues(t, 3, s.Stats().Waiting)
	leave["leaves"]()
	require.ErrorIs(t, <-ended["leaves"], sched.ErrCanceled)
	require.Len(t, s.Snapshot(9).Classes[0].Heads, 2)
	_, err = s.Schedule(ctx, &sched.Request{ID: "invalid", ISL: -1})
	require.ErrorIs(t, err, sched.ErrInvalid)

	close(goOn)
	require.NoError(t, <-released)
	for _, id := range []string{"slow", "behind"} {
		require.NoError(t, <-ended[id])
		leave[id]()
		require.NoError(t, s.Release(id, 0))
	}
	requireIdle(t, s)
}

// A policy that does not say what it reads, reads what is there.
func TestPolicyWithoutNeedsSeesTheLoad(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{Selector: selector.Compose(selector.Policy{
		Score: func(in *selector.Input, i int) float64 { return float64(in.Candidates[i].Requests) },
	})})
	addWorkers(t, s, 4)
	used := map[sched.RankID]bool{}
	for i := range 4 {
		used[schedule(t, s, sched.Request{ID: fmt.Sprint(i), ISL: 100}).Placement().Rank] = true
	}
	require.Len(t, used, 4)
}

// A selector may go by the request alone: here a session, the part of the id
// before the stroke, has its rank by rendezvous hashing, and no load is looked at.
func TestSelectorByTheRequest(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{Selector: selector.Compose(selector.Policy{
		Name: "sessions", Needs: selector.NeedsRequest,
		Score: func(in *selector.Input, i int) float64 {
			name, _, _ := strings.Cut(in.Request.ID, "/")
			h := fnv.New64a()
			_, _ = fmt.Fprint(h, name, in.Candidates[i].Rank)
			return float64(h.Sum64())
		},
	})})
	addWorkers(t, s, 5)
	used := map[sched.RankID]bool{}
	for session := range 20 {
		ranks := map[sched.RankID]bool{}
		for turn := range 5 {
			rank := schedule(t, s, sched.Request{ID: fmt.Sprint(session, "/", turn), ISL: 100}).Placement().Rank
			ranks[rank], used[rank] = true, true
		}
		require.Len(t, ranks, 1)
	}
	require.Greater(t, len(used), 2)
	e, err := s.Explain(&sched.Request{ID: "3/9", ISL: 1})
	require.NoError(t, err)
	require.Equal(t, "sessions", e.Selector)
	require.Equal(t, "it has the least score", e.Why)
	for _, x := range e.Ranks {
		require.NotNil(t, x.Score)
		require.Equal(t, x.Chosen, x.Chance == 1)
	}
}

// A selector of one's own: filter, score, pick. This one keeps long prompts off
// small workers and then goes by what is cached.
func ExampleConfig_ownSelector() {
	policy := selector.Policy{
		Name:  "long prompts to big workers",
		Needs: selector.NeedsWorkers | selector.NeedsCache, // nothing else is looked up
		Filter: func(in *selector.Input, i int) bool {
			return in.ISL <= 8192 || in.Workers[i].HasTaint("big")
		},
		Score: func(in *selector.Input, i int) float64 {
			return -in.Candidates[i].Device // lower is better: the most cached first
		},
	}
	s, _ := sched.New(sched.Config{BlockSize: 16, Selector: selector.Compose(policy)})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.UpsertWorker(sched.Worker{ID: 2, Ranks: 1, Taints: []string{"big"}})

	cached := []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 4}}
	short, _ := s.Select(context.Background(), &sched.Request{ISL: 1000, Overlaps: cached})
	long, _ := s.Select(context.Background(), &sched.Request{ISL: 100_000, Overlaps: cached})
	fmt.Println(short.Rank, long.Rank)
	_ = s.RemoveWorker(2)
	_, err := s.Select(context.Background(), &sched.Request{ISL: 100_000})
	fmt.Println(errors.Is(err, sched.ErrNoEndpoints))
	// Output:
	// 1/0 2/0
	// true
}
