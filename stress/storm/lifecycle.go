package storm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// lifecycleError checks what a lifecycle call returned: invariants 8 and 9.
func (c *caller) lifecycleError(what string, cl *claim, err error, allowed ...error) {
	c.ops.Add(1)
	if err == nil {
		return
	}
	for _, code := range allowed {
		if errors.Is(err, code) {
			return
		}
	}
	c.s.broken.add(9, "%s of %s: %v", what, cl.id, err)
}

// The errors that a call may come with, whatever the interleaving: by handle, and
// by id.
var (
	byHandle = []error{sched.ErrUnchanged, sched.ErrStaleAttempt}
	byID     = []error{sched.ErrUnchanged, sched.ErrStaleAttempt, sched.ErrNotFound}
)

// work does some of what is done with a booking.
func (c *caller) work(cl *claim) {
	if c.oneIn(2) {
		c.prefillDone(cl)
	}
	if c.oneIn(4) {
		err := cl.b.AddOutputBlock()
		if err == nil {
			cl.outputs.Add(1)
		}
		c.lifecycleError("AddOutputBlock", cl, err, byHandle...)
	}
	if c.oneIn(8) && mayWeigh(cl.blocks) {
		err := cl.b.AddOutputBlockWithDecay(c.rnd.Float64())
		if err == nil {
			cl.outputs.Add(1)
		}
		c.lifecycleError("AddOutputBlockWithDecay", cl, err, byHandle...)
	}
	if c.oneIn(8) {
		c.lifecycleError("Touch", cl, c.s.engine.Touch(cl.id, 0), byID...)
	}
	if c.oneIn(6) {
		c.transfer(cl)
	}
}

func (c *caller) prefillDone(cl *claim) {
	cl.withdrawPrefill()
	var err error
	if c.oneIn(4) {
		err = c.s.engine.PrefillDone(cl.id, cl.attempt())
	} else {
		err = cl.b.PrefillDone()
	}
	if errors.Is(err, sched.ErrStaleAttempt) {
		// Moved by its id. No caller may keep a prefill and wait itself.
		attempt := cl.attempt()
		if cl.shared {
			attempt = 0
		}
		err = c.s.engine.PrefillDone(cl.id, attempt)
	}
	if err == nil && cl.done.Add(1) > 1 && !cl.shared {
		c.s.broken.add(8, "the prefill of %s ended twice", cl.id)
	}
	c.lifecycleError("PrefillDone", cl, err, byID...)
}

// transfer moves a booking, by handle or by id, maybe from another goroutine
// while this one goes on.
func (c *caller) transfer(cl *claim) {
	if c.s.capped() { // the caller of a transfer answers for the rank
		return
	}
	cl.withdraw()
	to := sched.RankID{Worker: 1 + c.rnd.Uint64N(uint64(c.s.config.Workers)), Rank: c.rnd.Uint32N(2)}
	if cl.own || c.oneIn(2) {
		p, err := cl.b.Transfer(to)
		c.lifecycleError("Transfer", cl, err, append(byHandle, sched.ErrNoEndpoints)...)
		if err == nil {
			c.newAttempt(cl, p.Attempt)
		}
		return
	}
	move := func() {
		cl.mu.Lock()
		p, err := c.s.engine.Transfer(cl.id, 0, to)
		if err == nil {
			c.newAttemptLocked(cl, p.Attempt)
		}
		cl.mu.Unlock()
		c.lifecycleError("Transfer by id", cl, err, append(byID, sched.ErrNoEndpoints)...)
	}
	if c.oneIn(2) {
		move()
		return
	}
	var wg sync.WaitGroup
	wg.Go(move)
	err := cl.b.AddOutputBlock()
	wg.Wait()
	if err == nil {
		cl.outputs.Add(1)
	}
	c.lifecycleError("AddOutputBlock", cl, err, byHandle...)
}

func (c *caller) newAttempt(cl *claim, attempt uint64) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	c.newAttemptLocked(cl, attempt)
}

func (c *caller) newAttemptLocked(cl *claim, attempt uint64) {
	if attempt <= cl.mu.attempt {
		c.s.broken.add(8, "the transfer of %s made attempt %d after %d", cl.id, attempt, cl.mu.attempt)
	}
	cl.mu.attempt = attempt
}

// end releases a booking, mostly once, and checks that it ended once.
func (c *caller) end(cl *claim) {
	if cl.shared {
		c.endShared(cl)
		return
	}
	cl.withdraw()
	release := func(err error) {
		if err == nil {
			cl.ends.Add(1)
		}
		c.lifecycleError("Release", cl, err, byID...)
	}
	switch c.rnd.IntN(8) {
	case 0: // twice
		release(cl.b.Release())
		release(cl.b.Release())
	case 1: // from two goroutines at once
		var wg sync.WaitGroup
		wg.Go(func() { release(cl.b.Release()) })
		release(c.s.engine.Release(cl.id, cl.attempt()))
		wg.Wait()
	case 2: // by id
		release(c.s.engine.Release(cl.id, cl.attempt()))
	default:
		release(cl.b.Release())
	}
	if cl.ends.Load() == 0 && !cl.gone() {
		// The handle may be stale.
		release(c.s.engine.Release(cl.id, cl.attempt()))
	}
	c.retire(cl)
}

// retire checks that a booking which its owner has released has ended once, and
// that nothing works on it any more: invariant 8.
func (c *caller) retire(cl *claim) {
	c.forget(cl)
	ends, gone := cl.ends.Load(), cl.gone()
	if ends == 0 && !gone {
		// It is off its rank; that it was dropped is told a moment later.
		gone = c.awaits(cl.b.Done())
	}
	if gone {
		ends++
	}
	if ends != 1 {
		c.s.broken.add(8, "%s ended %d times (by the engine: %t)", cl.id, ends, gone)
	}
	if c.oneIn(8) {
		attempt := cl.attempt()
		c.mustFail(cl.id, attempt, "Release", c.s.engine.Release(cl.id, attempt))
		c.mustFail(cl.id, attempt, "PrefillDone", c.s.engine.PrefillDone(cl.id, attempt))
		c.mustFail(cl.id, attempt, "Touch", c.s.engine.Touch(cl.id, attempt))
		c.mustFail(cl.id, attempt, "Touch of the handle", cl.b.Touch())
	}
}

// mustFail notes the outcome of a call with an attempt that has ended.
func (c *caller) mustFail(id string, attempt uint64, what string, err error) {
	c.ops.Add(1)
	if err == nil {
		c.s.broken.add(8, "%s of %s had an effect with attempt %d, which has ended", what, id, attempt)
	}
}

// awaits waits for what should come at once.
func (c *caller) awaits(event <-chan struct{}) bool {
	patience := time.NewTimer(c.s.config.Patience)
	defer patience.Stop()
	select {
	case <-event:
		return true
	case <-patience.C:
		return false
	}
}

// leak loses the handle of a booking, whose end is then the engine's affair.
func (c *caller) leak(cl *claim) bool {
	if !c.s.config.sharded() || cl.id[0] == 'r' {
		return false
	}
	cl.withdraw()
	c.s.leaks.Add(1)
	c.forget(cl)
	return true
}

// detach loses the handle on purpose and releases by id.
func (c *caller) detach(cl *claim) bool {
	b, ok := cl.b.(interface{ Detach() })
	if !ok || c.s.config.TTL > 0 {
		return false
	}
	cl.withdraw()
	id, attempt, done := cl.id, cl.attempt(), cl.b.Done()
	b.Detach()
	cl.b = nil
	c.forget(cl)
	if c.oneIn(4) {
		runtime.GC()
	}
	err := c.s.engine.Release(id, attempt)
	c.lifecycleError("Release", cl, err, sched.ErrNotFound)
	if err != nil && !c.awaits(done) {
		c.s.broken.add(8, "%s was detached and has vanished: %v", id, err)
	}
	return true
}

// doer is what only the library offers.
type doer interface {
	Do(context.Context, *sched.Request, func(context.Context, *sched.Booking) error) error
}

// do schedules, works and ends in one call, which may fail, panic and be retried.
func (c *caller) do() {
	e, ok := c.s.engine.(doer)
	if !ok {
		c.scheduleAndEnd()
		return
	}
	r := c.request()
	r.ID = fmt.Sprintf("d:%d.%d", c.number, c.serial)
	ctx, cancel := c.context()
	defer cancel()
	var last *claim
	tried := make(map[uint64]bool)
	work := func(_ context.Context, b *sched.Booking) error {
		c.become(running)
		c.ops.Add(1)
		c.s.admitted.Add(1)
		c.endedBy("Do", last)
		last = c.adopt(r, b, nil, 0)
		last.own = true
		if worker := b.Placement().Rank.Worker; tried[worker] {
			c.s.broken.add(8, "Do came back to worker %d with %s", worker, r.ID)
		} else {
			tried[worker] = true
		}
		c.work(last)
		defer func() {
			c.forget(last)
			c.call.Store(nil) // it may be tried elsewhere; where, Do knows
			c.become(calling)
		}()
		switch c.rnd.IntN(8) {
		case 0:
			panic(errInjected)
		case 1, 2:
			return sched.RetryElsewhere(errInjected)
		case 3:
			return errInjected
		case 4:
			cancel()
		case 5:
			_ = b.Release()
		}
		return nil
	}
	c.call.Store(nil)
	c.become(calling)
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = errInjected
			}
		}()
		return e.Do(ctx, r, work)
	}()
	c.become(running)
	c.ops.Add(1)
	c.endedBy("Do", last)
	switch {
	case err == nil, errors.Is(err, errInjected), errors.Is(err, sched.ErrWorkerRemoved):
	case c.s.config.TTL > 0 && (errors.Is(err, sched.ErrExpired) || errors.Is(err, sched.ErrNotFound)):
	default:
		c.s.checkError(r, err, nil)
	}
}

// endedBy checks that a caller that promised to end a booking has.
func (c *caller) endedBy(who string, cl *claim) {
	if cl == nil {
		return
	}
	// A transfer by id leaves the handle behind, and with it what Do may end.
	err := cl.b.Release()
	if errors.Is(err, sched.ErrStaleAttempt) {
		err = c.s.engine.Release(cl.id, cl.attempt())
		if err == nil {
			return
		}
	}
	c.ops.Add(1)
	if err == nil {
		c.s.broken.add(8, "%s left the booking of %s", who, cl.id)
	}
}

// sharedIDs is how many ids are everybody's.
const sharedIDs = 8

// sharedID is what is known of such an id.
type sharedID struct {
	mu struct {
		sync.Mutex
		admitted, ends int64
		// withdrawn calls may have been booked, and ended by another caller, before
		// their caller was told.
		withdrawn int64
		unclear   []*claim // ended by another caller, or by the engine
		stale     []uint64 // attempts that have ended for sure
		latest    uint64
	}
}

// share uses an id that others use too.
func (c *caller) share() {
	n := c.rnd.IntN(sharedIDs)
	shared := &c.s.shared[n]
	r := c.request()
	r.ID = fmt.Sprintf("s:%d", n)
	cl := c.schedule(r)
	shared.mu.Lock()
	if cl == nil {
		shared.mu.withdrawn++
		shared.mu.Unlock()
		return
	}
	shared.mu.admitted++
	shared.mu.latest = cl.attempt()
	shared.mu.Unlock()
	if c.oneIn(2) {
		err := cl.b.AddOutputBlock()
		if err == nil {
			cl.outputs.Add(1)
		}
		c.lifecycleError("AddOutputBlock", cl, err, byHandle...)
		runtime.Gosched()
	}
	if c.oneIn(4) {
		c.prefillDone(cl)
		return
	}
	c.endShared(cl)
}

// endShared releases a booking that others may have ended or moved.
func (c *caller) endShared(cl *claim) {
	var n int
	_, _ = fmt.Sscanf(cl.id, "s:%d", &n)
	shared := &c.s.shared[n]
	err := cl.b.Release()
	c.lifecycleError("Release", cl, err, byHandle...)
	c.forget(cl)
	ended := err == nil
	if errors.Is(err, sched.ErrStaleAttempt) {
		// Another caller moved it, or ended it; if it still lives it is what its id names.
		ended = c.s.engine.Release(cl.id, 0) == nil
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if ended {
		shared.mu.ends++
	}
	if err != nil {
		shared.mu.unclear = append(shared.mu.unclear, cl)
	}
	if len(shared.mu.stale) < 16 {
		shared.mu.stale = append(shared.mu.stale, cl.attempt())
	} else {
		shared.mu.stale[c.rnd.IntN(16)] = cl.attempt()
	}
}

// meddle calls for shared ids, with attempts long past, the latest, or whichever
// is live.
func (c *caller) meddle() {
	n := c.rnd.IntN(sharedIDs)
	shared, id := &c.s.shared[n], fmt.Sprintf("s:%d", n)
	shared.mu.Lock()
	latest, stale := shared.mu.latest, uint64(0)
	if len(shared.mu.stale) > 0 {
		stale = shared.mu.stale[c.rnd.IntN(len(shared.mu.stale))]
	}
	shared.mu.Unlock()
	if stale != 0 {
		c.mustFail(id, stale, "PrefillDone", c.s.engine.PrefillDone(id, stale))
		c.mustFail(id, stale, "Touch", c.s.engine.Touch(id, stale))
		c.mustFail(id, stale, "AddOutputBlock", c.s.engine.AddOutputBlock(id, stale))
		c.mustFail(id, stale, "Release", c.s.engine.Release(id, stale))
	}
	attempt := uint64(0)
	if c.oneIn(2) {
		attempt = latest
	}
	if c.oneIn(4) && !c.s.capped() {
		_, _ = c.s.engine.Transfer(id, attempt, sched.RankID{Worker: 1 + c.rnd.Uint64N(uint64(c.s.config.Workers))})
	}
	c.ops.Add(1)
	err := c.s.engine.Release(id, attempt)
	switch {
	case err == nil:
		shared.mu.Lock()
		shared.mu.ends++
		shared.mu.Unlock()
	case !errors.Is(err, sched.ErrNotFound) && !errors.Is(err, sched.ErrStaleAttempt):
		c.s.broken.add(9, "Release of %s by id: %v", id, err)
	}
}
