package sched

import (
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// The methods of queue.Host: what the rules of admission ask of the engine. All
// are called by the holder of the turn, in the middle of an epoch.
var _ queue.Host[*job] = (*line)(nil)

// Now implements queue.Host.
func (l *line) Now() int64 { return l.now }

// Rules implements queue.Host.
func (l *line) Rules(class int) queue.Rules { return l.world.Profile.Class(class) }

// Workers implements queue.Host.
func (l *line) Workers() int64 { return limitWorkers(l.world) }

// limitWorkers is the number of workers by which limits scale.
func limitWorkers(w *pool.World) int64 { return max(1, int64(len(w.Table.Workers()))) }

// Gate implements queue.Host. In a world that has been replaced since, no instant
// is certain.
func (l *line) Gate(class int, j *job, exact bool) queue.Gate {
	gate := l.gates.Gate(l.world, &j.request, class, pool.At(l.now), exact)
	for _, retest := range l.gates.Retests() {
		l.queue.Queue().Watch(retest.Rank, retest.At)
	}
	if gate.NoneUsable() && awaits(l.world, class, j) {
		gate.MustWait, gate.Awaits = true, true
	}
	if exact && l.s.world.Load() != l.world {
		gate.MustWait = false
	}
	return gate
}

// awaits reports whether a request may wait while it has no usable rank.
func awaits(w *pool.World, class int, j *job) bool {
	return !j.doNotQueue && w.Profile.Class(class).WaitsForEndpoint()
}

// mayStand reports whether a request can be anything but refused for want of a worker.
func (s *Scheduler) mayStand(w *pool.World, j *job) bool {
	return len(w.Table.Slots()) > 0 || w.Profile.WaitsForEndpoint() && awaits(w, w.ClassOf(j.class, &j.request), j)
}

// Guard implements queue.Host. What it costs follows what the request names.
func (l *line) Guard(class int, j *job, begins bool) {
	if begins {
		l.budget.Spend(queue.CostName * l.guards.Begin(class, &j.request.Constraints))
		return
	}
	q := l.queue.Queue()
	named := l.guards.End(class, &j.request.Constraints, func(rank *RankID) {
		if rank == nil {
			q.OpenAll()
		} else {
			q.Free(*rank)
		}
	})
	l.budget.Spend(queue.CostName * named)
}

// Use implements queue.Host. A class with a ratio of busy ranks cannot tell by one.
func (l *line) Use(class int, j *job, rank queue.RankID) queue.Use {
	use, idleAt := l.world.Use(&j.request, class, rank, l.now, &l.guards)
	if idleAt != queue.NoDue {
		l.queue.Queue().Watch(rank, idleAt)
	}
	return use
}

// Usage implements queue.Host.
func (l *line) Usage(class int) queue.Usage { return l.s.ledger.usage(class) }

// DoNotQueue implements queue.Host.
func (l *line) DoNotQueue(j *job) bool { return j.doNotQueue }

// Book implements queue.Host: it books, and settles nothing.
func (l *line) Book(class int, j *job) queue.Verdict {
	l.current = j // and not reset if it breaks
	verdict := l.book(class, j)
	l.current = nil
	return verdict
}

func (l *line) book(class int, j *job) queue.Verdict {
	s := l.s
	if j.state.Load() != jobWaiting {
		return queue.Settled
	}
	began := s.sampler.Begin()
	rules := l.world.Profile.Class(class)
	j.servedClass = rules.Name
	_, never := rules.NeverQueues()
	if l.races < lostRaces/2 {
		l.looks.Take(l.world, &j.request, class, pool.At(l.now))
	} else {
		l.looks.TakeAll(l.world, &j.request, class, pool.At(l.now))
	}
	if l.looks.MustWait() {
		return queue.LostRace
	}
	a := bookTry{job: j, look: l.looks, world: l.world, class: class, never: never, turn: true}
	out, err := s.tryBook(&a, l.races >= lostRaces)
	if out == lostRace {
		l.races++
		s.counters.retries.Inc()
		return queue.LostRace
	}
	l.races = 0
	s.sampler.End(began)
	j.err = err
	return queue.Settled
}

// Grant implements queue.Host: it gives the owner what Book found. If the owner has
// left, the booking is undone, and no other booking.
func (l *line) Grant(j *job) {
	s := l.s
	l.steps++
	if j.err != nil {
		l.reject(j, j.err)
		return
	}
	rec, query, placement := j.record, j.query, j.placement
	j.decidedAt = l.now
	if j.queued {
		j.queuedFor = l.now - j.queuedAt
	}
	waited := j.queuedFor
	if !query {
		// Now, because the owner may take its time; and while nothing is reserved, since
		// the clock may break.
		l.current = j
		s.expiry.booked(s)
		l.current = nil
	}
	told := s.journal.Reserve(Decision{Kind: DecisionAdmitted, Request: j.id, Query: query, Placement: placement})
	if class, ok := s.settle(j, jobGranted); ok {
		if class != nil {
			class.waits.Waited(waited)
		}
		told.Keep()
		return
	}
	told.Drop()
	if !query && placement.Attempt != 0 {
		s.undo(rec)
		l.undone = true
	}
}

// Expire implements queue.Host.
func (l *line) Expire(j *job) { l.reject(j, pastDue(j.id)) }

// reject settles a job with an error.
func (l *line) reject(j *job, err error) {
	l.budget.Spend(costReject)
	s := l.s
	j.err, j.decidedAt = err, l.now
	class := j.servedClass // after the job is settled, it is its owner's
	told := s.journal.Reserve(Decision{Kind: DecisionRejected, Request: j.id, Query: j.query, Err: err})
	if _, ok := s.settle(j, jobRejected); ok {
		s.countRejection(class, err)
		told.Keep()
	} else {
		told.Drop()
	}
}

// Reject implements queue.Host.
func (l *line) Reject(class int, j *job, why queue.Rejection) {
	name := l.world.Profile.Class(class).Name
	j.servedClass = name
	switch why.Why {
	case queue.Overloaded:
		l.looks.TakeAll(l.world, &j.request, class, pool.At(l.now))
		if _, failed := l.looks.Choose(l.s.rand); failed != nil {
			l.reject(j, failureError(j.id, failed))
		}
	case queue.WouldQueue:
		l.reject(j, wouldQueue(j.id, name, why.Usage, l.gates.WhyWait())) // as the gate was found just before
	default:
		l.reject(j, queueFull(j.id, name, why.Limit, why.Usage.Of(why.Limit), why.Bound))
	}
}

// Queued implements queue.Host.
func (l *line) Queued(class int, j *job) {
	// If its owner leaves meanwhile, that event comes after this one, or this one is
	// not pushed.
	told := l.s.journal.Reserve(Decision{Kind: DecisionQueued, Request: j.id, Query: j.query})
	j.servedClass, j.queuedAt, j.queued = l.world.Profile.Class(class).Name, l.now, true
	if l.s.ledger.count(l.s, j, class) {
		told.Keep()
	} else {
		told.Drop()
	}
}
