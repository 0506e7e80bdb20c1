package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// caller is one of the many.
type caller struct {
	participant
	s      *storm
	number int
	rnd    *rand.Rand
	serial uint64
	places []place // scratch

	mu struct {
		sync.Mutex
		held []*claim
	}
}

func newCaller(s *storm, number int) *caller {
	c := &caller{s: s, number: number, rnd: rand.New(rand.NewPCG(s.config.Seed, uint64(number)+1))}
	c.pauser = s.pauser
	return c
}

// maxHeld is how many bookings a caller keeps for later.
const maxHeld = 3

func (c *caller) run() {
	defer c.become(returned)
	for {
		if c.paused() && !c.checkpoint(c.letGo) {
			return
		}
		c.step()
	}
}

// oneIn is true once in n times.
func (c *caller) oneIn(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *caller) step() {
	if c.s.config.Exact {
		c.scheduleAndEnd()
		return
	}
	switch n := c.rnd.IntN(100); {
	case n < 6:
		c.advise()
	case n < 12:
		c.query()
	case n < 16:
		c.look()
	case n < 22:
		c.do()
	case n < 28:
		c.share()
	case n < 31:
		c.meddle()
	case n < 32:
		c.recheck()
	case n < 40:
		c.endHeld()
	default:
		c.scheduleAndEnd()
	}
}

// letGo releases everything.
func (c *caller) letGo() {
	for c.endHeld() {
	}
}

// endHeld ends the oldest booking that was kept.
func (c *caller) endHeld() bool {
	c.mu.Lock()
	if len(c.mu.held) == 0 {
		c.mu.Unlock()
		return false
	}
	cl := c.mu.held[0]
	c.mu.Unlock()
	c.end(cl)
	return true
}

// forget takes an ended booking off the list.
func (c *caller) forget(cl *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, held := range c.mu.held {
		if held == cl {
			c.mu.held = slices.Delete(c.mu.held, i, i+1) // and forgets the handle
			return
		}
	}
}

// context is one that never ends, or may end at any moment.
func (c *caller) context() (context.Context, context.CancelFunc) {
	switch c.rnd.IntN(8) {
	case 0:
		return context.WithTimeout(c.s.ctx, time.Duration(c.rnd.IntN(2_000_000)))
	case 1:
		ctx, cancel := context.WithCancel(c.s.ctx)
		timer := time.AfterFunc(time.Duration(c.rnd.IntN(1_000_000)), cancel)
		return ctx, func() { timer.Stop(); cancel() }
	default:
		return c.s.ctx, func() {}
	}
}

// request makes a request. Its id says if its decisions come in ticket order.
func (c *caller) request() *sched.Request {
	c.serial++
	names := c.s.classes
	r := &sched.Request{ISL: 1 + c.rnd.Int64N(200), Class: names[c.rnd.IntN(len(names))]}
	lane, ordered := laneFree, r.Class != "old"
	workers := uint64(c.s.config.Workers)
	switch c.rnd.IntN(8) {
	case 0, 1:
		r.Pin = &sched.RankID{Worker: 1 + c.rnd.Uint64N(workers), Rank: c.rnd.Uint32N(2)}
		lane = lanePinned(*r.Pin)
	case 2:
		if !c.s.config.Exact {
			r.Allowed = []uint64{1 + c.rnd.Uint64N(workers)}
			lane = fmt.Sprintf("allowed%d", r.Allowed[0])
		}
	case 3:
		if !c.s.config.Exact {
			r.RequiredTaints = []string{"odd"}
			lane = "odd"
		}
	}
	if c.s.config.Lanes && !c.oneIn(8) {
		// Those workers do not exist: it can run where the others of its kind can.
		r.Excluded, ordered = []uint64{unknownWorkers + uint64(c.number), unknownWorkers + c.serial%64}, false
	}
	if c.oneIn(8) {
		r.Priority = c.rnd.Uint32N(3)
	}
	if c.oneIn(16) {
		r.DoNotQueue = true
	}
	if !c.s.config.Exact {
		c.embellish(r)
		if c.oneIn(8) {
			r.Jump, ordered = c.rnd.Float64()/100, false
		}
		if c.oneIn(8) {
			r.Due, ordered = c.s.clock.Now().Add(time.Duration(c.rnd.IntN(5_000_000))), false
		}
	}
	switch {
	case ordered:
		r.ID = ticketID(r.Class, lane, r.Priority, c.number, c.serial)
	case c.oneIn(2):
		// Used again and again: an id is free as soon as its request has ended.
		r.ID = fmt.Sprintf("r:%d", c.number)
		for _, held := range c.mu.held { // written by this goroutine only
			if held.id == r.ID {
				r.ID = fmt.Sprintf("u:%d.%d", c.number, c.serial)
			}
		}
	default:
		r.ID = fmt.Sprintf("u:%d.%d", c.number, c.serial)
	}
	return r
}

// unknownWorkers is above all ids that workers have.
const unknownWorkers = 1 << 32

// embellish adds what does not decide the place in line.
func (c *caller) embellish(r *sched.Request) {
	if c.oneIn(32) {
		r.ISL = 0
	}
	if c.oneIn(2) {
		r.Blocks = conversation(c.rnd.Uint64N(conversations), c.rnd.Uint64N(7))
	}
	if c.oneIn(4) {
		rank := sched.RankID{Worker: 1 + c.rnd.Uint64N(uint64(c.s.config.Workers))}
		r.Overlaps = []sched.Overlap{{Rank: rank, Device: float64(c.rnd.IntN(4)), Host: float64(c.rnd.IntN(3))}}
	}
	if c.oneIn(16) {
		r.NoPrefillTracking = true
	}
	if c.oneIn(8) {
		d := time.Duration(c.rnd.IntN(2_000_000))
		r.ExpectedPrefill = &d
	}
	if c.oneIn(16) {
		r.Prefer = &sched.RankID{Worker: 1 + c.rnd.Uint64N(uint64(c.s.config.Workers))}
	}
	if c.oneIn(16) {
		r.PreferredTaints = map[string]float64{"odd": 1 - 2*c.rnd.Float64()}
	}
	if c.oneIn(32) {
		τ := c.rnd.Float64()
		r.Temperature = &τ
	}
}

// conversations is how many prompts there are.
const conversations = 16

// conversation returns the first blocks of one; the first three are common to
// four conversations.
func conversation(n, depth uint64) (blocks []uint64) {
	for i := range depth {
		owner := 100 + n
		if i < 3 {
			owner = n / 4
		}
		blocks = append(blocks, owner<<8|i)
	}
	return blocks
}

// mayWeigh reports whether the blocks may be given other weights than 1. As
// weights outlast the booking that gave them, this is a matter of the blocks.
func mayWeigh(blocks []uint64) bool { return len(blocks) == 0 || blocks[0]>>8 >= 2 }

// scheduleAndEnd books, works and ends.
func (c *caller) scheduleAndEnd() {
	r := c.request()
	cl := c.schedule(r)
	if cl == nil {
		return
	}
	if c.s.config.Exact {
		runtime.Gosched()
		c.end(cl)
		return
	}
	switch c.rnd.IntN(16) {
	case 0:
		if c.leak(cl) {
			return
		}
	case 1:
		if c.detach(cl) {
			return
		}
	case 2:
		// Slow, but only where no waiter depends on it: its prefill is done.
		c.prefillDone(cl)
		time.Sleep(time.Duration(c.rnd.IntN(200_000)))
	}
	c.work(cl)
	c.mu.Lock()
	full := len(c.mu.held) > maxHeld
	c.mu.Unlock()
	if c.oneIn(8) && !full {
		// A caller that waits must not keep a prefill that others wait for, unless time ends it.
		if !cl.decays || c.oneIn(2) {
			c.prefillDone(cl)
		}
		return
	}
	c.end(cl)
}

// schedule makes a call of Schedule, with its checks, and adopts the booking.
func (c *caller) schedule(r *sched.Request) *claim {
	ctx, cancel := c.context()
	defer cancel()
	before, began := c.s.world.Load(), c.s.stamp()
	c.call.Store(r)
	c.become(calling)
	b, err := c.s.engine.Schedule(ctx, r)
	c.become(running)
	c.ops.Add(1)
	if err != nil {
		c.s.checkError(r, err, before)
		return nil
	}
	c.s.admitted.Add(1)
	return c.adopt(r, b, before, began)
}

// adopt takes a booking over.
func (c *caller) adopt(r *sched.Request, b engine.Booking, before *world, began uint64) *claim {
	s := c.s
	cl := &claim{
		b: b, id: r.ID, shared: r.ID[0] == 's', isl: r.ISL, tracked: !r.NoPrefillTracking, blocks: r.Blocks,
		decays: r.ExpectedPrefill != nil || s.config.sharded() && !s.config.Calm && estimated(r.ISL),
	}
	p := b.Placement()
	cl.mu.attempt = p.Attempt
	c.mu.Lock()
	c.mu.held = append(c.mu.held, cl)
	c.mu.Unlock()
	if p.Attempt == 0 {
		s.broken.add(8, "%s was booked without an attempt", r.ID)
	}
	if cl.shared || before == nil || before != s.world.Load() {
		return cl
	}
	c.places = s.checkPlacement(r, &p, before, began, c.places[:0])
	if s.config.TTL > 0 {
		return cl
	}
	book := before.book(p.Rank)
	if book == nil {
		return cl
	}
	cl.mu.Lock()
	cl.mu.book = book
	if cl.tracked && !cl.decays {
		cl.mu.tokens = max(0, r.ISL-p.CachedTokens)
	}
	tokens := cl.mu.tokens
	cl.mu.Unlock()
	book.enter(1, tokens, s.stamp)
	if s.config.Exact {
		if count, _, _ := book.read(); count > 1 {
			s.broken.add(1, "%d prefills at once on rank %v, which takes one", count, p.Rank)
		}
	}
	if c.oneIn(4) {
		c.ops.Add(1)
		s.checkVisible(book, p.Rank, r, before)
	}
	return cl
}

func (c *caller) advise() {
	r := c.request()
	ctx, cancel := c.context()
	defer cancel()
	before := c.s.world.Load()
	p, err := c.s.engine.Select(ctx, r)
	c.ops.Add(1)
	c.checkAnswer(r, p, err, before)
}

func (c *caller) query() {
	r := c.request()
	ctx, cancel := c.context()
	defer cancel()
	before := c.s.world.Load()
	c.call.Store(r)
	c.become(calling)
	p, err := c.s.engine.Query(ctx, r)
	c.become(running)
	c.ops.Add(1)
	c.checkAnswer(r, p, err, before)
}

// checkAnswer checks what books nothing.
func (c *caller) checkAnswer(r *sched.Request, p sched.Placement, err error, before *world) {
	switch {
	case err != nil:
		c.s.checkError(r, err, before)
	case p.Attempt != 0:
		c.s.broken.add(8, "%s: an answer without a booking has attempt %d", r.ID, p.Attempt)
	case before != nil && before == c.s.world.Load():
		c.places = c.s.checkRank(r, &p, before, c.places[:0])
	}
}

func (c *caller) look() {
	c.ops.Add(1)
	if c.oneIn(2) {
		c.s.engine.Stats()
		return
	}
	for _, l := range c.s.engine.Loads() {
		if min(l.Requests, l.PrefillTokens, l.Blocks) < 0 {
			c.s.broken.add(7, "rank %v has a negative load: %+v", l.Rank, l)
		}
	}
}

func (c *caller) recheck() {
	ctx, cancel := context.WithTimeout(c.s.ctx, c.s.config.Patience)
	defer cancel()
	c.ops.Add(1)
	err := c.s.engine.Recheck(ctx)
	if err != nil && (c.s.ctx.Err() == nil || !errors.Is(err, sched.ErrCanceled)) {
		c.s.broken.add(6, "Recheck: %v", err)
	}
}
