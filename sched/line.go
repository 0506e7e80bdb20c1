package sched

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// line is the waiting side of a scheduler. Everything in it is owned by the
// holder of the turn; the word of the turn is what guards it.
type line struct {
	s *Scheduler

	queue  *queue.Line[*job] // nil until a request stood in line
	world  *pool.World       // as of the last refresh
	now    int64             // as of the last refresh, ns
	seq    uint64            // arrival order
	budget queue.Budget      // of the epoch
	steps  int64             // decided in the epoch
	unseen int               // granted since arrivals were looked at last, in this epoch or before

	// arrivals were detached, and are not yet dealt with from next on.
	arrivals []*job
	next     int
	// leaver is the first of the leavers that were detached and not yet unlinked.
	leaver *sequencer.Ticket[*job]
	// freed are the ranks whose hints were drained and that have not been offered to
	// the lanes yet.
	freed []queue.RankID
	// moving is the queue of another profile from which the waiters are being moved,
	// nil if there is none.
	moving *queue.Queue[*job]

	// guards are those of the lanes that guard their ranks.
	guards       pool.Guards
	gates, looks *pool.Look         // made with the queue
	races        int                // lost in a row
	sizes        *measure.Histogram // of epochs; made with the queue
	// undone: a booking was taken back, which left a hint.
	undone bool
	// late: something overdue is left for the next epoch.
	late    bool
	overdue overdue
	// rechecks are the callers that are answered once nothing is left to do.
	rechecks []chan struct{}
	// current is the job that is being decided, so that it is known whose fault a
	// break was; stuck counts breaks in a row without one.
	current *job
	stuck   int

	timer lineTimer
}

// lineTimer has the turn entered at an instant.
type lineTimer struct {
	timer clock.Timer
	at    int64       // when timer fires, queue.NoDue if there is none
	fired atomic.Bool // set by the timer, cleared by the holder of the turn
}

// build makes the queue for the first request that stands in line.
func (l *line) build() {
	l.timer.at = queue.NoDue
	l.world = l.s.world.Load()
	l.guards.Reset(l.world)
	l.gates, l.looks = &pool.Look{Rand: l.s.rand, Guards: &l.guards}, &pool.Look{Rand: l.s.rand, Guards: &l.guards}
	l.queue = queue.NewLine(pool.ClassSpecs(l.world.Profile), queue.Host[*job](l))
	l.s.ledger.reset(l.world.Profile)
	l.sizes = epochBuckets.Histogram()
	l.s.counters.epochSizes.Store(l.sizes)
}

// nextFree returns the instant at which time alone may free a rank that a request waits
// for: by what decays, or because a worker is no longer set aside.
func (l *line) nextFree() int64 {
	if l.queue == nil || l.queue.Len() == 0 {
		return queue.NoDue
	}
	return min(l.queue.Queue().NextFree(), l.world.Table.AsideEnd())
}

// setTimer has the turn entered when the next due time comes, or the next instant
// at which time alone frees a rank. There is a timer only while there is one. A
// timer that has fired is gone, whatever the clock says now: a clock may be coarse,
// and then it is set anew, not sooner than a tick of shortestWait.
func (l *line) setTimer() {
	t := &l.timer
	wait := time.Duration(0)
	if t.fired.Swap(false) {
		if l.now < t.at {
			wait = shortestWait
		}
		t.at = 0 // set it anew; a timer that fires though it was stopped may not be this one
	}
	next := min(l.queue.Queue().NextDue(), l.nextFree(), l.queue.Queue().NextFail())
	if next == t.at && next > l.now {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer, t.at = nil, queue.NoDue
	if next != queue.NoDue {
		// Noted once it is set: a clock that ends its goroutine sets none.
		t.timer = l.s.clock.AfterFunc(max(wait, time.Duration(next-l.now)), func() {
			t.fired.Store(true)
			l.s.enterTurn(timerAllowance)
		})
		t.at = next
	}
}

// shortestWait is the least after which a timer is set anew that fired before the
// clock showed its time.
const shortestWait = time.Millisecond

// adopt goes over to another world. What a change may have freed is tested again;
// another profile classes the waiters again.
func (l *line) adopt(world *pool.World) {
	old := l.world
	l.world = world
	if l.queue == nil {
		return
	}
	if old.Profile == world.Profile {
		l.guards.Follow(world)
	} else {
		l.guards.Reset(world)
		l.moving = l.queue.Reset(pool.ClassSpecs(world.Profile))
		l.s.ledger.beginReclass(world.Profile)
	}
	l.queue.Queue().OpenAll()
}

// move classes the waiters again, in arrival order, as far as the budget goes. Nothing
// is decided until all are.
func (l *line) move() (done bool) {
	for e := l.moving.Oldest(); e != nil; e = l.moving.Oldest() {
		since, lacks := e.Lacks()
		l.moving.Remove(e)
		class := l.world.Profile.Classify(e.Value.class, max(0, e.Raw-e.Cached))
		l.queue.Add(class, e)
		if lacks {
			l.queue.Queue().LackSince(e, since)
		}
		l.s.ledger.move(e.Value, class, l.world.Profile.Class(class).Name)
		if !l.budget.Spend(3 * queue.CostEntry) {
			return false
		}
	}
	l.moving = nil
	l.s.ledger.endReclass(l.world.Profile)
	return true
}

// rechecks are the callers that wait for a full recheck.
type rechecks struct {
	mu struct {
		sync.Mutex
		waiters []chan struct{}
	}
}

func (r *rechecks) add(done chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.waiters = append(r.mu.waiters, done)
}

func (r *rechecks) take() []chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiters := r.mu.waiters
	r.mu.waiters = nil
	return waiters
}

// offer notes a rank whose hint was drained. The hint's mark is clear by now, so
// the load read from here on is at least as new as the hint.
func (l *line) offer(shard *shards.Shard) {
	if l.queue != nil && l.queue.Len() > 0 {
		l.freed = append(l.freed, shard.ID())
	}
}
