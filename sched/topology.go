package sched

import (
	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// UpsertWorker adds a worker or updates the one of that id. Ranks that stay keep their
// load; the bookings of ranks that go end at once. A worker that names another
// incarnation than the one known is removed and added, in one step: its bookings end,
// its draining and setting aside too. Incarnations have no order, so announce the
// latest one last. An invalid worker changes nothing; the error matches ErrInvalid and
// names every rule that the worker breaks.
func (s *Scheduler) UpsertWorker(w Worker) error {
	return s.change(func(world *pool.World) ([]*shards.Shard, error) {
		table, gone, err := world.Table.With([]shards.Worker{shards.Worker(w)}, s.newShard)
		if err != nil {
			return nil, invalidWorkers(err)
		}
		world.Table = table
		return gone, nil
	})
}

// PoolSet is a set of workers that SetWorkers replaces in the same step.
type PoolSet struct {
	apply func(*shards.Table) *shards.Table
}

// AlsoOverloaded has SetWorkers do what SetOverloaded does, in the same step.
func AlsoOverloaded(ids []uint64) PoolSet {
	return PoolSet{func(t *shards.Table) *shards.Table { return t.WithOverloaded(ids) }}
}

// AlsoAvailable has SetWorkers do what SetAvailable does, in the same step.
func AlsoAvailable(ids []uint64) PoolSet {
	return PoolSet{func(t *shards.Table) *shards.Table { return t.WithAvailable(ids) }}
}

// AlsoDraining has SetWorkers make these the workers that drain, in the same step: all
// others do not drain. Ids of unknown workers are ignored.
func AlsoDraining(ids []uint64) PoolSet {
	return PoolSet{func(t *shards.Table) *shards.Table { return t.WithAllDraining(ids) }}
}

// SetWorkers makes these the workers, all in one step, removals first. If a worker
// is invalid or repeated, nothing changes; the error matches ErrInvalid and joins an
// *Error for each such worker. The sets that are given with the workers hold from the
// same step on: no request that waits finds the old workers gone and the new ones not
// yet available. Sets that are not given stay as they are.
func (s *Scheduler) SetWorkers(workers []Worker, also ...PoolSet) error {
	all := make([]shards.Worker, len(workers))
	for i, w := range workers {
		all[i] = shards.Worker(w)
	}
	return s.change(func(world *pool.World) ([]*shards.Shard, error) {
		table, gone, err := world.Table.Replaced(all, s.newShard)
		if err != nil {
			return nil, invalidWorkers(err)
		}
		for _, set := range also {
			if set.apply != nil {
				table = set.apply(table)
			}
		}
		world.Table = table
		return gone, nil
	})
}

// RemoveWorker removes a worker and ends its bookings at once. An unknown id is
// ErrNotFound.
func (s *Scheduler) RemoveWorker(id uint64) error { return s.RemoveIncarnation(id, "") }

// RemoveIncarnation removes a worker if it is the process of that incarnation, or if
// either is not known. If it is another, nothing changes and the error is
// ErrStaleIncarnation: so a late message about an old process does not remove the one
// that took its place.
func (s *Scheduler) RemoveIncarnation(id uint64, incarnation string) error {
	return s.change(func(world *pool.World) ([]*shards.Shard, error) {
		if err := known(world.Table, id, incarnation); err != nil {
			return nil, err
		}
		table, gone, _ := world.Table.Without(id)
		world.Table = table
		return gone, nil
	})
}

// known says whether the table has the worker, as the incarnation named.
func known(t *shards.Table, id uint64, incarnation string) error {
	switch w := t.Worker(id); {
	case w == nil:
		return unknownWorker(id)
	case w.Another(incarnation):
		return staleIncarnation(id, incarnation, w.Incarnation)
	}
	return nil
}

// DrainWorker has a worker take nothing new and keep its bookings, until UndrainWorker
// or its removal. An unknown id is ErrNotFound.
func (s *Scheduler) DrainWorker(id uint64) error { return s.setDraining(id, true) }

// UndrainWorker ends the draining of a worker; a worker that does not drain stays as
// it is. An unknown id is ErrNotFound.
func (s *Scheduler) UndrainWorker(id uint64) error { return s.setDraining(id, false) }

func (s *Scheduler) setDraining(id uint64, draining bool) error {
	return s.change(func(world *pool.World) ([]*shards.Shard, error) {
		table, ok := world.Table.WithDraining(id, draining)
		if !ok {
			return nil, unknownWorker(id)
		}
		world.Table = table
		return nil, nil
	})
}

// SetOverloaded makes these the overloaded workers. Ids need not exist.
func (s *Scheduler) SetOverloaded(ids []uint64) error {
	return s.change(func(world *pool.World) ([]*shards.Shard, error) {
		world.Table = world.Table.WithOverloaded(ids)
		return nil, nil
	})
}

// SetAvailable makes these the available workers; nil makes all available, an
// empty list none. Ids need not exist.
func (s *Scheduler) SetAvailable(ids []uint64) error {
	return s.change(func(world *pool.World) ([]*shards.Shard, error) {
		world.Table = world.Table.WithAvailable(ids)
		return nil, nil
	})
}

// Worker returns a copy of one worker as it is now, looked up in the current
// table. An unknown id is ErrNotFound.
func (s *Scheduler) Worker(id uint64) (Worker, error) {
	if err := s.made(); err != nil {
		return Worker{}, err
	}
	w := s.world.Load().Table.Worker(id)
	if w == nil {
		return Worker{}, unknownWorker(id)
	}
	copied := Worker(*w)
	copied.Taints = append([]string(nil), w.Taints...)
	return copied, nil
}

// newShard makes a rank, with the load that peers said they cause on it. REQUIRES: edit.
func (s *Scheduler) newShard(id lifecycle.RankID) *shards.Shard {
	shard := shards.NewShard(id, s.env)
	s.peers.placeOn(shard)
	return shard
}

// SetProfile replaces the policy profile. Waiters stay: each is classed again by the
// name it asked for, arrival order stands, deficits start at 0.
func (s *Scheduler) SetProfile(p *policy.Profile) error {
	if err := s.made(); err != nil {
		return err
	}
	if p == nil {
		return &Error{Code: ErrInvalid, Rule: "profile: must not be nil"}
	}
	return s.change(func(w *pool.World) ([]*shards.Shard, error) {
		s.logProfile(w.Profile, p)
		w.Profile = p
		s.classes.SetProfile(p)
		return nil, nil
	})
}

// SetSelector replaces the selector; nil means selector.KV().
func (s *Scheduler) SetSelector(sel selector.Selector) error {
	if sel == nil {
		sel = selector.KV()
	}
	return s.change(func(w *pool.World) ([]*shards.Shard, error) {
		w.Selector = sel
		return nil, nil
	})
}

// change replaces the world by what edit makes of it, and then lets the waiters see it.
func (s *Scheduler) change(edit func(*pool.World) (gone []*shards.Shard, err error)) error {
	if err := s.replace(edit); err != nil {
		return err
	}
	if s.waiting.Load() > 0 {
		s.enterTurn(lifecycleAllowance)
	} else {
		s.flush()
	}
	return nil
}

// replace replaces the world by what edit makes of it, and does not serve the line.
// After an error it is as it was.
func (s *Scheduler) replace(edit func(*pool.World) (gone []*shards.Shard, err error)) error {
	if err := s.made(); err != nil {
		return err
	}
	s.edit.Lock()
	defer s.edit.Unlock()
	next := *s.world.Load()
	before := next
	gone, err := edit(&next)
	if err != nil {
		return err
	}
	moved := next.Table != before.Table || pool.CountOtherwise(before.Profile, next.Profile)
	if moved {
		next.Index = next.Table.Reindex(next.Index, pool.IndexWeights(s.params))
	}
	if next.Profile.CanQueue() {
		s.env.EnableHints()
	}
	// Until the new world is published there are hints for the classes of both.
	watched := pool.Watched(next.Profile)
	s.env.Watch(watched.Or(s.env.Watched()))
	// From here on nothing is booked on ranks that are gone: a booking
	// checks under the rank's lock that its world still stands, so what was
	// booked before is seen by the drop, which takes the lock after.
	world := next.Made()
	s.world.Store(world)
	s.env.Watch(watched)
	perturb.Point()
	for _, shard := range gone {
		s.dropRank(shard)
	}
	if moved {
		world.CountBusy(before.Profile)
		next.Table.Shown(next.Index)
	}
	return nil
}
