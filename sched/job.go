package sched

import (
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/journal"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// The states of a job. It leaves waiting once, by a compare-and-swap: the winner
// settles it, and the loser finds the outcome.
const (
	jobWaiting  uint32 = iota
	jobGranted         // by the holder of the turn: placement is set
	jobRejected        // by the holder of the turn: err is set
	jobLeft            // by its owner, whose context has ended
)

// job is one call of Schedule or Query on its way. It comes from a pool, and goes back
// when no goroutine knows it any more: from the owner, if the turn's holder settled it
// or it never stood in line; from the holder, if the owner left.
type job struct {
	id         string
	class      string // as asked for
	query      bool
	doNotQueue bool
	due        int64 // ns, queue.NoDue for none
	priority   uint32
	jump       int64 // ns
	arrival    int64 // ns, unknownArrival until the first look
	request    pool.Request
	record     *record
	// told is the place in the journal of a decision outside the turn.
	told  *journal.Slot[Decision]
	entry queue.Entry[*job]

	// best is the most cached tokens of any rank in a table, for the arrival.
	best   int64
	bestIn *shards.Table

	// The tickets are linked while the job is on the stack of arrivals or of
	// leavers.
	arrivalTicket, leaverTicket sequencer.Ticket[*job]
	state                       atomic.Uint32
	// published: it stood in line; the owner's.
	published bool
	// wake has room for one token, which means "look".
	wake chan struct{}

	// The outcome, written by the holder of the turn before it settles the job, or
	// by the owner if it does not stand in line.
	placement Placement
	err       error
	// servedClass names the class it was decided in, decidedAt is when that was, in
	// ns; written likewise, or by the owner if it does not stand in line.
	servedClass string
	decidedAt   int64
	// queuedAt is when it was queued, queuedFor how long it was when it was
	// granted, both in ns; written likewise.
	queuedAt, queuedFor int64
	queued              bool

	// totals are where the job is counted while it waits: for the profile that stands
	// and, while the waiters are moved to another, for that one; guarded by ledger.mu.
	totals [2]count
	// offArrivals and offLeavers are the holder's: the job came off that stack.
	offArrivals, offLeavers bool

	// What the holder may read after the caller has returned is kept here.
	blocks   []uint64
	overlaps []lifecycle.Overlap
	ids      []uint64
	taints   []string
}

const unknownArrival = -1 << 63

func newJob() *job {
	j := &job{wake: make(chan struct{}, 1)}
	j.own()
	return j
}

// own ties the job's parts to it.
func (j *job) own() {
	j.arrivalTicket.Value, j.leaverTicket.Value = j, j
	j.totals[0].place.job, j.totals[1].place.job = j, j
}

// prepare takes over what the request says.
func (s *Scheduler) prepare(j *job, r *Request, query bool, arrival int64) error {
	if err := r.derive(&s.params, &j.request); err != nil {
		return err
	}
	j.id, j.class, j.query, j.doNotQueue = r.ID, r.Class, query, r.DoNotQueue
	j.priority, j.jump, j.arrival = r.Priority, queue.Jump(r.Jump), arrival
	j.due = queue.NoDue
	if !r.Due.IsZero() {
		j.due = s.since(r.Due)
	}
	return nil
}

// keep copies what the request lent, because the holder of the turn may look at
// it after the caller has left, and finds out what need not be left to the holder.
func (j *job) keep(w *pool.World) {
	// An outcome without a placement means that nothing was booked.
	j.published, j.placement = true, Placement{}
	r := &j.request
	j.blocks = append(j.blocks[:0], r.Blocks...)
	j.overlaps = append(j.overlaps[:0], r.Overlaps...)
	r.Blocks, r.Overlaps = j.blocks, j.overlaps
	c := &r.Constraints
	allowed, excluded := len(c.Allowed), len(c.Excluded)
	j.ids = append(append(j.ids[:0], c.Allowed...), c.Excluded...)
	if c.Allowed != nil {
		c.Allowed = j.ids[:allowed:allowed]
		if allowed == 0 {
			c.Allowed = []uint64{}
		}
	}
	c.Excluded = j.ids[allowed : allowed+excluded]
	j.taints = append(j.taints[:0], c.RequiredTaints...)
	c.RequiredTaints = j.taints
	j.entry.Lane = c.Key()
	j.entry.Scope = queue.Scope{Workers: c.Allowed}
	if c.Pinned {
		j.entry.Scope = queue.Scope{Pinned: true, Rank: c.Pin}
	}
	j.best, j.bestIn = r.BestCached(w.Table), w.Table
}

// settle ends the job's wait with an outcome that was written before. It reports
// false if the owner left first. After it returned true the job is its owner's.
// class is the one it was queued in, nil if it was not.
func (s *Scheduler) settle(j *job, state uint32) (class *classCount, ok bool) {
	class = s.ledger.uncount(j)
	wake := j.wake
	perturb.Point()
	if !j.state.CompareAndSwap(jobWaiting, state) {
		return nil, false
	}
	perturb.Point()
	s.waiting.Add(-1)
	perturb.Point()
	sequencer.Wake(wake)
	return class, true
}

// getJob takes a job from the pool.
func (s *Scheduler) getJob() *job { return s.jobs.Get().(*job) }

// putJob gives a job back. REQUIRES: no other goroutine knows it.
func (s *Scheduler) putJob(j *job) {
	if !j.published {
		// The rest is as it was; to clear all of it takes longer than a decision.
		j.id, j.class, j.servedClass, j.record = "", "", "", nil
		j.request.LetGo()
		s.jobs.Put(j)
		return
	}
	select {
	case <-j.wake:
	default:
	}
	clear(j.taints)
	*j = job{
		wake: j.wake, blocks: trimmed(j.blocks), overlaps: trimmed(j.overlaps),
		ids: trimmed(j.ids), taints: j.taints[:0],
		request: pool.Request{Scratch: trimmed(j.request.Scratch)},
	}
	j.own()
	s.jobs.Put(j)
}

// trimmed empties a buffer and lets go of one that became unusually large.
func trimmed[E any](buffer []E) []E {
	if cap(buffer) > 4096 {
		return nil
	}
	return buffer[:0]
}

// setEntry makes the entry of an arrival, beside what keep has found out.
func (j *job) setEntry(seq uint64, now int64, w *pool.World) {
	if j.arrival == unknownArrival {
		j.arrival = now
	}
	cached := j.best
	if w.Table != j.bestIn {
		cached = j.request.BestCached(w.Table)
	}
	e := &j.entry
	e.Value, e.Seq, e.Arrival, e.Came, e.Due, e.Priority, e.Jump = j, seq, j.arrival, now, j.due, j.priority, j.jump
	e.Cost, e.Raw, e.Cached = pool.Cost(j.request.ISL, cached), j.request.ISL, cached
}

// waitedFor returns how long a granted job has waited since it arrived.
func (j *job) waitedFor() time.Duration { return time.Duration(j.decidedAt - j.arrival) }
