package storm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// churner changes workers, their state, the profile and the selector. It is the
// only one that does, so it knows what holds.
type churner struct {
	participant
	s   *storm
	rnd *rand.Rand
}

// newWorker makes a worker that was not there before.
func (s *storm) newWorker(id uint64, ranks uint32) worker {
	w := worker{Worker: sched.Worker{ID: id, Ranks: ranks, Endpoint: fmt.Sprintf("host-%d-%d", id, s.stamp())}}
	if id%2 == 1 {
		w.Taints = []string{"odd"}
	}
	for range ranks {
		w.books = append(w.books, new(book))
	}
	return w
}

// firstWorld is the topology of the beginning.
func (s *storm) firstWorld(p *profile) *world {
	w := &world{all: true, profile: p}
	for i := range s.config.Workers {
		w.workers = append(w.workers, s.newWorker(uint64(i+1), 1+uint32(i)%2))
	}
	return w
}

func (c *churner) run() {
	defer c.become(returned)
	for {
		if c.paused() && !c.checkpoint(func() {}) {
			return
		}
		// Bursts, and calms in which the world stands still long enough for the
		// checks that need it.
		if c.rnd.IntN(8) == 0 {
			c.idle(20 * time.Millisecond)
			continue
		}
		c.idle(time.Duration(c.rnd.IntN(2_000_000)))
		if !c.paused() {
			c.churn()
		}
	}
}

func (c *churner) idle(d time.Duration) {
	select {
	case <-c.pauser.changed():
	case <-time.After(d):
	}
}

// to tells the engine of another world.
func (c *churner) to(next *world, what string, tell func() error) {
	c.ops.Add(1)
	c.s.world.Store(nil)
	if err := tell(); err != nil {
		c.s.broken.add(8, "%s: %v", what, err)
	}
	c.s.world.Store(next)
}

func (c *churner) churn() {
	e, next := c.s.engine, c.s.world.Load().clone()
	id := 1 + c.rnd.Uint64N(uint64(c.s.config.Workers))
	at := next.find(id)
	switch n := c.rnd.IntN(20); {
	case n < 6:
		c.comeAndGo(next, id)
	case n < 8: // an upsert that keeps the load
		if at == nil {
			return
		}
		at.Endpoint = fmt.Sprintf("host-%d-%d", id, c.s.stamp())
		ranks := 1 + c.rnd.Uint32N(2)
		for uint32(len(at.books)) < ranks {
			at.books = append(at.books[:len(at.books):len(at.books)], new(book))
		}
		at.Ranks, at.books = ranks, at.books[:ranks:ranks]
		c.to(next, "UpsertWorker", func() error { return e.UpsertWorker(at.Worker) })
	case n < 10:
		if at == nil {
			return
		}
		at.draining = !at.draining
		if at.draining {
			c.to(next, "DrainWorker", func() error { return e.DrainWorker(id) })
		} else {
			c.to(next, "UndrainWorker", func() error { return e.UndrainWorker(id) })
		}
	case n < 12:
		c.reconcile(next)
	case n < 15:
		ids := c.some()
		next.overloaded = set(ids)
		c.to(next, "SetOverloaded", func() error { return e.SetOverloaded(ids) })
	case n < 17:
		ids := c.some()
		next.all, next.available = c.rnd.IntN(4) > 0, set(ids)
		if next.all {
			ids, next.available = nil, nil
		}
		c.to(next, "SetAvailable", func() error { return e.SetAvailable(ids) })
	case n < 19:
		if len(c.s.profiles) > 1 {
			next.profile = c.s.profiles[c.rnd.IntN(len(c.s.profiles))]
			c.to(next, "SetProfile", func() error { return e.SetProfileYAML(next.profile.text) })
		}
	default:
		c.reselect()
	}
}

// comeAndGo removes a worker that is there and brings back one that is not.
func (c *churner) comeAndGo(next *world, id uint64) {
	e, at := c.s.engine, next.find(id)
	if at != nil {
		i := 0
		for next.workers[i].ID != id {
			i++
		}
		next.workers = slices.Delete(next.workers, i, i+1)
		c.to(next, "RemoveWorker", func() error { return e.RemoveWorker(id) })
		return
	}
	back := c.s.newWorker(id, 1+uint32(id)%2)
	next.insert(back)
	c.to(next, "UpsertWorker", func() error { return e.UpsertWorker(back.Worker) })
}

// reconcile replaces all workers in one step: most stay, one may go, all who were
// away come back.
func (c *churner) reconcile(next *world) {
	gone := 1 + c.rnd.Uint64N(uint64(2*c.s.config.Workers))
	old := *next
	next.workers = nil
	var told []sched.Worker
	for i := range c.s.config.Workers {
		id := uint64(i + 1)
		if id == gone {
			continue
		}
		w := c.s.newWorker(id, 1+uint32(id)%2)
		if was := old.find(id); was != nil {
			w.draining = was.draining
			copy(w.books, was.books)
		}
		next.insert(w)
		told = append(told, w.Worker)
	}
	c.to(next, "SetWorkers", func() error { return c.s.engine.SetWorkers(told) })
}

func (w *world) insert(added worker) {
	i := 0
	for i < len(w.workers) && w.workers[i].ID < added.ID {
		i++
	}
	w.workers = append(w.workers[:i:i], append([]worker{added}, w.workers[i:]...)...)
}

// reselect swaps the selector, where the engine can.
func (c *churner) reselect() {
	e, ok := c.s.engine.(interface {
		SetSelector(selector.Selector) error
	})
	if !ok || c.s.config.Exact {
		return
	}
	all := selectors()
	c.ops.Add(1)
	if err := e.SetSelector(all[c.rnd.IntN(len(all))]); err != nil {
		c.s.broken.add(8, "SetSelector: %v", err)
	}
}

// some returns a few workers, mostly not all.
func (c *churner) some() []uint64 {
	var ids []uint64
	share := c.rnd.IntN(4)
	for i := range c.s.config.Workers {
		if c.rnd.IntN(6) < share {
			ids = append(ids, uint64(i+1))
		}
	}
	if ids == nil {
		ids = []uint64{}
	}
	return ids
}

func set(ids []uint64) map[uint64]bool {
	m := make(map[uint64]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}

// calm ends whatever keeps callers from being served.
func (c *churner) calm() {
	next := c.s.world.Load().clone()
	c.reconcile(next)
	next = next.clone()
	for i := range next.workers {
		if next.workers[i].draining {
			next.workers[i].draining = false
			id := next.workers[i].ID
			c.to(next, "UndrainWorker", func() error { return c.s.engine.UndrainWorker(id) })
		}
	}
	next = next.clone()
	next.all, next.available, next.overloaded = true, nil, nil
	c.to(next, "SetAvailable", func() error { return c.s.engine.SetAvailable(nil) })
	c.to(next, "SetOverloaded", func() error { return c.s.engine.SetOverloaded(nil) })
}

// ticker moves the clock, mostly a little.
type ticker struct {
	participant
	s   *storm
	rnd *rand.Rand
}

func (t *ticker) run() {
	defer t.become(returned)
	for {
		if t.paused() && !t.checkpoint(func() {}) {
			return
		}
		by := time.Duration(t.rnd.IntN(400_000))
		if t.rnd.IntN(500) == 0 {
			by = time.Duration(t.rnd.IntN(50_000_000))
		}
		t.s.clock.Advance(by)
		time.Sleep(200 * time.Microsecond)
	}
}
