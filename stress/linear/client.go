package linear

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
)

// client makes one call after the other. A call that comes to wait goes on
// without it.
type client struct {
	*recording
	number int
	rnd    *rand.Rand
}

func (c *client) step() {
	for range c.rnd.IntN(4) {
		runtime.Gosched()
	}
	switch n := c.rnd.IntN(100); {
	case n < 45:
		c.schedule()
	case n < 75:
		c.lifecycle()
	case n < 83:
		c.leave()
	case n < 87:
		c.selectRank()
	default:
		c.changePool()
	}
}

func (c *client) schedule() {
	q := c.world.requests[c.next.Add(1)-1]
	p := c.start(c.number, q)
	for range c.rnd.IntN(50) {
		select {
		case <-p.done:
			return
		default:
			runtime.Gosched()
		}
	}
}

// leave ends the context of some call, which may have returned long ago.
func (c *client) leave() {
	c.shared.Lock()
	defer c.shared.Unlock()
	if n := len(c.shared.pending); n > 0 {
		c.shared.pending[c.rnd.IntN(n)].leave(c.history)
	}
}

func (c *client) lifecycle() {
	c.shared.Lock()
	n := len(c.shared.bookings)
	if n == 0 {
		c.shared.Unlock()
		return
	}
	// Mostly one of the latest: the others have ended.
	o := c.shared.bookings[max(c.rnd.IntN(n), c.rnd.IntN(n))]
	c.shared.Unlock()
	if o.released.Load() && c.rnd.IntN(8) > 0 {
		return
	}

	l := lifecycle{r: o.r, byID: c.rnd.IntN(4) == 0}
	call := c.pick(&l, o)
	began := c.now()
	l.seen = uint8(o.attempts.Load())
	l.err = call()
	c.did(c.number, l, began)
	switch {
	case l.err != nil:
	case l.kind == "transfer":
		o.attempts.Add(1)
	case l.kind == "release":
		o.released.Store(true)
	}
}

// pick chooses a call on a booking.
func (c *client) pick(l *lifecycle, o *owned) func() error {
	byHandle := map[string]func() error{"prefill-done": o.booking.PrefillDone, "release": o.booking.Release}
	byID := map[string]func(string, uint64) error{"prefill-done": c.engine.PrefillDone, "release": c.engine.Release}
	switch c.rnd.IntN(5) {
	case 0, 1:
		l.kind = "release"
	case 2, 3:
		l.kind = "prefill-done"
	default:
		// By id it would leave the handle behind.
		l.kind, l.byID, l.to = "transfer", false, c.rnd.IntN(len(c.world.ranks))
		return func() error { return transfer(o.booking, c.world, l.to) }
	}
	if l.byID {
		return func() error { return byID[l.kind](o.r.id, 0) }
	}
	return byHandle[l.kind]
}

func transfer(b engine.Booking, w *world, to int) error {
	_, err := b.Transfer(w.ranks[to])
	return err
}

func (c *client) selectRank() {
	r := c.world.newRequest(c.rnd, 0)
	began := c.now()
	p, err := c.engine.Select(context.Background(), c.world.asked(r))
	o := advisory{r, result{rank: noRank, err: err}}
	if err == nil {
		o.result.rank = c.world.rank(p.Rank)
	}
	c.did(c.number, o, began)
}

// tick moves the clock, a few times in a history.
func (c *client) tick() {
	if c.moves.Add(1) > 3 {
		return
	}
	c.change(c.number, change{kind: "tick"}, func() error {
		c.moved.Lock()
		defer c.moved.Unlock()
		c.time.Advance(tick)
		c.ticks.Add(1)
		return nil
	})
}

func (c *client) changePool() {
	worker := c.rnd.IntN(len(c.world.workers))
	w := c.world.workers[worker]
	process := int8(c.rnd.IntN(len(incarnations)))
	w.Incarnation = incarnations[process]
	switch c.rnd.IntN(9) {
	case 0:
		c.change(c.number, change{kind: "remove", worker: worker, process: process}, func() error {
			return c.engine.RemoveIncarnation(w.ID, w.Incarnation)
		})
	case 1, 2:
		c.change(c.number, change{kind: "add", worker: worker, process: process}, func() error { return c.engine.UpsertWorker(w) })
	case 6:
		c.change(c.number, change{kind: "aside", worker: worker, process: process}, func() error {
			return c.engine.SetAsideIncarnation(w.ID, w.Incarnation, time.Hour)
		})
	case 7:
		c.change(c.number, change{kind: "back", worker: worker, process: process}, func() error {
			return c.engine.SetAsideIncarnation(w.ID, w.Incarnation, 0)
		})
	case 8:
		c.tick()
	case 3:
		set := uint8(c.rnd.IntN(1 << len(c.world.workers)))
		var ids []uint64
		for i, w := range c.world.workers {
			if set&(1<<i) != 0 {
				ids = append(ids, w.ID)
			}
		}
		c.change(c.number, change{kind: "overloaded", set: set}, func() error { return c.engine.SetOverloaded(ids) })
	case 4:
		c.change(c.number, change{kind: "overloaded"}, func() error { return c.engine.SetOverloaded(nil) })
	default:
		to := c.rnd.IntN(len(policies))
		c.change(c.number, change{kind: "profile", profile: to}, func() error {
			return c.engine.SetProfileYAML([]byte(policies[to]))
		})
	}
}
