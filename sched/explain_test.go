package sched_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

const explained = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: small}, {min_tokens: 300, bucket: large}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: small, quantum: 8192, prefill_busy_threshold: 512, request_queue_limit_per_worker: 1}
  - {name: long, policy_family: chat, cache_bucket: large, quantum: 500, queue_policy: wspt, prefill_busy_threshold: 200, raw_isl_token_queue_limit_per_worker: 400}
  - {name: never, quantum: 500, prefill_busy_threshold: 300, request_queue_limit_per_worker: 0}
  - {name: open, quantum: 500}
  - {name: half, quantum: 700, queue_policy: lcfs, prefill_busy_threshold: 0, busy_worker_ratio: 0.5, max_queue_age: 5}
`

// decisions is a hook that lets a test wait for what became of a request.
type decisions struct {
	mu  sync.Mutex
	log map[string]chan sched.Decision
}

func (d *decisions) of(id string) chan sched.Decision {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.log == nil {
		d.log = make(map[string]chan sched.Decision)
	}
	if d.log[id] == nil {
		d.log[id] = make(chan sched.Decision, 8)
	}
	return d.log[id]
}

func (d *decisions) hook(decision sched.Decision) { d.of(decision.Request) <- decision }

// world is a scheduler in a random state, with requests that wait.
type world struct {
	*testing.T
	*sched.Scheduler
	rand      *rand.Rand
	clock     *clock.Manual
	decisions decisions
	ids       []string // of requests that were scheduled
	next      int
	stop      context.CancelFunc
	ctx       context.Context
	waiting   sync.WaitGroup
}

func newWorld(t *testing.T, seed uint64, config sched.Config) *world {
	w := &world{T: t, rand: rand.New(rand.NewPCG(seed, 1)), clock: clock.NewManual(time.Unix(1000, 0))}
	w.ctx, w.stop = context.WithCancel(context.Background())
	if config.Profile == nil {
		config.Profile = policyOf(t, explained)
	}
	config.RequestWeight = float64(w.rand.IntN(2))
	config.CreditDecay = float64(w.rand.IntN(2))
	w.Scheduler = newScheduler(t, config, sched.WithClock(w.clock), sched.WithDecisionHook(w.decisions.hook))
	t.Cleanup(func() {
		w.stop()
		w.waiting.Wait()
		assert.NoError(t, w.Close())
	})
	return w
}

func (w *world) some(n int) []uint64 {
	ids := []uint64{}
	for id := range uint64(6) {
		if w.rand.IntN(n) == 0 {
			ids = append(ids, id+1)
		}
	}
	return ids
}

func (w *world) anyRank() *sched.RankID {
	return &sched.RankID{Worker: uint64(w.rand.IntN(6) + 1), Rank: uint32(w.rand.IntN(2))}
}

// A class that does not exist is named; a class of the matrix, which has to be
// asked for by its family, counts as unknown too.
func TestExplainNamesAnUnknownClass(t *testing.T) {
	t.Parallel()
	s := under(t, matrix, 1)
	for asked, want := range map[string][2]string{
		"": {"a-all", ""}, "a": {"a-all", ""}, "b": {"b-all", ""}, "x": {"x", ""},
		"bogus": {"a-all", "bogus"}, "b-all": {"a-all", "b-all"},
	} {
		e, err := s.Explain(&sched.Request{ISL: 1, Class: asked})
		require.NoError(t, err)
		require.Equal(t, want, [2]string{e.Line.Class, e.Line.Unknown}, asked)
		require.Equal(t, want[1] != "", strings.Contains(e.String(), "there is no class or family"))
	}
}

// matrix has two families and an explicit class.
const matrix = `
default_policy_family: a
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
- {name: a-all, policy_family: a, cache_bucket: all, quantum: 1}
- {name: b-all, policy_family: b, cache_bucket: all, quantum: 1}
- {name: x, quantum: 1}
`

// request returns a random request.
func (w *world) request() *sched.Request {
	w.next++
	r := &sched.Request{
		ID: fmt.Sprint("r", w.next), ISL: w.rand.Int64N(600), Class: []string{"", "never", "open", "half", "chat"}[w.rand.IntN(5)],
		Priority: uint32(w.rand.IntN(2)), Jump: float64(w.rand.IntN(3)), DoNotQueue: w.rand.IntN(8) == 0,
	}
	for i := range uint64(w.rand.IntN(4)) {
		r.Blocks = append(r.Blocks, 100*uint64(w.rand.IntN(2))+i)
	}
	for rank := range uint32(2) {
		for _, id := range w.some(3) {
			r.Overlaps = append(r.Overlaps, sched.Overlap{
				Rank: sched.RankID{Worker: id, Rank: rank}, Device: float64(w.rand.IntN(5)), Host: w.rand.Float64() * 5, Disk: float64(w.rand.IntN(3)),
			})
		}
	}
	switch w.rand.IntN(10) {
	case 0:
		r.Pin = w.anyRank()
	case 1:
		r.Prefer = w.anyRank()
	case 2:
		r.Allowed = w.some(2)
	case 3:
		r.Excluded = w.some(2)
	case 4:
		r.RequiredTaints = []string{"fast"}
	case 5:
		r.PreferredTaints = map[string]float64{"fast": w.rand.Float64() - 0.5}
	case 6:
		r.Pin, r.Allowed = w.anyRank(), w.some(2)
	}
	if w.rand.IntN(5) == 0 {
		r.Due = w.clock.Now().Add(time.Duration(w.rand.IntN(10)) * time.Second)
	}
	if w.rand.IntN(3) == 0 {
		d := time.Duration(w.rand.IntN(20)) * time.Second
		r.ExpectedPrefill = &d
	}
	r.NoPrefillTracking = w.rand.IntN(10) == 0
	return r
}

func (w *world) anyID() string {
	if len(w.ids) == 0 {
		return "none"
	}
	return w.ids[w.rand.IntN(len(w.ids))]
}

// move changes something.
func (w *world) move() {
	switch w.rand.IntN(16) {
	case 0:
		workers := []sched.Worker{}
		for _, id := range w.some(2) {
			worker := sched.Worker{ID: id, Ranks: uint32(1 + id%2), MaxBatchedTokens: 1000}
			if id%2 == 0 {
				worker.Taints = []string{"fast"}
			}
			workers = append(workers, worker)
		}
		require.NoError(w, w.SetWorkers(workers))
	case 1:
		require.NoError(w, w.SetOverloaded(w.some(3)))
	case 2:
		require.NoError(w, w.SetAvailable(nil))
	case 3:
		if w.rand.IntN(3) == 0 {
			require.NoError(w, w.SetAvailable(w.some(2)))
		}
	case 4:
		if id := uint64(w.rand.IntN(6) + 1); w.rand.IntN(2) == 0 {
			_ = w.DrainWorker(id)
		} else {
			_ = w.UndrainWorker(id)
		}
	case 5, 6:
		w.clock.Advance(time.Duration(w.rand.IntN(4000)) * time.Millisecond)
	case 7, 8, 9:
		_ = w.PrefillDone(w.anyID(), 0)
	case 10, 11:
		_ = w.Release(w.anyID(), 0)
	case 12:
		// A class that never queues has a backlog only from before it was one.
		profile := strings.ReplaceAll(explained, "request_queue_limit_per_worker: 0", "request_queue_limit_per_worker: "+fmt.Sprint(3*w.rand.IntN(2)))
		require.NoError(w, w.SetProfile(policyOf(w, profile)))
	}
	require.NoError(w, w.Settle(w.ctx))
}

// schedule has a request scheduled and waits until it is decided or waits.
func (w *world) schedule(r *sched.Request) (sched.Decision, error) {
	w.ids = append(w.ids, r.ID)
	w.waiting.Add(1)
	ended := make(chan error, 1)
	go func() {
		defer w.waiting.Done()
		_, err := w.Schedule(w.ctx, r)
		ended <- err
	}()
	d := <-w.decisions.of(r.ID)
	var err error
	if d.Kind != sched.DecisionQueued {
		err = <-ended
	}
	require.NoError(w, w.Settle(w.ctx))
	return d, err
}

// Whatever state the world is in: when nothing else moves, Schedule does what
// Explain says, to the words of the error.
func TestExplainSaysWhatScheduleDoes(t *testing.T) {
	t.Parallel()
	for name, sel := range map[string]func() selector.Selector{
		"kv": selector.KV, "round robin": selector.RoundRobin, "least loaded": selector.LeastLoaded,
		"power of two": selector.PowerOfTwo, "random": selector.Random,
		"one's own": func() selector.Selector { return fewestBlocks{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			met := map[string]int{}
			for seed := range uint64(12) {
				w := newWorld(t, seed, sched.Config{Selector: sel(), Ties: selector.TiesLowest})
				for range 60 {
					for range w.rand.IntN(4) {
						w.move()
					}
					r := w.request()
					e, err := w.Explain(r)
					require.NoError(t, err)
					text := e.String()
					_, err = json.Marshal(e)
					require.NoError(t, err)
					decision, err := w.schedule(r)
					met[string(e.Outcome)+" "+e.Code]++
					switch decision.Kind {
					case sched.DecisionAdmitted:
						require.Equal(t, sched.OutcomeAdmitted, e.Outcome, text)
						requireExplained(t, e, decision.Placement, text)
					case sched.DecisionQueued:
						require.Equal(t, sched.OutcomeQueued, e.Outcome, text)
						w.requireStands(r, e)
					default:
						require.Equal(t, sched.OutcomeRefused, e.Outcome, text)
						require.EqualError(t, e.Err, err.Error(), text)
						var want *sched.Error
						require.ErrorAs(t, e.Err, &want)
						require.ErrorIs(t, err, want.Code)
						require.Equal(t, want.Code.Error(), e.Code)
					}
				}
			}
			for _, want := range []string{"admitted ", "queued ", "refused queue-full", "refused would-queue", "refused no-endpoints", "refused overloaded", "refused pin-not-allowed", "refused pinned-overloaded"} {
				assert.NotZero(t, met[want], "%s was never met: %v", want, met)
			}
		})
	}
}

// A class that never queues can have a backlog: from before it was one.
func TestExplainAClassWithABacklogFromBefore(t *testing.T) {
	t.Parallel()
	d := &decisions{}
	queues := strings.ReplaceAll(explained, "request_queue_limit_per_worker: 0", "request_queue_limit_per_worker: 3")
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queues)}, sched.WithDecisionHook(d.hook))
	addWorkers(t, s, 2)
	schedule(t, s, sched.Request{ID: "busy", ISL: 400, Pin: &sched.RankID{Worker: 1}})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.Schedule(ctx, &sched.Request{ID: "waits", Class: "never", ISL: 1, Pin: &sched.RankID{Worker: 1}})
		left <- err
	}()
	require.Equal(t, sched.DecisionQueued, (<-d.of("waits")).Kind)
	require.NoError(t, s.SetProfile(policyOf(t, explained)))

	r := &sched.Request{ID: "r", Class: "never", ISL: 1, Pin: &sched.RankID{Worker: 2}}
	e, err := s.Explain(r)
	require.NoError(t, err)
	require.Equal(t, "queue-full", e.Code)
	_, err = s.Schedule(t.Context(), r)
	require.EqualError(t, err, e.Err.Error())
	leave()
	require.ErrorIs(t, <-left, sched.ErrCanceled)
}

func requireExplained(t *testing.T, e *sched.Explanation, p sched.Placement, text string) {
	t.Helper()
	for _, x := range e.Ranks {
		if x.Rank != p.Rank {
			continue
		}
		require.True(t, x.Eligible, text)
		require.Equal(t, p.CachedTokens, x.CachedTokens, text)
		require.Equal(t, p.PotentialDecodeBlocks, x.PotentialBlocks, text)
		switch {
		case !x.ChanceKnown || x.Chance == 1:
			require.Equal(t, &p.Rank, e.Rank, text)
		default:
			require.Positive(t, x.Chance, text)
		}
		return
	}
	t.Fatalf("rank %v is not explained:\n%s", p.Rank, text)
}

// requireStands compares the place that was foretold with the line.
func (w *world) requireStands(r *sched.Request, e *sched.Explanation) {
	w.Helper()
	for _, c := range w.Snapshot(math.MaxInt).Classes {
		if c.Name != e.Line.Class {
			continue
		}
		inLane := 0
		for at, waiter := range c.Heads {
			if waiter.Request == r.ID {
				require.Equal(w, at, e.Line.Ahead)
				require.Equal(w, inLane, e.Line.AheadInLane)
				require.Equal(w, e.Line.Cost, waiter.Cost)
				require.Equal(w, e.Line.Lane, waiter.Lane)
				return
			}
			if waiter.Lane == e.Line.Lane {
				inLane++
			}
		}
	}
	w.Fatalf("%s does not wait in class %s", r.ID, e.Line.Class)
}

// fewestBlocks is a selector of one's own that says what it goes by.
type fewestBlocks struct{}

func (fewestBlocks) Pick(in *selector.Input) (selector.Pick, error) {
	p := selector.Pick{Cost: math.Inf(1), RunnerUp: math.Inf(1)}
	for i, c := range in.Candidates {
		if cost := float64(c.ActiveBlocks); cost < p.Cost {
			p.Index, p.Cost, p.RunnerUp = i, cost, p.Cost
		} else {
			p.RunnerUp = min(p.RunnerUp, cost)
		}
	}
	return p, nil
}

func (fewestBlocks) Scores(in *selector.Input, scores []float64) {
	for i, c := range in.Candidates {
		scores[i] = float64(c.ActiveBlocks)
	}
}

func (fewestBlocks) String() string { return "fewest-blocks" }

// countingRand counts what is drawn from it.
type countingRand struct{ drawn atomic.Int64 }

func (r *countingRand) Uint64() uint64 { r.drawn.Add(1); return 0 }

// Explain and Snapshot change nothing: not a counter, not a load, not a random
// number, not the round robin's place, not a deficit; and they read the clock, but
// set no timer.
func TestExplainChangesNothing(t *testing.T) {
	t.Parallel()
	for name, sel := range map[string]selector.Selector{
		"kv": selector.KV(), "round robin": selector.RoundRobin(), "random": selector.Random(), "power of two": selector.PowerOfTwo(),
	} {
		drawn := new(countingRand)
		d := &decisions{}
		s := newScheduler(t, sched.Config{Profile: policyOf(t, explained), Selector: sel},
			sched.WithRand(drawn), sched.WithDecisionHook(d.hook))
		addWorkers(t, s, 3)
		schedule(t, s, sched.Request{ID: "a", ISL: 100})
		schedule(t, s, sched.Request{ID: "b", ISL: 100})
		schedule(t, s, sched.Request{ID: "hold", ISL: 100, Pin: &sched.RankID{Worker: 1}})
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		left.Add(1)
		go func() {
			defer left.Done()
			_, _ = s.Schedule(ctx, &sched.Request{ID: "waits", ISL: 100, Class: "half", Pin: &sched.RankID{Worker: 1}})
		}()
		require.Equal(t, sched.DecisionQueued, (<-d.of("waits")).Kind)
		require.NoError(t, s.Settle(withTimeout(t)))
		stats, loads, before := s.Stats(), s.Loads(), drawn.drawn.Load()
		for _, r := range []*sched.Request{
			{}, {ID: "a", ISL: 100}, {ISL: 100, Class: "half"}, {ISL: 1000, Class: "never"}, {ISL: 50, Class: "open", Overlaps: []sched.Overlap{{Device: 1}}},
			{ISL: 1, Pin: &sched.RankID{Worker: 9}}, {ISL: 1, Temperature: new(float64)},
		} {
			for range 20 {
				_, err := s.Explain(r)
				require.NoError(t, err)
				s.Snapshot(3)
			}
		}
		require.Equal(t, stats, s.Stats(), name)
		require.Equal(t, loads, s.Loads(), name)
		require.Equal(t, before, drawn.drawn.Load(), name)
		if name == "round robin" {
			e, err := s.Explain(&sched.Request{ISL: 1})
			require.NoError(t, err)
			b := schedule(t, s, sched.Request{ID: "next", ISL: 1, Class: "open"})
			require.Equal(t, uint64(3), b.Placement().Rank.Worker)
			require.Equal(t, b.Placement().Rank, *e.Rank)
		}
		require.NoError(t, sched.CheckConsistency(s))
		leave()
		left.Wait()
	}
}

// While the turn is held up by a slow selector, everything that does not wait in
// line with it goes on: Explain and Snapshot see who waits, bookings end, waiting
// callers leave.
func TestExplainNeedsNoTurn(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	entered, goOn := make(chan struct{}), make(chan struct{})
	d := &decisions{}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing), Selector: pickFunc(func(*selector.Input) (selector.Pick, error) {
		if slow.CompareAndSwap(true, false) {
			close(entered)
			<-goOn
		}
		return selector.Pick{}, nil
	})}, sched.WithDecisionHook(d.hook))
	addWorkers(t, s, 1)
	first := schedule(t, s, sched.Request{ID: "first", ISL: 10})
	ended := map[string]chan error{"second": make(chan error, 1), "third": make(chan error, 1)}
	leave := map[string]context.CancelFunc{}
	for _, id := range []string{"second", "third"} {
		ctx, cancel := context.WithCancel(t.Context())
		leave[id] = cancel
		go func() {
			_, err := s.Schedule(ctx, &sched.Request{ID: id, ISL: 10})
			ended[id] <- err
		}()
		require.Equal(t, sched.DecisionQueued, (<-d.of(id)).Kind)
	}
	slow.Store(true)
	released := make(chan error, 1)
	go func() { released <- first.PrefillDone() }() // has the turn, and serves the second
	<-entered

	e, err := s.Explain(&sched.Request{ISL: 10})
	require.NoError(t, err)
	require.Equal(t, 2, e.Line.Ahead)
	heads := s.Snapshot(1).Classes[0].Heads
	require.Len(t, heads, 1)
	require.Equal(t, "second", heads[0].Request)
	require.NoError(t, first.Release())
	leave["third"]()
	require.ErrorIs(t, <-ended["third"], sched.ErrCanceled)
	e, err = s.Explain(&sched.Request{ISL: 10})
	require.NoError(t, err)
	require.Equal(t, 1, e.Line.Ahead)

	close(goOn)
	require.NoError(t, <-released)
	require.NoError(t, <-ended["second"])
	leave["second"]()
	require.NoError(t, s.Release("second", 0))
	requireIdle(t, s)
}

// Both may be called while everything moves.
func TestExplainWhileEverythingMoves(t *testing.T) {
	t.Parallel()
	s := under(t, explained, 3)
	ctx, stop := context.WithCancel(t.Context())
	var callers, churn sync.WaitGroup
	for caller := range 8 {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for i := range 100 {
				r := &sched.Request{
					ID: fmt.Sprint(caller, "/", i), ISL: int64(300 + i), Class: []string{"", "half"}[i%2], Priority: uint32(i % 3),
				}
				if i%5 == 0 {
					r.Excluded = []uint64{uint64(1 + i%3)}
				}
				if b, err := s.Schedule(t.Context(), r); err == nil {
					assert.NoError(t, b.Release())
				} else {
					assert.ErrorIs(t, err, sched.ErrQueueFull)
				}
			}
		}()
	}
	churn.Add(2)
	go func() {
		defer churn.Done()
		profiles := []string{mixed, explained}
		for i := 0; ctx.Err() == nil; i++ {
			assert.NoError(t, s.SetProfile(policyOf(t, profiles[i%2])))
		}
	}()
	go func() {
		defer churn.Done()
		for ctx.Err() == nil {
			e, err := s.Explain(&sched.Request{ID: "asks", ISL: 400, Class: "half"})
			assert.NoError(t, err)
			_, err = json.Marshal(e)
			assert.NoError(t, err)
			_ = e.String()
			_, err = json.Marshal(s.Snapshot(4))
			assert.NoError(t, err)
		}
	}()
	callers.Wait()
	stop()
	churn.Wait()
	require.NoError(t, s.SetProfile(policyOf(t, explained)))
	requireIdle(t, s)
}
