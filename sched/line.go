package sched

import (
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/internal/invariants"
	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// epochSteps bounds an epoch: grants, arrivals and lost races count one each.
const epochSteps = 512

// checkedLength is the longest queue that is checked after every epoch, where
// invariants are.
const checkedLength = 64

// line is the waiting side of a scheduler. Everything in it is owned by the
// holder of the turn; the word of the turn is what guards it.
//
// One epoch, in this order:
//
//  1. detach the arrivals: their tickets are fixed; they are looked at last;
//  2. refresh: let the leavers go, adopt the world, read the clock once, expire
//     due times and then ttls up to that instant, drain the hints;
//  3. serve the backlog while somebody can run;
//  4. then each arrival in ticket order: gate, limits, add, serve.
//
// So a release or a leave that returned before an arrival came is seen by that
// arrival's limits.
type line struct {
	s *Scheduler

	queue *queue.Line[*job] // nil until somebody stood in line
	world *pool.World       // as of the last refresh
	now   int64             // as of the last refresh, ns
	seq   uint64            // arrival order

	arrivals, leavers []*job             // detached and not yet dealt with
	gates, looks      *pool.Look         // made with the queue
	races             int                // lost in a row
	sizes             *measure.Histogram // of epochs; made with the queue
	// undone: a booking was taken back, which left a hint.
	undone bool

	timer   clock.Timer
	timerAt int64 // when timer fires, queue.NoDue if there is none
}

// Run implements sequencer.Epochs.
func (l *line) Run() (more bool) {
	s := l.s
	s.counters.epochs.Inc()
	l.arrivals = s.arrivals.Detach(l.arrivals)
	perturb.Point()
	waiters := s.rechecks.take()
	if l.queue == nil && len(l.arrivals) > 0 {
		l.build()
	}
	l.refresh()
	if l.queue != nil {
		if len(waiters) > 0 {
			l.queue.UnblockAll()
		}
		l.undone, l.queue.Unfinished = false, false
		budget := epochSteps
		more = l.work(&budget) || l.undone || l.queue.Unfinished
		l.sizes.Record(int64(epochSteps - budget))
		if invariants.Enabled && l.queue.Len() <= checkedLength {
			if err := l.queue.Check(); err != nil {
				invariants.Violated("%v", err)
			}
		}
		s.ledger.setDeficits(l.queue.Deficit)
		l.setTimer()
	}
	for _, done := range waiters {
		if more {
			s.rechecks.add(done)
		} else {
			close(done)
		}
	}
	return more
}

// work serves the backlog and then the arrivals, as far as the budget allows.
func (l *line) work(budget *int) (more bool) {
	status := l.queue.Serve(budget)
	for ; status == queue.Again; status = l.queue.Serve(budget) {
		l.refresh()
	}
	if status == queue.Exhausted {
		return true
	}
	for i, j := range l.arrivals {
		if *budget--; *budget <= 0 || l.arrive(j, budget) == queue.Exhausted {
			l.arrivals = append(l.arrivals[:0], l.arrivals[i:]...)
			return true
		}
		l.arrivals[i] = nil
	}
	l.arrivals = l.arrivals[:0]
	return false
}

// arrive decides about one arrival; if the bound is reached before that is
// clear, it is to be brought again.
func (l *line) arrive(j *job, budget *int) queue.Status {
	for {
		var refused error
		switch {
		case j.state.Load() != jobWaiting:
			l.gone(j, true)
			return queue.Done
		case l.world.Closed:
			refused = &Error{Code: ErrClosed, Request: j.id}
		case j.due <= l.now:
			refused = pastDue(j.id)
		case len(l.world.Table.Slots()) == 0:
			refused = noWorkers(j.id)
		}
		j.arrived = true
		if refused != nil {
			l.refuse(j, refused)
			return queue.Done
		}
		if j.entry.Seq == 0 {
			l.seq++
			j.setEntry(l.seq, l.now, j.request.BestCached(l.world.Table))
		}
		class := l.world.Profile.Classify(j.class, max(0, j.entry.Raw-j.entry.Cached))
		status := l.queue.Arrive(class, &j.entry, budget)
		if status == queue.Done {
			return status
		}
		j.arrived = false
		if status == queue.Exhausted {
			return status
		}
		l.refresh()
	}
}

// gone notes that a job whose owner has left came off a stack, and gives it back
// once it has come off both.
func (l *line) gone(j *job, arrived bool) {
	if arrived {
		j.arrived = true
	} else {
		j.left = true
	}
	if j.arrived && j.left {
		l.s.putJob(j)
	}
}

// refresh brings the line up to date: leavers, world, clock, due times, ttls,
// hints.
func (l *line) refresh() {
	s := l.s
	l.leavers = s.leavers.Detach(l.leavers[:0])
	for _, j := range l.leavers {
		if l.queue != nil {
			l.queue.Remove(&j.entry)
		}
		l.gone(j, false)
	}
	perturb.Point()
	l.now = s.now()
	if world := s.worldAt(l.now); world != l.world {
		l.adopt(world)
	}
	if l.queue != nil {
		l.queue.UnblockDue(l.now)
		for _, e := range l.queue.Overdue(l.now) {
			l.queue.Remove(e)
			l.refuse(e.Value, pastDue(e.Value.id))
		}
	}
	s.expiry.sweep(s, l.world, l.now)
	if ring := s.env.Hints(); ring != nil {
		if ring.Drain(l.unblock) {
			s.logHintsOverflowed(ring.Overflows())
			ring.ClearAll(l.world.Table.Shards)
			if l.queue != nil {
				l.queue.UnblockAll()
			}
		}
	}
	if l.queue != nil && l.world.Closed {
		for _, e := range l.queue.All() {
			l.queue.Remove(e)
			l.refuse(e.Value, &Error{Code: ErrClosed, Request: e.Value.id})
		}
	}
}

// unblock has the lanes tested again that a hint concerns. The hint's mark is
// clear by now, so the load read here is at least as new as the hint.
func (l *line) unblock(shard *shards.Shard) {
	if l.queue == nil || l.queue.Len() == 0 {
		return
	}
	place := l.world.Table.Slot(shard.ID())
	if place < 0 {
		return
	}
	slot := &l.world.Table.Slots()[place]
	view := slot.Shard.View()
	at := pool.At(l.now)
	decays := view.Prefill.Decays()
	l.queue.Unblock(shard.ID(), func(class int) bool {
		// A load that now decays otherwise may free the rank at another instant
		// than the one remembered.
		return decays || !at.Busy(l.world.BusyAbove(class, slot), &view.Load)
	})
}

// build makes the queue for the first who stands in line.
func (l *line) build() {
	l.timerAt = queue.NoDue
	l.world = l.s.world.Load()
	l.gates, l.looks = &pool.Look{Rand: l.s.rand}, &pool.Look{Rand: l.s.rand}
	l.queue = queue.NewLine(pool.ClassSpecs(l.world.Profile), queue.Host[*job](l))
	l.s.ledger.reset(l.world.Profile)
	l.sizes = epochBuckets.Histogram()
	l.s.counters.epochSizes.Store(l.sizes)
}

// adopt goes over to another world. What a change may have freed is tested
// again; another profile classes those who wait anew.
func (l *line) adopt(world *pool.World) {
	old := l.world
	l.world = world
	if l.queue == nil {
		return
	}
	l.queue.UnblockAll()
	if old.Profile == world.Profile {
		return
	}
	waiting := l.queue.All()
	for _, e := range waiting {
		l.queue.Remove(e)
	}
	l.queue.Reset(pool.ClassSpecs(world.Profile))
	for _, e := range waiting {
		class := world.Profile.Classify(e.Value.class, max(0, e.Raw-e.Cached))
		e.Value.served = world.Profile.Class(class).Name
		l.queue.Add(class, e)
	}
	l.s.ledger.reclass(world.Profile, waiting)
}

// Heir implements sequencer.Epochs.
func (l *line) Heir() chan<- struct{} {
	if l.queue != nil {
		for j := range l.queue.Waiting {
			if j.isHeir() {
				return j.wake
			}
		}
	}
	for _, j := range l.arrivals {
		if j.isHeir() {
			return j.wake
		}
	}
	return nil
}

// isHeir reports whether the job's owner will enter the turn if it is woken. One
// that is still telling decisions to a hook, on its way to park, may take its time.
func (j *job) isHeir() bool { return j.parked.Load() && j.state.Load() == jobWaiting }

// nextRetest returns the instant at which time alone may unblock a lane: by what
// decays, or because a worker is no longer set aside.
func (l *line) nextRetest() int64 {
	if l.queue == nil || l.queue.Len() == 0 {
		return queue.NoDue
	}
	return min(l.queue.NextRetest(), l.world.Table.AsideEnd())
}

// setTimer has the turn entered when the next due time or retest instant comes.
// There is a timer only while there is one.
func (l *line) setTimer() {
	next := min(l.queue.NextDue(), l.nextRetest())
	if next == l.timerAt && next > l.now {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.timerAt = nil, next
	if next != queue.NoDue {
		l.timer = l.s.clock.AfterFunc(time.Duration(next-l.now), l.s.enterTurn)
	}
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
