package actor

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// asked is what a booking keeps of its request to choose another rank for it: all but
// prompt, overlaps, pin and preference.
func asked(r *pool.Request) pool.Request {
	c := &r.Constraints
	kept := pool.Request{
		ID: r.ID, ISL: r.ISL, Tracked: r.Tracked, Params: r.Params, Expected: lifecycle.NoDuration,
		Taints: slices.Clone(r.Taints),
		Constraints: shards.Constraints{
			Allowed: slices.Clone(c.Allowed), Excluded: slices.Clone(c.Excluded), RequiredTaints: slices.Clone(c.RequiredTaints),
		},
	}
	return kept
}

// moveToBest chooses another rank for a booking and moves it there, with all ranks
// locked that may be chosen and its own.
func (e *Engine) moveToBest(o *op, rec *record) {
	l := e.looks.Get().(*pool.Look)
	defer func() {
		l.Reset()
		e.looks.Put(l)
	}()
	for !e.tryToMove(l, o, rec) {
	}
}

// tryToMove reports false if the booking was moved or the world replaced meanwhile.
func (e *Engine) tryToMove(l *pool.Look, o *op, rec *record) (done bool) {
	w := e.world.Load()
	if e.config.Direct {
		w = e.current()
	}
	shard := rec.lock()
	if o.err = rec.currentLocked(o.attempt); o.err != nil {
		shard.Unlock()
		return true
	}
	e.touchLocked(rec, shard)
	r := rec.asked
	r.Blocks, r.Overlaps = shard.PromptLocked(&rec.Booking), slices.Clone(rec.overlaps)
	shard.Unlock()
	if o.allowed != nil {
		r.Constraints.Allowed = o.allowed
	}
	// An embedder's selector is not called under locks.
	l.TakeWhole(w, &r, -1, pool.Lazily(e.env.Now))
	choice, failed := l.Choose(e.rand)
	if failed != nil && !l.BuiltinSelector() {
		o.err = face.FailureError(rec.ID, failed)
		return true
	}
	var chosen sched.RankID
	if failed == nil {
		chosen = l.Candidate(choice.Candidate).Rank
	}
	l.LockEligibleAnd(shard)
	defer l.UnlockEligible()
	if rec.shard.Load() != shard || e.world.Load() != w {
		return false
	}
	if o.err = rec.currentLocked(o.attempt); o.err != nil {
		return true
	}
	load, live := shard.WithoutLocked(&rec.Booking, r.Blocks)
	l.TakeWhole(w, &r, -1, l.Instant)
	if at := l.Find(shard.ID()); at >= 0 && l.Slot(at).Shard == shard {
		l.Correct(shard.ID(), &load, live)
	}
	if l.BuiltinSelector() {
		if choice, failed = l.Choose(e.rand); failed != nil {
			o.err = face.FailureError(rec.ID, failed)
			return true
		}
	} else {
		choice.Candidate = l.Find(chosen)
	}
	to := l.Slot(choice.Candidate)
	switch {
	case to.Shard == shard:
		o.err = sched.ErrUnchanged
	case to.Shard.DeadLocked():
		return false
	default:
		o.placement, o.freed = e.moveLocked(rec, shard, to), true
	}
	return true
}

// endedToNotLive: by id the engine knows live bookings only.
func (e *Engine) endedToNotLive(rec *record) error {
	shard := rec.lock()
	live := rec.Live()
	shard.Unlock()
	if live {
		return sched.ErrUnchanged
	}
	return notLive(rec.ID)
}
