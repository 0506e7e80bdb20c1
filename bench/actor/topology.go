package actor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// edit has the actor replace the world by what f makes of it.
func (e *Engine) edit(f func(*pool.World) (gone []*shards.Shard, err error)) error {
	var err error
	ctxErr := e.do(context.Background(), func(c *core) {
		next := *e.world.Load()
		var gone []*shards.Shard
		if gone, err = f(&next); err != nil {
			return
		}
		c.adopt(next, gone)
		c.catchUp()
	})
	if ctxErr != nil {
		return ctxErr
	}
	return err
}

// adopt goes over to another world.
func (c *core) adopt(next pool.World, gone []*shards.Shard) {
	e := c.e
	old := e.world.Load()
	moved := e.config.Index && (next.Table != old.Table || pool.CountOtherwise(old.Profile, next.Profile))
	if moved {
		next.Index = next.Table.Reindex(next.Index, pool.IndexWeights(e.params))
	}
	world := next.Made()
	if world.Profile.CanQueue() {
		e.env.EnableHints()
	}
	watched := pool.Watched(world.Profile)
	e.env.Watch(watched.Or(e.env.Watched()))
	e.world.Store(world)
	e.env.Watch(watched)
	for _, shard := range gone {
		var dropped []*record
		shard.Lock()
		shard.KillLocked()
		for b := range shard.BookingsLocked() {
			dropped = append(dropped, e.takeOffLocked(shard, b))
		}
		shard.Unlock()
		for _, rec := range dropped {
			e.end(rec, true)
		}
		c.dropped += int64(len(dropped))
	}
	if moved {
		world.CountBusy(old.Profile)
		world.Table.Shown(world.Index)
	}
	c.line.Queue().OpenAll()
	if old.Profile == world.Profile {
		c.guards.Follow(world)
	} else {
		c.reclass(world.Profile)
		c.guards.Reset(world)
	}
}

// endAsides has those workers no longer overloaded whose time aside is over.
func (c *core) endAsides() {
	next := *c.e.world.Load()
	if end := next.Table.AsideEnd(); end == shards.NeverEnds || c.Now() < end {
		return
	}
	next.Table = next.Table.WithoutAsides(c.Now())
	c.adopt(next, nil)
}

// current returns the world as of now, for callers outside the actor.
func (e *Engine) current() *pool.World {
	w := e.world.Load()
	if end := w.Table.AsideEnd(); end != shards.NeverEnds && e.now() >= end {
		_ = e.do(context.Background(), func(*core) {}) // it catches up first
		w = e.world.Load()
	}
	return w
}

// reclass has every waiter classed again.
func (c *core) reclass(p *policy.Profile) {
	all := slices.Collect(c.line.Queue().All)
	type lack struct {
		since int64
		lacks bool
	}
	lacking := make([]lack, len(all)) // since when each has had no usable rank
	for i, entry := range all {
		lacking[i].since, lacking[i].lacks = entry.Lacks()
		c.line.Remove(entry)
	}
	c.line.Reset(pool.ClassSpecs(p))
	c.usage = make([]queue.Usage, p.Len())
	for i, entry := range all {
		class := p.Classify(entry.Value.class, max(0, entry.Raw-entry.Cached))
		c.line.Add(class, entry)
		if lacking[i].lacks {
			c.line.Queue().LackSince(entry, lacking[i].since)
		}
		c.count(entry.Value, class)
	}
}

// UpsertWorker implements engine.Engine.
func (e *Engine) UpsertWorker(w sched.Worker) error {
	return e.edit(func(world *pool.World) (gone []*shards.Shard, err error) {
		world.Table, gone, err = world.Table.With([]shards.Worker{shards.Worker(w)}, e.newShard)
		return gone, invalidWorker(err)
	})
}

// SetWorkers implements engine.Engine.
func (e *Engine) SetWorkers(workers []sched.Worker) error {
	all := make([]shards.Worker, len(workers))
	for i, w := range workers {
		all[i] = shards.Worker(w)
	}
	return e.edit(func(world *pool.World) (gone []*shards.Shard, err error) {
		world.Table, gone, err = world.Table.Replaced(all, e.newShard)
		return gone, invalidWorker(err)
	})
}

// RemoveWorker implements engine.Engine.
func (e *Engine) RemoveWorker(id uint64) error { return e.RemoveIncarnation(id, "") }

// RemoveIncarnation implements engine.Engine.
func (e *Engine) RemoveIncarnation(id uint64, incarnation string) error {
	return e.edit(func(world *pool.World) ([]*shards.Shard, error) {
		if err := known(world.Table, id, incarnation); err != nil {
			return nil, err
		}
		table, gone, _ := world.Table.Without(id)
		world.Table = table
		return gone, nil
	})
}

// SetAside implements engine.Engine.
func (e *Engine) SetAside(worker uint64, d time.Duration) error {
	return e.SetAsideIncarnation(worker, "", d)
}

// SetAsideIncarnation implements engine.Engine.
func (e *Engine) SetAsideIncarnation(worker uint64, incarnation string, d time.Duration) error {
	if d < 0 {
		return &sched.Error{
			Code: sched.ErrInvalid, Worker: worker, HasWorker: true, Rule: fmt.Sprintf("time aside %v: must not be negative", d),
		}
	}
	return e.edit(func(world *pool.World) ([]*shards.Shard, error) {
		if err := known(world.Table, worker, incarnation); err != nil {
			return nil, err
		}
		if d == 0 {
			world.Table = world.Table.WithoutAside(worker)
		} else {
			now := e.now()
			world.Table = world.Table.WithAside(worker, now+min(int64(d), shards.NeverEnds-1-now))
		}
		return nil, nil
	})
}

// DrainWorker implements engine.Engine.
func (e *Engine) DrainWorker(id uint64) error { return e.setDraining(id, true) }

// UndrainWorker implements engine.Engine.
func (e *Engine) UndrainWorker(id uint64) error { return e.setDraining(id, false) }

func (e *Engine) setDraining(id uint64, draining bool) error {
	return e.edit(func(world *pool.World) ([]*shards.Shard, error) {
		table, ok := world.Table.WithDraining(id, draining)
		if !ok {
			return nil, unknownWorker(id)
		}
		world.Table = table
		return nil, nil
	})
}

// SetOverloaded implements engine.Engine.
func (e *Engine) SetOverloaded(ids []uint64) error {
	return e.edit(func(world *pool.World) ([]*shards.Shard, error) {
		world.Table = world.Table.WithOverloaded(ids)
		return nil, nil
	})
}

// SetAvailable implements engine.Engine.
func (e *Engine) SetAvailable(ids []uint64) error {
	return e.edit(func(world *pool.World) ([]*shards.Shard, error) {
		world.Table = world.Table.WithAvailable(ids)
		return nil, nil
	})
}

// SetProfileYAML implements engine.Engine.
func (e *Engine) SetProfileYAML(text []byte) error {
	file, err := policy.Parse(text)
	if err != nil {
		return &sched.Error{Code: sched.ErrInvalid, Cause: err}
	}
	profile := file.For(e.config.Model)
	return e.edit(func(world *pool.World) ([]*shards.Shard, error) {
		world.Profile = profile
		return nil, nil
	})
}

func (e *Engine) newShard(id lifecycle.RankID) *shards.Shard { return shards.NewShard(id, e.env) }
