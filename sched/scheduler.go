package sched

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"
	uberatomic "go.uber.org/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Scheduler decides for each request whether it may run now and on which rank,
// and keeps the load it causes until it is done. All methods are safe for
// concurrent use. A scheduler has no goroutine, and no timer while nobody waits
// and no booking has a ttl.
type Scheduler struct {
	config    Config
	params    selector.Params
	clock     clock.Clock
	origin    time.Time // times in nanoseconds count from here
	rand      selector.Rand
	estimator PrefillEstimator
	refresher OverlapRefresher
	journal   *journal // nil without a decision hook
	outbox    *outbox  // nil without observers and logger
	sampler   *sampler // nil unless selections are timed

	env *shards.Env
	ids ids

	// world is replaced under edit and read by all.
	world atomic.Pointer[pool.World]
	// tallies are replaced under edit, before a world with another profile is
	// published, and read by all.
	tallies atomic.Pointer[tallies]
	// edit serialises changes of the world. It comes first in the lock order.
	edit sync.Mutex

	_ [64]byte
	// waiting counts the requests that have come to stand in line and are not
	// settled. It is raised before an arrival is published, by the arrival, and
	// lowered by whoever settles it; read by all.
	waiting atomic.Int64
	_       [56]byte

	turn     sequencer.Turn
	arrivals sequencer.Arrivals[*job]
	leavers  sequencer.Arrivals[*job]
	line     line // owned by the holder of the turn
	ledger   ledger
	rechecks rechecks
	expiry   expiry
	counters counters

	// closed is the channel of every booking that ended without its owner.
	closed chan struct{}

	jobs  sync.Pool // of *job
	looks sync.Pool // of *pool.Look
}

// longestTTL keeps times in range.
const longestTTL = 70 * 365 * 24 * time.Hour

// counters are the events Stats reports that are not counted elsewhere.
type counters struct {
	queries                  *xsync.Counter
	selectorFailed           uberatomic.Int64
	expired, leaked, dropped uberatomic.Int64
	epochs, retries          uberatomic.Int64
	epochSizes               atomic.Pointer[histogram] // nil until somebody stood in line
	panics                   [hooks]uberatomic.Int64   // recovered, by place in hook
}

// New returns a scheduler without workers. The error reports every fault of the
// config; it matches ErrInvalid.
func New(config Config, opts ...Option) (*Scheduler, error) {
	profile, err := config.validate()
	if err != nil {
		return nil, err
	}
	o := options{clock: clock.System(), rand: globalRand{}}
	for _, opt := range opts {
		opt(&o)
	}
	if config.RefreshAfter > 0 && o.refresher == nil {
		return nil, &Error{Code: ErrInvalid, Rule: fmt.Sprintf("config: refresh after %v: needs WithOverlapRefresher", config.RefreshAfter)}
	}
	config.BookingTTL = min(config.BookingTTL, longestTTL)
	if config.EventBuffer == 0 {
		config.EventBuffer = defaultEventBuffer
	}
	if config.Selector == nil {
		config.Selector = selector.KV()
	}
	s := &Scheduler{
		config: config, params: config.params(), clock: o.clock, origin: o.clock.Now(), rand: o.rand,
		estimator: o.estimator, refresher: o.refresher,
		ids: ids{seed: maphash.MakeSeed()}, closed: make(chan struct{}),
	}
	if o.onDecision != nil {
		s.journal = &journal{hook: o.onDecision, failed: s.hookPanicked}
	}
	s.outbox = newOutbox(&o, config.EventBuffer, s.hookPanicked)
	if config.SampleSelection > 0 {
		s.sampler = &sampler{every: uint64(config.SampleSelection), times: selectionBuckets.histogram()}
	}
	s.env = &shards.Env{Now: s.now}
	close(s.closed)
	s.line.s = s
	s.counters.queries = xsync.NewCounter()
	s.tallies.Store((*tallies)(nil).with(profile))
	s.jobs.New = func() any { return newJob() }
	s.looks.New = func() any { return &pool.Look{Rand: s.rand} }
	if profile.CanQueue() {
		s.env.EnableHints()
	}
	s.world.Store(pool.World{Table: shards.NewTable(), Profile: profile, Selector: config.Selector}.Made())
	s.logNoProfile(&config)
	return s, nil
}

// now returns the time in nanoseconds since the scheduler was made.
func (s *Scheduler) now() int64 { return int64(s.clock.Now().Sub(s.origin)) }

// since returns a wall time in the scheduler's nanoseconds.
func (s *Scheduler) since(t time.Time) int64 { return int64(t.Sub(s.origin)) }

// enterTurn has all that is due done: by this caller if the turn is free, else
// by whoever has it.
func (s *Scheduler) enterTurn() {
	s.turn.Enter(&s.line)
	s.deliver()
}

// freed is called, without locks, after capacity may have been freed.
func (s *Scheduler) freed() {
	perturb.Point()
	if s.waiting.Load() == 0 {
		return
	}
	if ring := s.env.Hints(); ring == nil || ring.Pending() {
		s.enterTurn()
	}
}

// change replaces the world by what edit makes of it, and then lets those who
// wait see it.
func (s *Scheduler) change(edit func(*pool.World) (gone []*shards.Shard, err error)) error {
	s.edit.Lock()
	next := *s.world.Load()
	before := next.Table
	gone, err := edit(&next)
	if err == nil {
		if next.Table != before {
			next.Index = next.Table.Reindex(next.Index, pool.IndexWeights(s.params))
		}
		if next.Profile.CanQueue() {
			s.env.EnableHints()
		}
		// From here on nothing is booked on ranks that are gone: a booking
		// checks under the rank's lock that its world still stands, so what was
		// booked before is seen by the drop, which takes the lock after.
		s.world.Store(next.Made())
		perturb.Point()
		for _, shard := range gone {
			s.dropRank(shard)
		}
		if next.Table != before {
			next.Table.Shown(next.Index)
		}
	}
	s.edit.Unlock()
	if err != nil {
		return err
	}
	if s.waiting.Load() > 0 {
		s.enterTurn()
	} else {
		s.deliver()
	}
	return nil
}

// dropRank ends all bookings of a rank that is gone.
func (s *Scheduler) dropRank(shard *shards.Shard) {
	var dropped []*record
	ghosts := 0
	shard.Lock()
	shard.KillLocked()
	for b := range shard.BookingsLocked() {
		shard.ReleaseLocked(b)
		// A booking whose owner has gone meanwhile may have left its id to another.
		if rec := s.ids.find(b.ID); rec != nil && &rec.Booking == b {
			dropped = append(dropped, rec)
		} else {
			ghosts++
		}
	}
	shard.Unlock()
	for range ghosts {
		s.expiry.ended(s)
	}
	for _, rec := range dropped {
		s.ended(rec, EventDropped)
	}
	s.counters.dropped.Add(int64(len(dropped)))
	s.logDropped(shard.ID(), len(dropped))
}

// SetProfile replaces the policy profile. Those who wait stay: each is classed
// anew by the name it asked for, arrival order stands, deficits start at 0.
func (s *Scheduler) SetProfile(p *policy.Profile) error {
	if p == nil {
		return &Error{Code: ErrInvalid, Rule: "profile: must not be nil"}
	}
	return s.change(func(w *pool.World) ([]*shards.Shard, error) {
		s.logProfile(w.Profile, p)
		w.Profile = p
		s.tallies.Store(s.tallies.Load().with(p))
		return nil, nil
	})
}

// SetSelector replaces the selector; nil means selector.KV().
func (s *Scheduler) SetSelector(sel selector.Selector) error {
	if sel == nil {
		sel = selector.KV()
	}
	return s.change(func(w *pool.World) ([]*shards.Shard, error) {
		w.Selector = sel
		return nil, nil
	})
}
