package actor

import (
	"context"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// Schedule implements engine.Engine.
func (e *Engine) Schedule(ctx context.Context, r *sched.Request) (engine.Booking, error) {
	j := e.getJob()
	j.kind = toBook
	placement, err := e.ask(ctx, j, r)
	if err != nil {
		return nil, err
	}
	rec := j.record
	e.putJob(j)
	e.admitted.Add(1)
	rec.handle.init(e, rec, placement.Attempt)
	return &rec.handle, nil
}

// Query implements engine.Engine.
func (e *Engine) Query(ctx context.Context, r *sched.Request) (sched.Placement, error) {
	j := e.getJob()
	j.kind = toQuery
	placement, err := e.ask(ctx, j, r)
	if err != nil {
		return sched.Placement{}, err
	}
	e.putJob(j)
	e.queries.Add(1)
	return placement, nil
}

// Select implements engine.Engine. In the direct form the caller looks at the
// published loads itself.
func (e *Engine) Select(ctx context.Context, r *sched.Request) (sched.Placement, error) {
	if !e.config.Direct {
		j := e.getJob()
		j.kind = toSelect
		placement, err := e.ask(ctx, j, r)
		if err == nil {
			e.putJob(j)
		}
		return placement, err
	}
	l := e.looks.Get().(*pool.Look)
	defer func() {
		l.Reset()
		e.looks.Put(l)
	}()
	if err := e.door(ctx, toSelect, r, &l.Own); err != nil {
		return sched.Placement{}, err
	}
	return e.selectNow(e.current(), l, r.ID, &l.Own)
}

// selectNow makes an advisory selection.
func (e *Engine) selectNow(w *pool.World, l *pool.Look, id string, r *pool.Request) (sched.Placement, error) {
	l.Take(w, r, -1, pool.Lazily(e.env.Now))
	choice, failed := l.Choose(e.rand)
	if failed != nil {
		return sched.Placement{}, face.FailureError(id, failed)
	}
	return placementOf(l.Placed(choice.Candidate)), nil
}

// door makes the checks that need neither the ranks nor the line.
func (e *Engine) door(ctx context.Context, k kind, r *sched.Request, derived *pool.Request) error {
	if e.world.Load().Closed {
		return &sched.Error{Code: sched.ErrClosed, Request: r.ID}
	}
	if r.ID == "" && k != toSelect {
		return &sched.Error{Code: sched.ErrInvalid, Rule: "request id: must not be empty"}
	}
	if err := face.Derive(r, &e.params, derived); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return contextError(r.ID, err)
	}
	if !derived.Constraints.PinAllowed() {
		return pinNotAllowed(r.ID, derived.Constraints.Pin)
	}
	return nil
}

// ask takes a job to the actor and waits for the outcome. After an error the job
// is not the caller's any more.
func (e *Engine) ask(ctx context.Context, j *job, r *sched.Request) (sched.Placement, error) {
	err := e.door(ctx, j.kind, r, &j.request)
	if err != nil {
		e.turnAway(j, r.ID, err)
		return sched.Placement{}, err
	}
	j.id, j.class, j.doNotQueue = r.ID, r.Class, r.DoNotQueue
	j.priority, j.jump, j.due = r.Priority, queue.Jump(r.Jump), queue.NoDue
	if !r.Due.IsZero() {
		j.due = int64(r.Due.Sub(e.origin))
	}
	if j.kind != toSelect {
		j.record = new(record)
		j.record.ID = r.ID
	}
	if !e.send(ctx, j) {
		err := contextError(r.ID, ctx.Err())
		e.turnAway(j, r.ID, err)
		return sched.Placement{}, err
	}
	select {
	case <-j.reply:
	case <-ctx.Done():
		return sched.Placement{}, e.depart(j, contextError(r.ID, ctx.Err()))
	}
	if j.err != nil {
		err := j.err
		e.putJob(j)
		return sched.Placement{}, err
	}
	// The context may have ended while the grant was on its way.
	if err := ctx.Err(); err != nil && j.kind != toSelect {
		return sched.Placement{}, e.depart(j, contextError(r.ID, err))
	}
	return j.placement, nil
}

// send reports false if the context ended before there was room.
func (e *Engine) send(ctx context.Context, cmd command) bool {
	select {
	case e.commands <- cmd:
	default:
		select {
		case e.commands <- cmd:
		case <-ctx.Done():
			return false
		}
	}
	e.sent()
	return true
}

// turnAway leaves word of a refusal that was made without the actor, and gives
// the job back. The caller does not wait for it to be told.
func (e *Engine) turnAway(j *job, id string, err error) {
	if j.kind != toSelect {
		e.departures.add(departure{id: id, query: j.query(), err: err})
		e.nudge()
	}
	e.putJob(j)
}

// depart has the actor take back whatever became of the job, and returns the
// error that the call ends with. It waits for no more than what the actor is
// doing right now. The job is not used again: it may still be in the channel.
func (e *Engine) depart(j *job, err error) error {
	e.departures.add(departure{job: j, id: j.id, query: j.query(), err: err})
	e.nudge()
	for <-j.reply != left {
	}
	return j.err
}
