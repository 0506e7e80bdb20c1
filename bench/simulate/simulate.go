// Package simulate drives the scheduler with a workload over simulated ranks in
// virtual time, to show what a selector or a policy makes of it before anything is
// deployed. An hour of traffic takes seconds, and the same input gives the same
// answer.
//
// It is an event-driven simulation around the real scheduler: arrivals, what
// happens on the ranks and the scheduler's own timers are taken one by one, in the
// order of their times, on one goroutine. The scheduler's clock stands meanwhile.
// After each step the simulation waits until nothing moves in the scheduler
// (Settle) and then acts on what was decided, in the order of the decisions. A
// request that has to wait does so on a goroutine of its own, as in a gateway, but
// no two goroutines ever have something to do at once, so no outcome depends on how they are
// scheduled.
//
// What a scheduler costs is not simulated; package replay measures that.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/simrank"
	"github.com/seed-3c5df8a4/turnstile/bench/workload"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// ErrStalled is the error of a simulation in which requests wait and nothing is
// going to happen.
var ErrStalled = errors.New("stalled: requests wait and no rank has anything to do")

// Config says what is simulated.
type Config struct {
	// Requests come in the order of their arrival; they are not changed.
	Requests []workload.Request
	// Long says, by their place, which of them are to be told of apart.
	Long []bool
	// Workers is the number of workers and Ranks that of the ranks of each.
	Workers, Ranks int
	// MaxBatchedTokens is that of each worker; 0 is the scheduler's default.
	MaxBatchedTokens int64
	// Rank describes each rank.
	Rank simrank.Config
	// MaxOverlaps bounds the ranks named as holding a prefix of a request.
	MaxOverlaps int
	// Seed decides what the scheduler draws at random.
	Seed uint64
	// Progress, unless nil, is told now and then how many requests have ended.
	Progress func(ended int)
}

// start is the time at which every simulation begins. It has no meaning.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Run simulates the workload under a setting. If ctx ends, the result tells of
// what was done until then, with the context's error.
func Run(ctx context.Context, setting *Setting, cfg Config) (*Result, error) {
	s, err := newSimulation(setting, cfg)
	if err != nil {
		return nil, err
	}
	// Requests that still wait when the simulation ends early are cancelled.
	callers, cancel := context.WithCancel(context.Background())
	s.callers = callers
	err = s.run(ctx)
	cancel()
	s.wg.Wait()
	err = errors.Join(err, s.left(), s.scheduler.Close())
	s.count()
	return &s.result, err
}

// simulation is one run. All is the driving goroutine's but what told guards.
type simulation struct {
	cfg       Config
	scheduler *sched.Scheduler
	clock     *clock.Manual
	callers   context.Context
	wg        sync.WaitGroup // the callers

	holders *simrank.Holders
	ranks   []*simrank.Rank
	next    []time.Duration // of each rank's next event, never if there is none
	ids     []string
	flights []flight
	// on counts the requests on each rank, and all all of them; balance sums up the
	// looks taken at how even that is.
	on      []int
	all     int
	balance float64
	looks   int
	now     time.Duration
	arrived int // requests so far
	ended   int
	events  []simrank.Event // scratch

	told told
	// back is told when a Schedule call returns. What it returns is known by then.
	back chan struct{}
	// answered are the decisions that end a Schedule call, returned those of
	// these calls that have.
	answered, returned int

	result Result
}

// flight is what is known of a request.
type flight struct {
	state      state
	queued     bool
	rank       int
	granted    time.Duration
	firstToken time.Duration
	finished   time.Duration
}

type state uint8

const (
	waiting state = iota
	running
	completed
	refused
)

// told takes what the decision hook says.
type told struct {
	mu struct {
		sync.Mutex
		decisions []sched.Decision
	}
	// some holds a token if there is a decision that was not taken.
	some chan struct{}
}

func (t *told) add(d sched.Decision) {
	t.mu.Lock()
	t.mu.decisions = append(t.mu.decisions, d)
	t.mu.Unlock()
	select {
	case t.some <- struct{}{}:
	default:
	}
}

func (t *told) take() []sched.Decision {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.mu.decisions
	t.mu.decisions = nil
	return out
}

func newSimulation(setting *Setting, cfg Config) (*simulation, error) {
	ranks := cfg.Workers * cfg.Ranks
	s := &simulation{
		cfg:     cfg,
		clock:   clock.NewManual(start),
		holders: simrank.NewHolders(ranks),
		ranks:   make([]*simrank.Rank, ranks),
		next:    make([]time.Duration, ranks),
		ids:     make([]string, len(cfg.Requests)),
		flights: make([]flight, len(cfg.Requests)),
		on:      make([]int, ranks),
		told:    told{some: make(chan struct{}, 1)},
		back:    make(chan struct{}),
	}
	for i := range s.ranks {
		s.ranks[i], s.next[i] = simrank.New(cfg.Rank, s.holders.Of(i)), never
	}
	for i := range s.ids {
		s.ids[i] = strconv.Itoa(i)
	}
	options := []sched.Option{
		sched.WithClock(s.clock),
		sched.WithRand(rand.NewPCG(cfg.Seed, 0x73696d756c617465)),
		sched.WithDecisionHook(s.told.add),
	}
	if setting.EstimatePrefill {
		options = append(options, sched.WithPrefillEstimator(func(w sched.PrefillWork) (time.Duration, bool) {
			return time.Duration(float64(w.Tokens) / cfg.Rank.PrefillRate * float64(time.Second)), true
		}))
	}
	config := setting.Config
	config.BlockSize = cfg.Rank.Block
	if setting.Selector != nil {
		config.Selector = setting.Selector()
	}
	var err error
	if s.scheduler, err = sched.New(config, options...); err != nil {
		return nil, err
	}
	workers := make([]sched.Worker, cfg.Workers)
	for i := range workers {
		workers[i] = sched.Worker{
			ID: uint64(i) + 1, Ranks: uint32(cfg.Ranks), MaxBatchedTokens: cfg.MaxBatchedTokens, TotalKVBlocks: cfg.Rank.KVBlocks,
		}
	}
	if err := s.scheduler.SetWorkers(workers); err != nil {
		return nil, errors.Join(err, s.scheduler.Close())
	}
	return s, nil
}

// never is the time of what does not come.
const never = time.Duration(1<<63 - 1)

// step is how many steps pass between looks at the context.
const step = 1024

// run takes everything that happens, in the order of time. At one time timers go
// first, as the clock has come there, then what happens on the ranks, in their
// order, then arrivals.
func (s *simulation) run(ctx context.Context) error {
	for n := 0; ; n++ {
		if n%step == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if s.cfg.Progress != nil {
				s.cfg.Progress(s.ended)
			}
		}
		at := s.nextTime()
		if at == never {
			if s.ended < len(s.flights) {
				return ErrStalled
			}
			return nil
		}
		if err := s.take(ctx, at); err != nil {
			return err
		}
	}
}

func (s *simulation) nextTime() time.Duration {
	at := never
	if s.arrived < len(s.cfg.Requests) {
		at = s.cfg.Requests[s.arrived].At
	}
	for _, next := range s.next {
		at = min(at, next)
	}
	if timer, ok := s.clock.Next(); ok {
		at = min(at, timer.Sub(start))
	}
	if at == never {
		return at
	}
	return max(at, s.now)
}

// take lets the time come, and what is due at it happen.
func (s *simulation) take(ctx context.Context, at time.Duration) error {
	s.clock.Advance(at - s.now)
	s.now = at
	if err := s.settle(ctx); err != nil {
		return err
	}
	events := s.events[:0]
	for i, next := range s.next {
		if next <= at {
			events = s.ranks[i].Advance(at, events)
			s.plan(i)
		}
	}
	s.events = events
	for _, e := range events {
		if err := s.happen(ctx, e); err != nil {
			return err
		}
	}
	if s.arrived < len(s.cfg.Requests) && s.cfg.Requests[s.arrived].At <= at {
		s.arrived++
		return s.arrive(ctx, s.arrived-1)
	}
	return nil
}

func (s *simulation) plan(rank int) {
	next, ok := s.ranks[rank].Next()
	if !ok {
		next = never
	}
	s.next[rank] = next
}

// happen tells the scheduler what became of a request.
func (s *simulation) happen(ctx context.Context, e simrank.Event) error {
	f, id := &s.flights[e.Tag], s.ids[e.Tag]
	var err error
	switch e.Kind {
	case simrank.FirstToken:
		f.firstToken = e.At
		err = s.scheduler.PrefillDone(id, 0)
	case simrank.OutputBlock:
		err = s.scheduler.AddOutputBlock(id, 0)
	case simrank.Finished:
		f.finished, f.state = e.At, completed
		s.on[f.rank]--
		s.all--
		s.ended++
		err = s.scheduler.Release(id, 0)
	}
	if err != nil {
		return err
	}
	return s.settle(ctx)
}

// arrive has a request scheduled, on a goroutine of its own because it may have to
// wait, and goes on once it was decided whether it has to.
func (s *simulation) arrive(ctx context.Context, i int) error {
	if s.all > 0 {
		s.looks++
		s.balance += float64(slices.Max(s.on)) * float64(len(s.on)) / float64(s.all)
	}
	r := &s.cfg.Requests[i]
	blocks := r.FullBlocks(s.cfg.Rank.Block)
	request := &sched.Request{ID: s.ids[i], ISL: r.ISL, ExpectedOSL: r.OSL, Blocks: blocks, Class: r.Class}
	for _, b := range s.holders.Best(blocks, s.cfg.MaxOverlaps, i) {
		request.Overlaps = append(request.Overlaps, sched.Overlap{Rank: s.rankID(b.Rank), Device: float64(b.Blocks)})
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		_, _ = s.scheduler.Schedule(s.callers, request)
		select {
		case s.back <- struct{}{}:
		case <-s.callers.Done():
		}
	}()
	select {
	case <-s.told.some:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.settle(ctx)
}

// settle waits until nothing moves in the scheduler, then acts on what it decided.
func (s *simulation) settle(ctx context.Context) error {
	if err := s.scheduler.Settle(ctx); err != nil {
		return err
	}
	decisions := s.told.take()
	for _, d := range decisions {
		if err := s.decided(d); err != nil {
			return err
		}
	}
	for s.returned < s.answered {
		select {
		case <-s.back:
			s.returned++
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// The token is for decisions that were taken here.
	select {
	case <-s.told.some:
	default:
	}
	return nil
}

func (s *simulation) decided(d sched.Decision) error {
	i, err := strconv.Atoi(d.Request)
	if err != nil {
		return fmt.Errorf("a decision about the unknown request %q", d.Request)
	}
	f := &s.flights[i]
	switch d.Kind {
	case sched.DecisionExpired: // no booking has a ttl
	case sched.DecisionQueued:
		f.queued = true
	case sched.DecisionRejected:
		s.answered++
		f.state = refused
		s.ended++
		if s.result.Refusal == nil {
			s.result.Refusal = d.Err
		}
	case sched.DecisionAdmitted:
		s.answered++
		f.state, f.granted = running, s.now
		rank, r := s.rank(d.Placement.Rank), &s.cfg.Requests[i]
		job := simrank.Job{Tag: i, ISL: r.ISL, OSL: r.OSL, Blocks: r.FullBlocks(s.cfg.Rank.Block)}
		// The rank has come to this time, so nothing happens on it meanwhile.
		s.ranks[rank].Submit(s.now, job, nil)
		f.rank = rank
		s.on[rank]++
		s.all++
		s.plan(rank)
	}
	return nil
}

func (s *simulation) rankID(i int) sched.RankID {
	return sched.RankID{Worker: uint64(i/s.cfg.Ranks) + 1, Rank: uint32(i % s.cfg.Ranks)}
}

func (s *simulation) rank(id sched.RankID) int {
	return int(id.Worker-1)*s.cfg.Ranks + int(id.Rank)
}
