package actor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// what a lifecycle call does.
type what uint8

const (
	prefillDone what = iota
	touch
	addBlock
	addDecayedBlock
	transfer
	transferToBest
	release
)

// op is one lifecycle call. In the form actor it is a message; in the direct form its
// caller makes it and then, if capacity was freed and a request waits, nudges the
// actor.
type op struct {
	what    what
	rec     *record // nil: by id
	id      string
	attempt uint64 // 0: the live one
	decay   float64
	to      sched.RankID
	allowed []uint64 // of transferToBest; nil means those the request allows

	placement sched.Placement // of a transfer
	freed     bool
	err       error
	reply     chan struct{} // room for one; pooled with the op
}

// run implements command.
func (o *op) run(c *core) {
	if c.ttlAt != queue.NoDue || o.what == transferToBest {
		c.catchUp() // what is overdue comes before, and what ends
	} else {
		c.depart()
	}
	c.e.apply(o)
	freed := o.freed
	o.reply <- struct{}{}
	if freed {
		c.catchUp()
	}
}

// change makes a lifecycle call.
func (e *Engine) change(call op) (sched.Placement, error) {
	if e.config.Direct {
		e.apply(&call)
		if call.freed && e.needed() {
			e.nudge()
		}
		return call.placement, call.err
	}
	o := e.ops.Get().(*op)
	call.reply = o.reply
	*o = call
	e.commands <- o
	e.sent()
	<-o.reply
	placement, err := o.placement, o.err
	*o = op{reply: o.reply}
	e.ops.Put(o)
	return placement, err
}

// needed reports whether the actor has something to do after capacity was freed: a
// request waits, or the last ttl has gone and with it the need for a timer.
func (e *Engine) needed() bool {
	if e.waiting.Load() > 0 {
		ring := e.env.Hints()
		return ring == nil || ring.Pending()
	}
	return e.config.BookingTTL > 0 && e.live.Load() == 0
}

// apply does what the call asks, on whichever goroutine it is made.
func (e *Engine) apply(o *op) {
	rec, byID := o.rec, o.rec == nil
	if byID {
		if rec, _ = e.ids.Load(o.id); rec == nil || rec.shard.Load() == nil {
			o.err = notLive(o.id)
			return
		}
	}
	if o.what == transferToBest {
		e.moveToBest(o, rec)
		if byID && errors.Is(o.err, sched.ErrUnchanged) {
			o.err = e.endedToNotLive(rec)
		}
		return
	}
	weight, ok := lifecycle.DecayWeight(o.decay)
	if !ok {
		o.err = &sched.Error{
			Code: sched.ErrInvalid, Request: rec.ID, Rule: fmt.Sprintf("decay %v: must be in [0,1]", o.decay),
		}
		return
	}
	shard, dest, at := e.lockFor(o, rec)
	if o.err = rec.currentLocked(o.attempt); o.err == nil {
		e.touchLocked(rec, shard)
		e.applyLocked(o, rec, shard, at, weight)
	}
	live := rec.Live()
	shards.UnlockBoth(shard, dest)
	switch {
	case byID && !live && errors.Is(o.err, sched.ErrUnchanged):
		o.err = notLive(o.id)
	case o.what == release && o.err == nil:
		e.end(rec, false)
	}
}

// lockFor takes the lock of the booking's rank and that of the rank to which a
// transfer goes, if it exists. Without one, dest is the same rank and at is nil.
func (e *Engine) lockFor(o *op, rec *record) (shard, dest *shards.Shard, at *shards.Slot) {
	if o.what != transfer {
		shard = rec.lock()
		return shard, shard, nil
	}
	for {
		table := e.world.Load().Table
		place := table.Slot(o.to)
		if place < 0 {
			shard = rec.lock()
			return shard, shard, nil
		}
		at = &table.Slots()[place]
		shard = rec.shard.Load()
		shards.LockBoth(shard, at.Shard)
		if rec.shard.Load() == shard && !at.Shard.DeadLocked() {
			return shard, at.Shard, at
		}
		// It was moved meanwhile, or the rank was removed.
		shards.UnlockBoth(shard, at.Shard)
	}
}

func (e *Engine) touchLocked(rec *record, shard *shards.Shard) {
	if e.config.BookingTTL > 0 {
		rec.Touched = e.now()
		shard.TouchLocked(&rec.Booking)
	}
}

// applyLocked changes a live booking. REQUIRES: the locks of lockFor.
func (e *Engine) applyLocked(o *op, rec *record, shard *shards.Shard, at *shards.Slot, weight int64) {
	switch o.what {
	case touch, transferToBest: // the one is by now, the other is not made here
	case prefillDone:
		if o.freed = shard.PrefillDoneLocked(&rec.Booking); !o.freed {
			o.err = sched.ErrUnchanged
		}
	case addBlock:
		shard.AddOutputBlockLocked(&rec.Booking)
	case addDecayedBlock:
		shard.AddDecayedOutputBlockLocked(&rec.Booking, weight)
		o.freed = true // if blocks count
	case release:
		shard.ReleaseLocked(&rec.Booking)
		o.freed = true
	case transfer:
		switch {
		case at == nil:
			o.err = &sched.Error{
				Code: sched.ErrNoEndpoints, Request: rec.ID, Worker: o.to.Worker, Rank: o.to.Rank,
				HasWorker: true, HasRank: true, Rule: "the rank to transfer to must exist",
			}
		case at.Shard == shard:
			o.err = sched.ErrUnchanged
		default:
			o.placement, o.freed = e.moveLocked(rec, shard, at), true
		}
	}
}

// moveLocked transfers a booking. REQUIRES: both locks.
func (e *Engine) moveLocked(rec *record, from *shards.Shard, to *shards.Slot) sched.Placement {
	rank := to.Shard.ID()
	o := lifecycle.Overlap{Rank: rank}
	if i := slices.IndexFunc(rec.overlaps, func(o lifecycle.Overlap) bool { return o.Rank == rank }); i >= 0 {
		o = rec.overlaps[i]
	}
	rec.Cached = e.params.Tiers.CachedTokens(o.Device, o.Host, o.Disk, e.params.BlockSize, rec.ISL)
	rec.Attempt = e.attempts.Add(1)
	tokens := int64(0)
	if rec.Tracked {
		tokens = max(0, rec.ISL-rec.Cached)
	}
	from.TransferLocked(&rec.Booking, to.Shard, tokens)
	rec.shard.Store(to.Shard)
	rec.placement = sched.Placement{
		Rank: rank, Endpoint: to.Worker.Endpoint, Attempt: rec.Attempt, CachedTokens: rec.Cached, Overlap: o,
		PotentialDecodeBlocks: to.Shard.LoadLocked().Blocks,
	}
	return rec.placement
}

// sweep ends the bookings that were not touched for their ttl, in booking order.
func (c *core) sweep() {
	e, ttl := c.e, int64(c.e.config.BookingTTL)
	if e.live.Load() == 0 {
		c.ttlAt = queue.NoDue
		return
	}
	now := c.Now()
	if now < c.ttlAt {
		return
	}
	c.ttlAt = queue.NoDue
	var due []*record
	for shard := range e.world.Load().Table.Shards {
		shard.Lock()
		for b := range shard.BookingsLocked() { // in touch order
			if at := b.Touched + ttl; at > now {
				c.ttlAt = min(c.ttlAt, at)
				break
			}
			due = append(due, e.takeOffLocked(shard, b))
		}
		shard.Unlock()
	}
	slices.SortFunc(due, func(a, b *record) int { return cmp.Compare(a.Serial, b.Serial) })
	for _, rec := range due {
		c.expired++
		e.end(rec, true)
		c.tell(&sched.Decision{
			Kind: sched.DecisionExpired, Request: rec.ID, Placement: sched.Placement{Attempt: rec.Attempt},
		})
	}
}

// takeOffLocked takes a live booking off its rank, and returns its record: its id
// is claimed as long as it lives. REQUIRES: the rank's lock.
func (e *Engine) takeOffLocked(shard *shards.Shard, b *lifecycle.Booking) *record {
	rec, _ := e.ids.Load(b.ID)
	shard.ReleaseLocked(b)
	return rec
}

// byID makes a lifecycle call by request id.
func (e *Engine) byID(id string, attempt uint64, o op) (sched.Placement, error) {
	o.id, o.attempt = id, attempt
	return e.change(o)
}

// PrefillDone implements engine.Engine.
func (e *Engine) PrefillDone(id string, attempt uint64) error {
	_, err := e.byID(id, attempt, op{what: prefillDone})
	return err
}

// Touch implements engine.Engine.
func (e *Engine) Touch(id string, attempt uint64) error {
	_, err := e.byID(id, attempt, op{what: touch})
	return err
}

// AddOutputBlock implements engine.Engine.
func (e *Engine) AddOutputBlock(id string, attempt uint64) error {
	_, err := e.byID(id, attempt, op{what: addBlock})
	return err
}

// AddOutputBlockWithDecay implements engine.Engine.
func (e *Engine) AddOutputBlockWithDecay(id string, attempt uint64, decay float64) error {
	_, err := e.byID(id, attempt, op{what: addDecayedBlock, decay: decay})
	return err
}

// Transfer implements engine.Engine.
func (e *Engine) Transfer(id string, attempt uint64, to sched.RankID) (sched.Placement, error) {
	return e.byID(id, attempt, op{what: transfer, to: to})
}

// TransferToBest implements engine.Engine.
func (e *Engine) TransferToBest(id string, attempt uint64, allowed []uint64) (sched.Placement, error) {
	return e.byID(id, attempt, op{what: transferToBest, allowed: allowed})
}

// Release implements engine.Engine.
func (e *Engine) Release(id string, attempt uint64) error {
	_, err := e.byID(id, attempt, op{what: release})
	return err
}
