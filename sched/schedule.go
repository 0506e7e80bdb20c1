package sched

import (
	"context"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// Schedule books a rank for the request, at once or when its turn comes, and
// returns the booking. It waits as long as ctx and the request's due time allow.
//
// Errors: ErrInvalid, ErrClosed, ErrPinNotAllowed, ErrDuplicate, ErrDeadline,
// ErrCanceled, ErrNoEndpoints, ErrOverloaded, ErrPinnedOverloaded, ErrQueueFull,
// ErrWouldQueue, ErrSelector, ErrInternal, as *Error. After an error nothing is booked and the
// id is free.
func (s *Scheduler) Schedule(ctx context.Context, r *Request) (*Booking, error) {
	return s.schedule(ctx, r, unknownArrival)
}

func (s *Scheduler) schedule(ctx context.Context, r *Request, arrival int64) (*Booking, error) {
	if err := s.present(ctx, r); err != nil {
		return nil, err
	}
	var placement Placement
	rec, err := s.run(ctx, r, forBooking, arrival, &placement)
	if err != nil {
		return nil, err
	}
	return s.handle(rec, placement.Attempt), nil
}

// Query waits for the request's turn like Schedule but books nothing: it returns where
// the request would have gone. Its errors are those of Schedule.
func (s *Scheduler) Query(ctx context.Context, r *Request) (Placement, error) {
	if err := s.present(ctx, r); err != nil {
		return Placement{}, err
	}
	var placement Placement
	_, err := s.run(ctx, r, forQuery, unknownArrival, &placement)
	return placement, err
}

// Select returns where the request would go now. It does not wait, books nothing, is
// not counted and changes no state.
//
// Errors: ErrInvalid, ErrClosed, ErrCanceled, ErrDeadline (the context's),
// ErrPinNotAllowed, ErrNoEndpoints, ErrOverloaded, ErrPinnedOverloaded,
// ErrSelector, ErrInternal.
func (s *Scheduler) Select(ctx context.Context, r *Request) (p Placement, err error) {
	if err := s.present(ctx, r); err != nil {
		return Placement{}, err
	}
	defer func() {
		if cause := recover(); cause != nil {
			s.hookPanicked(hookDeciding, cause)
			p, err = Placement{}, brokenOff(r.ID)
		}
	}()
	w := s.current()
	if w.Closed || w.Draining {
		return Placement{}, &Error{Code: ErrClosed, Request: r.ID}
	}
	if err := ctx.Err(); err != nil {
		return Placement{}, contextError(r.ID, err)
	}
	l := s.looks.Get().(*pool.Look)
	defer s.putLook(l)
	request := &l.Own
	if err := r.derive(&s.params, request); err != nil {
		return Placement{}, err
	}
	if !request.Constraints.PinAllowed() {
		return Placement{}, pinNotAllowed(r.ID, &request.Constraints)
	}
	l.Take(w, request, -1, pool.Lazily(s.env.Now))
	choice, failed := l.Choose(s.rand)
	if failed != nil {
		return Placement{}, failureError(r.ID, failed)
	}
	return placementOf(l.Placed(choice.Candidate)), nil
}

// kind says what a call asks for.
type kind uint8

const (
	forBooking kind = iota
	forQuery
)

// result is what a call ends with, once its job is settled.
type result struct {
	err    error
	class  string // in which it was decided
	at     int64  // when, in ns; only if it stood in line
	stood  bool   // it was decided in line
	owned  bool   // the owner made the rejection: it is not counted yet
	undone bool   // a booking was taken back
}

// run takes a request from its arrival to its outcome. The placement is filled in
// only if there is no error, and where the caller has it: it is large.
func (s *Scheduler) run(
	ctx context.Context, r *Request, k kind, arrival int64, placement *Placement,
) (*record, error) {
	j := s.getJob()
	if err := s.admitAtDoor(ctx, j, r, k == forQuery, arrival); err != nil {
		s.reject(nil, r.ID, "", k == forQuery, err)
		s.putJob(j)
		s.flush()
		return nil, err
	}
	rec := j.record
	began := s.sampler.Begin()
	out, err := s.fastSafely(ctx, j)
	var res result
	if out == mustStand {
		var left bool
		if res, left = s.standSafely(ctx, j, k); left {
			return nil, res.err // the job is the holder's
		}
	} else {
		s.sampler.End(began)
		res = result{err: err, class: j.servedClass, owned: true}
	}
	if res.err == nil {
		*placement = j.placement
	}
	s.putJob(j)
	s.conclude(rec, k, &res, placement)
	return rec, res.err
}

// conclude does what follows an outcome: it frees the id of what is not booked,
// counts and passes on.
func (s *Scheduler) conclude(rec *record, k kind, res *result, placement *Placement) {
	switch {
	case res.err == nil:
		if rec.life != nil {
			if !res.stood {
				s.unlessEnded(rec, placement.Attempt, func() { res.at = s.now() })
			}
			s.tellGranted(rec, res.class, k == forQuery, *placement, res.at)
		}
		if k == forQuery {
			s.ids.Free(&rec.claimed)
			s.counters.queries.Inc()
		}
	case res.owned:
		s.ids.Free(&rec.claimed)
		s.reject(rec, rec.ID, res.class, k == forQuery, res.err)
		if res.undone {
			s.loadFell()
		}
	default:
		s.tellRejected(rec, rec.ID, res.class, k == forQuery, res.err, res.at)
		s.ids.Free(&rec.claimed)
	}
	s.flush()
}

// admitAtDoor makes the checks that need neither the ranks nor the line, and
// claims the id.
func (s *Scheduler) admitAtDoor(ctx context.Context, j *job, r *Request, query bool, arrival int64) error {
	w := s.world.Load()
	if w.Closed || w.Draining {
		return &Error{Code: ErrClosed, Request: r.ID}
	}
	if r.ID == "" {
		return &Error{Code: ErrInvalid, Rule: "request id: must not be empty"}
	}
	if err := s.prepare(j, r, query, arrival); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return contextError(r.ID, err)
	}
	if c := &j.request.Constraints; !c.PinAllowed() {
		return pinNotAllowed(r.ID, c)
	}
	now := int64(0)
	if j.due != queue.NoDue {
		now = s.now() // before the id is claimed: a clock may break
	}
	rec := &record{life: s.begin()}
	rec.ID = r.ID
	if !s.ids.Claim(rec, &rec.claimed) {
		return duplicate(r.ID)
	}
	j.record = rec
	var err error
	switch {
	case j.due != queue.NoDue && j.due <= now:
		err = pastDue(r.ID)
	case !s.mayStand(w, j):
		err = noWorkers(r.ID)
	}
	if err != nil {
		s.ids.Free(&rec.claimed)
	}
	return err
}

// outcome is what became of an attempt to decide without standing in line.
type outcome uint8

const (
	decided outcome = iota
	mustStand
	lostRace
)

// lostRaces is how many races a caller loses before it has the ranks locked.
const lostRaces = 8

// fastSafely is fast, safe against the embedder's code that panics or ends its
// goroutine: then the request fails, and leaves nothing.
func (s *Scheduler) fastSafely(ctx context.Context, j *job) (out outcome, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		cause := recover()
		s.hookPanicked(hookDeciding, cause)
		j.told.Drop()
		if j.record.shard.Load() != nil {
			s.undo(j.record)
		}
		out, err = decided, brokenOff(j.id)
		if cause == nil { // the goroutine ends, and no code after this runs
			s.ids.Free(&j.record.claimed)
			s.reject(j.record, j.id, j.servedClass, j.query, err)
			s.flush()
		}
	}()
	out, err = s.fast(ctx, j)
	returned = true
	return out, err
}

// fast decides without the line, if no request waits and the request need not wait, or
// if its class never queues.
func (s *Scheduler) fast(ctx context.Context, j *job) (outcome, error) {
	l := s.looks.Get().(*pool.Look)
	defer s.putLook(l)
	whole := false // all ranks are to be looked at
	for races := 0; ; races++ {
		if races > 0 && ctx.Err() != nil {
			return decided, contextError(j.id, ctx.Err())
		}
		w := s.current()
		if w.Closed {
			return decided, &Error{Code: ErrClosed, Request: j.id}
		}
		// waiting is read before the ranks: a request that starts to wait after this is
		// found by the second look, under the rank's lock.
		waiting := s.waiting.Load() != 0
		perturb.Point()
		class := w.ClassOf(j.class, &j.request)
		rules := w.Profile.Class(class)
		j.servedClass = rules.Name
		limit, never := rules.NeverQueues()
		var usage queue.Usage
		if waiting {
			if !never {
				return mustStand, nil
			}
			if rules.CanQueue() {
				var known bool
				if usage, known = s.ledger.usageFor(w.Profile, class); !known {
					return mustStand, nil
				}
			}
		}
		if at := pool.Lazily(s.env.Now); whole || races >= lostRaces/2 {
			l.TakeAll(w, &j.request, class, at)
		} else {
			l.Take(w, &j.request, class, at)
		}
		switch ruleOn(l, rules, awaits(w, class, j), usage.Requests) {
		case tryNow:
		case mustWait:
			return mustStand, nil
		case mustNotWait:
			// The world is asked after the usage was read and before the ranks are
			// found unmoved: at that instant all three stood.
			if s.world.Load() == w && (usage.Requests > 0 || l.Unmoved()) {
				return decided, queueFull(j.id, rules.Name, limit, usage.Of(limit), 0)
			}
			if races >= lostRaces {
				return mustStand, nil
			}
			whole = true // to find them unmoved
			s.counters.retries.Inc()
			continue
		}
		a := bookTry{job: j, look: l, world: w, class: class, never: never}
		if out, err := s.tryBook(&a, races >= lostRaces); out != lostRace {
			return out, err
		}
		s.counters.retries.Inc()
	}
}

// standSafely is stand for foreign code that ends the goroutine, in the turn or while
// overlaps are looked up again: then no owner takes the result, so the request leaves
// or, if it was settled first, its booking is undone.
func (s *Scheduler) standSafely(ctx context.Context, j *job, k kind) (res result, left bool) {
	returned := false
	defer func() {
		if returned {
			return
		}
		rec, err := j.record, brokenOff(j.id)
		if s.leave(j, err) {
			s.flush()
			return
		}
		res = result{err: j.err, class: j.servedClass, at: j.decidedAt, stood: true}
		if j.state.Load() == jobGranted {
			res.err, res.owned, res.undone = err, true, true
			if k == forBooking {
				s.undo(rec)
			}
		}
		s.conclude(rec, k, &res, nil)
	}()
	res, left = s.stand(ctx, j)
	returned = true
	return res, left
}

// stand publishes the job in line and waits for its outcome. left: the owner gave up,
// and nothing is left to do.
func (s *Scheduler) stand(ctx context.Context, j *job) (res result, left bool) {
	j.keep(s.world.Load())
	s.waiting.Add(1)
	perturb.Point()
	s.arrivals.Push(&j.arrivalTicket)
	perturb.Point()
	s.enterTurn(arrivalAllowance)
	gone := ctx.Done()
	for j.state.Load() == jobWaiting {
		if gone == nil {
			<-j.wake
			continue
		}
		select {
		case <-j.wake:
		case <-gone:
			err := contextError(j.id, ctx.Err())
			if s.leave(j, err) {
				return result{err: err}, true
			}
		}
	}
	res = result{class: j.servedClass, at: j.decidedAt, stood: true}
	if j.state.Load() == jobRejected {
		res.err = j.err
		return res, false
	}
	j.record.waited = j.queuedFor
	if j.placement, res.err = s.finishGrant(ctx, j); res.err != nil {
		res.owned, res.undone = true, true
		if !j.query {
			s.undo(j.record)
		}
	}
	return res, false
}

// leave settles a job whose owner has given up, with its counters; it reports false
// if the job was settled before.
func (s *Scheduler) leave(j *job, err error) (left bool) {
	rec, id, query := j.record, j.id, j.query
	if !j.state.CompareAndSwap(jobWaiting, jobLeft) {
		return false
	}
	perturb.Point()
	class := ""
	if c := s.ledger.uncount(j); c != nil {
		class = c.name
	}
	s.ids.Free(&rec.claimed)
	s.reject(rec, id, class, query, err)
	// From here on the job is the holder's, which unlinks it before it decides
	// anything.
	s.leavers.Push(&j.leaverTicket)
	perturb.Point()
	s.waiting.Add(-1)
	perturb.Point()
	s.enterTurn(lifecycleAllowance)
	return true
}

func (s *Scheduler) putLook(l *pool.Look) {
	l.Reset()
	l.Guards = nil
	s.looks.Put(l)
}
