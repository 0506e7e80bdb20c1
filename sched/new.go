package sched

import (
	"fmt"
	"time"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/ids"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/journal"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/outbox"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// New returns a scheduler without workers. The error reports every fault of the
// config; it matches ErrInvalid.
func New(config Config, opts ...Option) (*Scheduler, error) {
	profile, err := config.validate()
	if err != nil {
		return nil, err
	}
	o := options{clock: clock.System(), rand: chance.Global{}}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
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
	var s *Scheduler
	o.clock = safely(o.clock, func(cause any) {
		if s != nil {
			s.notePanic(hookClock, cause) // perhaps under a rank's lock
		}
	})
	s = &Scheduler{
		config: config, params: config.params(), clock: o.clock, origin: o.clock.Now(), rand: o.rand,
		estimator: o.estimator, refresher: o.refresher,
		ids: ids.New(func(r *record) string { return r.ID }), expired: make(chan struct{}), removed: make(chan struct{}),
	}
	if o.onDecision != nil {
		s.journal = journal.New(o.onDecision, s.panicIn(hookDecision))
	}
	s.outbox = outbox.New(outbox.Config[Event]{
		Observers: o.observers, Logger: o.logger, Room: config.EventBuffer,
		ObserverFailed: s.panicIn(hookObserver), LoggerFailed: s.panicIn(hookLogger),
	})
	if config.SampleSelection > 0 {
		s.sampler = measure.NewSampler(config.SampleSelection, s.now, selectionBuckets)
	}
	s.env = &shards.Env{Now: s.now}
	s.fleet, s.env.Fleet = o.fleet, o.fleet != nil
	close(s.expired)
	close(s.removed)
	s.line.s = s
	s.counters.queries = xsync.NewCounter()
	s.classes = measure.NewClasses(profile, rejectionCodes, waitBuckets)
	s.ledger.counters = s.classes
	s.jobs.New = func() any { return newJob() }
	few := pool.NewFew()
	s.looks.New = func() any { return &pool.Look{Rand: s.rand, Few: few} }
	if profile.CanQueue() {
		s.env.EnableHints()
	}
	s.env.Watch(pool.Watched(profile))
	s.world.Store(pool.World{Table: shards.NewTable(), Profile: profile, Selector: config.Selector}.Made())
	s.logNoProfile(&config)
	return s, nil
}

// longestTTL keeps times in range.
const longestTTL = 70 * 365 * 24 * time.Hour
