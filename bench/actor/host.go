package actor

import (
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// The methods of queue.Host: what the rules of admission ask of the actor.
var _ queue.Host[*job] = (*core)(nil)

// Now implements queue.Host: the time of this command.
func (c *core) Now() int64 {
	if !c.nowKnown {
		c.now, c.nowKnown = c.e.now(), true
	}
	return c.now
}

// Rules implements queue.Host.
func (c *core) Rules(class int) queue.Rules { return c.e.world.Load().Profile.Class(class) }

// Workers implements queue.Host.
func (c *core) Workers() int64 { return max(1, int64(len(c.e.world.Load().Table.Workers()))) }

// Gate implements queue.Host.
func (c *core) Gate(class int, j *job, exact bool) queue.Gate {
	gate := c.look.Gate(c.e.world.Load(), &j.request, class, pool.At(c.Now()), exact)
	for _, retest := range c.look.Retests() {
		c.line.Queue().Watch(retest.Rank, retest.At)
	}
	if gate.NoneUsable() && awaits(c.e.world.Load(), class, j) {
		gate.MustWait, gate.Awaits = true, true
	}
	return gate
}

// awaits reports whether a request may wait while it has no usable rank.
func awaits(w *pool.World, class int, j *job) bool {
	return !j.doNotQueue && w.Profile.Class(class).WaitsForEndpoint()
}

// Guard implements queue.Host.
func (c *core) Guard(class int, j *job, begins bool) {
	if begins {
		c.guards.Begin(class, &j.request.Constraints)
		return
	}
	q := c.line.Queue()
	c.guards.End(class, &j.request.Constraints, func(rank *sched.RankID) {
		if rank == nil {
			q.OpenAll()
		} else {
			q.Free(*rank)
		}
	})
}

// Use implements queue.Host.
func (c *core) Use(class int, j *job, rank queue.RankID) queue.Use {
	use, idleAt := c.e.world.Load().Use(&j.request, class, rank, c.Now(), &c.guards)
	if idleAt != queue.NoDue {
		c.line.Queue().Watch(rank, idleAt)
	}
	return use
}

// Usage implements queue.Host.
func (c *core) Usage(class int) queue.Usage { return c.usage[class] }

// DoNotQueue implements queue.Host.
func (c *core) DoNotQueue(j *job) bool { return j.doNotQueue }

// lostRaces is how many races the actor loses before it locks all ranks.
const lostRaces = 8

// Book implements queue.Host: it books, and answers no caller yet. In the form actor
// nothing moves meanwhile, and the first attempt succeeds. In the direct form
// loads do: the choice is confirmed under the lock of its rank and, after some
// lost races or where the gate depends on all ranks, made under all their locks.
func (c *core) Book(class int, j *job) queue.Verdict {
	w, l := c.e.world.Load(), &c.look
	l.Take(w, &j.request, class, pool.At(c.Now()))
	if l.MustWait() {
		return c.lost()
	}
	choice, failed := l.Choose(c.e.rand)
	if failed != nil {
		c.races, j.err = 0, face.FailureError(j.id, failed)
		return queue.Settled
	}
	ratio := w.Profile.Class(class).BusyWorkerRatio
	all := c.e.config.Direct && (c.races >= lostRaces || ratio > 0 && ratio < 1)
	var held bool
	if all {
		held, failed = c.bookAll(j, choice)
	} else {
		held = c.bookOne(class, j, choice)
	}
	if !held {
		return c.lost()
	}
	c.races = 0
	if failed != nil {
		j.err = face.FailureError(j.id, failed)
	}
	return queue.Settled
}

func (c *core) lost() queue.Verdict {
	c.races++
	c.retries++
	return queue.LostRace
}

// bookOne books if what was seen still holds: the choice stands, the gate is
// open because the chosen rank or another is not busy, and nothing was freed
// there for others that have not been looked at yet.
func (c *core) bookOne(class int, j *job, choice pool.Choice) (held bool) {
	l := &c.look
	chosen := l.Slot(choice.Candidate)
	witness := chosen
	gated := l.World.Profile.Class(class).CanQueue()
	if gated && l.WasBusy(choice.Candidate) {
		other := l.IdleCandidate(choice.Candidate)
		if other < 0 {
			return false
		}
		witness = l.Slot(other)
	}
	shards.LockBoth(chosen.Shard, witness.Shard)
	defer shards.UnlockBoth(chosen.Shard, witness.Shard)
	if c.line.Len() > 0 && (chosen.Shard.HintedLocked() || witness.Shard.HintedLocked()) {
		return false
	}
	load := chosen.Shard.LoadLocked()
	if gated {
		seen := witness.Shard.LoadLocked()
		if l.Instant.Busy(l.World.BusyAbove(class, witness), &seen) || !l.MayTakeLocked(witness, &seen) {
			return false
		}
	}
	return l.MayTakeLocked(chosen, &load) && l.StandsLocked(choice, &load) && c.takeLocked(j, choice)
}

// bookAll looks, chooses and books with all eligible ranks locked. An embedder's
// selector is not called under locks: what it chose before is booked.
func (c *core) bookAll(j *job, choice pool.Choice) (held bool, failed *pool.Failure) {
	l := &c.look
	rank := l.Candidate(choice.Candidate).Rank
	l.LockEligible()
	defer l.UnlockEligible()
	if c.line.Len() > 0 && l.HintedLocked() {
		return false, nil
	}
	l.Retake()
	switch {
	case l.MustWait():
		return false, nil
	case l.BuiltinSelector():
		if choice, failed = l.Choose(c.e.rand); failed != nil {
			return true, failed
		}
	default:
		choice.Candidate = l.Find(rank)
		l.Complete(choice.Candidate)
	}
	return c.takeLocked(j, choice), nil
}

// takeLocked notes the placement of a job and, unless it is a query, books it.
// REQUIRES: the lock of the chosen rank.
func (c *core) takeLocked(j *job, choice pool.Choice) (held bool) {
	if !j.query() && !c.look.TrackLocked(choice) {
		return false
	}
	j.placement = placementOf(c.look.Placed(choice.Candidate))
	if !j.query() {
		c.book(j, c.look.Slot(choice.Candidate).Shard)
	}
	return true
}

// Grant implements queue.Host: it tells the owner what Book found.
func (c *core) Grant(j *job) {
	if j.err != nil {
		c.refuse(j, j.err)
		return
	}
	c.tell(&sched.Decision{Kind: sched.DecisionAdmitted, Request: j.id, Query: j.query(), Placement: j.placement})
	c.settle(j, granted, nil)
}

// Expire implements queue.Host.
func (c *core) Expire(j *job) { c.refuse(j, pastDue(j.id)) }

// Reject implements queue.Host.
func (c *core) Reject(class int, j *job, why queue.Rejection) {
	w := c.e.world.Load()
	refusal := &sched.Error{Request: j.id, Class: w.Profile.Class(class).Name}
	usage := why.Usage
	switch why.Why {
	case queue.Overloaded:
		c.look.Take(w, &j.request, class, pool.At(c.Now()))
		_, failed := c.look.Choose(c.e.rand)
		c.refuse(j, face.FailureError(j.id, failed))
		return
	case queue.WouldQueue:
		refusal.Code, refusal.Pending, refusal.Tokens, refusal.Cached = sched.ErrWouldQueue, usage.Requests, usage.Raw, usage.Cached
	default:
		refusal.Code, refusal.Limit, refusal.Usage, refusal.Bound = sched.ErrQueueFull, why.Limit, usage.Of(why.Limit), why.Bound
	}
	c.refuse(j, refusal)
}

// Queued implements queue.Host.
func (c *core) Queued(class int, j *job) {
	c.count(j, class)
	c.tell(&sched.Decision{Kind: sched.DecisionQueued, Request: j.id, Query: j.query()})
}
