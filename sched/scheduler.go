package sched

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"
	uberatomic "go.uber.org/atomic"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/ids"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/journal"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/outbox"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Scheduler decides for each request whether it may run now and on which rank, and
// keeps the load it causes until it is done. All methods are safe for concurrent use.
// An idle scheduler has no goroutine, and no timer while no request waits and no
// booking has a ttl.
type Scheduler struct {
	config    Config
	params    selector.Params
	clock     clock.Clock
	origin    time.Time // times in nanoseconds count from here
	rand      selector.Rand
	estimator PrefillEstimator
	refresher OverlapRefresher
	journal   *journal.Journal[Decision] // nil without a decision hook
	outbox    *outbox.Outbox[Event]      // nil without observers and logger
	sampler   *measure.Sampler           // nil unless selections are timed

	fleet Fleet // nil unless others are to be told of load
	peers peers
	// fleetTold: the fleet was told of a change and has not asked since.
	fleetTold atomic.Bool

	env *shards.Env
	ids *ids.Table[*record]

	// world is replaced under edit and read by all.
	world atomic.Pointer[pool.World]
	// classes goes over to another profile under edit, before a world with it is
	// published.
	classes *measure.Classes
	// edit serialises changes of the world. It comes first in the lock order.
	edit sync.Mutex

	_ [64]byte
	// waiting counts the requests that have come to stand in line and are not settled.
	// It is raised before an arrival is published, by the arrival, and lowered by the
	// goroutine that settles it; read by all.
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

	// expired and removed are the channels of all bookings that ended without their
	// owner, by why. Both are closed.
	expired, removed chan struct{}

	jobs  sync.Pool // of *job
	looks sync.Pool // of *pool.Look
}

// counters are the events Stats reports that are not counted elsewhere.
type counters struct {
	queries                  *xsync.Counter
	selectorFailed           uberatomic.Int64
	expired, leaked, dropped uberatomic.Int64
	epochs, retries          uberatomic.Int64
	epochSizes               atomic.Pointer[measure.Histogram] // nil until a request stood in line
	panics                   [hooks]uberatomic.Int64           // recovered, by place in hook
}

// now returns the time in nanoseconds since the scheduler was made.
func (s *Scheduler) now() int64 { return int64(s.clock.Now().Sub(s.origin)) }

// since returns a wall time in the scheduler's nanoseconds.
func (s *Scheduler) since(t time.Time) int64 { return int64(t.Sub(s.origin)) }

// at returns an instant as a time.
func (s *Scheduler) at(ns int64) time.Time { return s.origin.Add(time.Duration(ns)) }
