// Package replay drives an engine with a workload, over simulated ranks, the way
// a gateway would: each request in flight is one goroutine, arrivals come at
// their times whatever the engine does, and a booking is told of its first
// token, its output blocks and its end.
//
// Simulated time is real time multiplied by the speed. Only the ranks are
// simulated: the waiting, on locks and on channels, is real.
package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/internal/cputime"
	"github.com/seed-3c5df8a4/turnstile/bench/simrank"
	"github.com/seed-3c5df8a4/turnstile/bench/workload"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

const (
	tickEvery  = time.Millisecond
	lateTick   = 4 * tickEvery // a timer of an idle machine is never so late
	watchEvery = 200 * time.Millisecond
	// A replay is stalled when requests wait though nothing has happened for so
	// long and nothing is going to: a wake-up was lost.
	defaultStall = 5 * time.Second
	defaultGrace = 5 * time.Second
)

// ErrStalled is the error of a replay in which requests waited for capacity that
// was free.
var ErrStalled = errors.New("stalled: requests wait and no rank has anything to do")

// Config says what is replayed and on what.
type Config struct {
	// Requests come in the order of their arrival; they are not changed.
	Requests []workload.Request
	// Workers is the number of workers and Ranks that of the ranks of each.
	Workers, Ranks int
	// MaxBatchedTokens is that of each worker; 0 is the scheduler's default.
	MaxBatchedTokens int64
	// Rank describes each rank; its block size must be the engine's.
	Rank simrank.Config
	// Speed is how many simulated seconds pass in a second.
	Speed float64
	// MaxOverlaps bounds the ranks named as holding a prefix of a request.
	MaxOverlaps int
	// Progress, if set, is told now and then how many requests have ended.
	Progress func(ended int)
	// Stall replaces the time after which a replay counts as stalled.
	Stall time.Duration
	// Grace replaces the time that callers, and the engine, are given to end
	// once told to.
	Grace time.Duration
}

// Run builds an engine, replays the workload on it and closes it. When ctx ends,
// no more requests arrive and those on their way are given up; the result then
// tells of what was done. An error means that nothing could be run.
func Run(ctx context.Context, build func() (engine.Engine, error), cfg Config) (*Result, error) {
	if cfg.Stall == 0 {
		cfg.Stall = defaultStall
	}
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	runtime.GC() // so that no run pays for the garbage of the one before
	before := runtime.NumGoroutine()
	eng, err := build()
	if err != nil {
		return nil, err
	}
	if err := eng.SetWorkers(workers(cfg)); err != nil {
		return nil, errors.Join(fmt.Errorf("set workers: %w", err), eng.Close())
	}
	d := newDriver(eng, cfg)
	d.run(ctx)
	d.result.Left = leftovers(eng, before, cfg.Grace)
	d.count()
	return &d.result, nil
}

func workers(cfg Config) []sched.Worker {
	out := make([]sched.Worker, cfg.Workers)
	for i := range out {
		out[i] = sched.Worker{
			ID:               uint64(i) + 1,
			Ranks:            uint32(cfg.Ranks),
			MaxBatchedTokens: cfg.MaxBatchedTokens,
			TotalKVBlocks:    cfg.Rank.KVBlocks,
		}
	}
	return out
}

// driver is one replay. What it records is in slices with a place for each
// request, so that recording costs no lock.
type driver struct {
	cfg     Config
	engine  engine.Engine
	holders *simrank.Holders
	nodes   []*node
	flights []flight
	ids     []string
	start   time.Time
	giveUp  context.CancelCauseFunc

	arrived          atomic.Bool // all requests have; written by run, read by watch
	ended            atomic.Int64
	calls, mostCalls atomic.Int64 // callers within Schedule, now and at most
	result           Result
}

// flight is what is known of one request. Its caller writes all but the fields
// of news, which its node writes under the node's lock.
type flight struct {
	outcome    outcome
	err        error
	schedule   time.Duration // what the Schedule call took
	news       news
	notify     chan struct{} // holds a token while there is news
	firstToken time.Duration // simulated; from the arrival
}

type news struct {
	firstToken, finished bool
	outputBlocks         int
	firstTokenAt         time.Duration
}

type outcome uint8

const (
	unfinished outcome = iota
	refused
	completed
	cutShort
)

func newDriver(eng engine.Engine, cfg Config) *driver {
	ranks := cfg.Workers * cfg.Ranks
	d := &driver{
		cfg:     cfg,
		engine:  eng,
		holders: simrank.NewHolders(ranks),
		nodes:   make([]*node, ranks),
		flights: make([]flight, len(cfg.Requests)),
		ids:     make([]string, len(cfg.Requests)),
	}
	for i := range d.nodes {
		d.nodes[i] = newNode(d, i)
	}
	for i := range d.ids {
		d.ids[i] = "r" + strconv.Itoa(i)
	}
	return d
}

func (d *driver) rankID(i int) sched.RankID {
	return sched.RankID{Worker: uint64(i/d.cfg.Ranks) + 1, Rank: uint32(i % d.cfg.Ranks)}
}

func (d *driver) node(id sched.RankID) *node {
	worker := id.Worker - 1 // wraps for 0, which is no worker of ours
	if worker >= uint64(d.cfg.Workers) || id.Rank >= uint32(d.cfg.Ranks) {
		return nil
	}
	return d.nodes[worker*uint64(d.cfg.Ranks)+uint64(id.Rank)]
}

// now is the simulated time.
func (d *driver) now() time.Duration {
	return time.Duration(float64(time.Since(d.start)) * d.cfg.Speed)
}

// run sends all requests and waits until they have ended.
func (d *driver) run(ctx context.Context) {
	ctx, d.giveUp = context.WithCancelCause(ctx)
	defer d.giveUp(nil)

	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		d.watch(ctx, stop)
	}()

	cpu := cputime.Now()
	d.start = time.Now()
	d.drive(ctx)
	d.result.Wall = time.Since(d.start)
	d.result.CPU = cputime.Now() - cpu
	close(stop)
	<-watched
	cause := context.Cause(ctx)
	d.result.Stalled = errors.Is(cause, ErrStalled)
	d.result.Interrupted = cause != nil && !d.result.Stalled
}

// drive ticks: at each it starts the callers whose time has come and lets happen
// on the ranks what is due. One timer for all costs a fraction of what one for
// each would, and is no less exact: a timer of an idle process is up to a
// millisecond late in any case.
func (d *driver) drive(ctx context.Context) {
	var callers sync.WaitGroup
	ended := make(chan struct{}, 1)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	last := d.start
	for sent := 0; ; {
		if gap := time.Since(last); gap > lateTick {
			d.result.Late += gap - tickEvery
		}
		last = time.Now()
		now := d.now()
		for sent < len(d.cfg.Requests) && d.cfg.Requests[sent].At <= now {
			i := sent
			sent++
			callers.Add(1)
			go func() {
				defer callers.Done()
				d.call(ctx, i)
				if int(d.ended.Add(1)) == len(d.cfg.Requests) {
					ended <- struct{}{}
				}
			}()
		}
		if sent == len(d.cfg.Requests) {
			d.arrived.Store(true)
		}
		for _, n := range d.nodes {
			n.advance(now)
		}
		select {
		case <-tick.C:
		case <-ended:
			callers.Wait()
			return
		case <-ctx.Done():
			d.result.Stuck = !waitFor(&callers, d.cfg.Grace)
			return
		}
	}
}

// waitFor waits for a group, but not for ever, and reports whether it is done.
func waitFor(group *sync.WaitGroup, atMost time.Duration) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(atMost):
		return false
	}
}

// watch reports progress and ends the replay if it has stalled.
func (d *driver) watch(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last, moved := int64(-1), time.Now()
	for {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ended := d.ended.Load()
		if d.cfg.Progress != nil {
			d.cfg.Progress(int(ended))
		}
		if ended != last || !d.arrived.Load() || !d.idle() {
			last, moved = ended, time.Now()
		} else if time.Since(moved) >= d.cfg.Stall {
			d.giveUp(ErrStalled)
			return
		}
	}
}

// idle reports whether no rank has anything to do.
func (d *driver) idle() bool {
	for _, n := range d.nodes {
		if !n.idle() {
			return false
		}
	}
	return true
}
