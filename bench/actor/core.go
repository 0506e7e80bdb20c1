package actor

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// core is what the actor alone touches: the queue, its counters and timers, and
// the storage for projections.
type core struct {
	e     *Engine
	line  *queue.Line[*job]
	usage []queue.Usage // by class
	look  pool.Look
	// guards are those of the lanes that guard their ranks.
	guards pool.Guards

	now         int64 // ns, as of this command
	nowKnown    bool
	seq, serial uint64
	races       int // lost in a row
	budget      queue.Budget
	closing     bool

	leaving []departure // scratch
	// ttlAt is when a booking may expire, queue.NoDue if none lives.
	ttlAt   int64
	timer   clock.Timer
	timerAt int64 // when timer fires, queue.NoDue if there is none

	rejected                         map[string]int64 // by code
	expired, dropped, rests, retries int64
}

func (c *core) init(e *Engine, p *policy.Profile) {
	c.e, c.ttlAt, c.timerAt = e, queue.NoDue, queue.NoDue
	c.rejected = make(map[string]int64)
	c.line = queue.NewLine(pool.ClassSpecs(p), queue.Host[*job](c))
	c.usage = make([]queue.Usage, p.Len())
	c.guards.Reset(e.world.Load())
	c.look.Guards = &c.guards
}

// rest does what is due and sets the timer for what comes next.
func (c *core) rest() {
	c.rests++
	c.catchUp()
	c.setTimer()
}

// slice is how many attempts are made before departures are looked at again.
const slice = 64

// catchUp does all that must come before the next decision: departures, due times,
// ttls, hints, and then the turn of whoever can run. The clock is read at most once,
// and only if a request waits or may expire.
func (c *core) catchUp() {
	c.nowKnown = false
	for {
		c.depart()
		c.endAsides()
		c.expire()
		c.heedHints()
		if c.serve() {
			return
		}
	}
}

// serve dispatches who can run and decides about those who have joined, as far as
// a slice goes.
func (c *core) serve() (done bool) {
	status := c.line.Serve(slice, c.slice())
	for status == queue.Done {
		if status = c.line.SettleJoined(c.slice()); status == queue.Done {
			return true
		}
		if status == queue.Paused {
			status = queue.Done // the next of them
		}
	}
	return false
}

// slice returns a budget for one piece of work: the actor does all there is.
func (c *core) slice() *queue.Budget {
	c.budget = queue.NewBudget(slice * queue.CostGrant)
	return &c.budget
}

// depart deals with the leavers.
func (c *core) depart() {
	list := c.e.departures.take(c.leaving)
	for i := range list {
		d := &list[i]
		switch j := d.job; {
		case j == nil:
			c.tellRejected(d.id, d.query, d.err)
		case j.stage == refused:
			c.sayLeft(j)
		default:
			if j.stage == granted && j.kind == toBook {
				c.undo(j.record)
				j.claimed = false
			}
			c.line.Remove(&j.entry)
			c.refuse(j, d.err)
			c.sayLeft(j)
		}
		list[i] = departure{}
	}
	if list != nil {
		c.leaving = list
	}
}

// sayLeft gives a job back for good, in place of what was said before and not
// heard.
func (c *core) sayLeft(j *job) {
	select {
	case <-j.reply:
	default:
	}
	j.reply <- left
}

// undo takes back a booking whose owner has gone.
func (c *core) undo(rec *record) {
	shard := rec.lock()
	live := rec.Live()
	if live {
		shard.ReleaseLocked(&rec.Booking)
	}
	shard.Unlock()
	if live {
		c.e.end(rec, false)
	}
}

// expire ends what is overdue: first requests, then bookings, then requests that have
// no usable rank.
func (c *core) expire() {
	if c.line.Len() > 0 {
		now := c.Now()
		for !c.line.Queue().FreeDue(now, c.slice()) {
		}
		for _, entry := range c.line.Queue().Overdue(now, math.MaxInt) {
			c.line.Remove(entry)
			c.refuse(entry.Value, pastDue(entry.Value.id))
		}
	}
	if c.ttlAt != queue.NoDue {
		c.sweep()
	}
	if c.line.Len() > 0 {
		c.failLacking()
		for !c.line.Queue().Grow(c.Now(), c.slice()) {
		}
	}
}

// failLacking ends requests that have had no usable rank for too long.
func (c *core) failLacking() {
	w, now := c.e.world.Load(), c.Now()
	for c.line.Queue().NextFail() <= now {
		for _, entry := range c.line.Failed(now, math.MaxInt, c.slice()) {
			j := entry.Value
			c.line.Remove(entry)
			c.look.TakeAll(w, &j.request, entry.Class(), pool.At(now))
			_, why := c.look.Choose(c.e.rand)
			c.refuse(j, face.FailureError(j.id, why))
		}
	}
}

// heedHints offers freed ranks to the waiters. While no request waits hints may lie: a
// source is in the ring at most once.
func (c *core) heedHints() {
	ring := c.e.env.Hints()
	if ring == nil || c.line.Len() == 0 || !ring.Pending() {
		return
	}
	w := c.e.world.Load()
	if ring.Drain(func(shard *shards.Shard) { c.line.Queue().Free(shard.ID()) }) {
		ring.ClearAll(w.Table.Shards)
		c.line.Queue().OpenAll()
	}
}

// setTimer has the actor look when the next due time, retest or ttl comes. There
// is a timer only while there is one.
func (c *core) setTimer() {
	next := min(c.line.Queue().NextDue(), c.line.Queue().NextFree(), c.line.Queue().NextFail(), c.ttlAt)
	if c.line.Len() > 0 {
		next = min(next, c.e.world.Load().Table.AsideEnd())
	}
	if next == c.timerAt && (next == queue.NoDue || next > c.Now()) {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer, c.timerAt = nil, next
	if next != queue.NoDue {
		c.timer = c.e.clock.AfterFunc(max(0, time.Duration(next-c.Now())), c.e.nudge)
	}
}

// advise answers an advisory selection.
func (c *core) advise(j *job) {
	j.placement, j.err = c.e.selectNow(c.e.world.Load(), &c.look, j.id, &j.request)
	j.stage = granted
	j.reply <- settled
}

// arrive decides about an arrival.
func (c *core) arrive(j *job) {
	w := c.e.world.Load()
	if w.Closed {
		c.refuse(j, &sched.Error{Code: sched.ErrClosed, Request: j.id})
		return
	}
	_, taken := c.e.ids.LoadOrStore(j.id, j.record)
	j.claimed = !taken
	switch {
	case taken:
		c.refuse(j, &sched.Error{Code: sched.ErrDuplicate, Request: j.id, Rule: "a request of this id waits or is booked"})
		return
	case j.due <= c.Now():
		c.refuse(j, pastDue(j.id))
		return
	case len(w.Table.Slots()) == 0 && !awaits(w, w.ClassOf(j.class, &j.request), j):
		c.refuse(j, &sched.Error{Code: sched.ErrNoEndpoints, Request: j.id, Rule: "there are no workers"})
		return
	}
	class, cached := w.Classify(j.class, &j.request)
	c.seq++
	j.setEntry(c.seq, c.Now(), cached)
	j.stage = waiting
	// Before the gate is looked at: a caller that frees capacity after that look sees it.
	c.e.waiting.Add(1)
	for c.line.Arrive(class, &j.entry, c.slice()) != queue.Done {
		if c.catchUp(); j.stage != waiting {
			return
		}
	}
	if !c.serve() {
		c.catchUp()
	}
}

// book makes the booking that was chosen. REQUIRES: the rank's lock.
func (c *core) book(j *job, shard *shards.Shard) {
	e, rec, r, p := c.e, j.record, &j.request, &j.placement
	p.Attempt = e.attempts.Add(1)
	rec.placement = *p
	rec.Attempt, rec.ISL, rec.Cached = p.Attempt, r.ISL, p.CachedTokens
	rec.Tracked, rec.Expected = r.Tracked, r.Expected
	if r.Tracked {
		rec.Tokens = max(0, r.ISL-p.CachedTokens)
	}
	rec.overlaps, rec.asked = slices.Clone(r.Overlaps), asked(r)
	if ttl := int64(e.config.BookingTTL); ttl > 0 {
		c.serial++
		rec.Touched, rec.Serial = e.now(), c.serial
		c.ttlAt = min(c.ttlAt, rec.Touched+ttl)
		e.live.Add(1)
	}
	rec.shard.Store(shard)
	shard.BookLocked(&rec.Booking, r.Blocks)
}

// refuse ends a job with an error.
func (c *core) refuse(j *job, err error) {
	if j.kind != toSelect {
		c.tellRejected(j.id, j.query(), err)
	}
	c.settle(j, refused, err)
}

// settle ends the wait of a job and tells its owner. A granted booking keeps the
// id.
func (c *core) settle(j *job, to stage, err error) {
	c.uncount(j)
	if j.claimed && (to == refused || j.query()) {
		c.e.ids.Delete(j.id)
		j.claimed = false
	}
	if j.stage == waiting {
		c.e.waiting.Add(-1)
	}
	j.stage, j.err = to, err
	select {
	case j.reply <- settled:
	default: // its owner leaves, and has not heard the last word
	}
}

func (c *core) count(j *job, class int) {
	u := &c.usage[class]
	u.Requests, u.Raw, u.Cached = u.Requests+1, u.Raw+j.entry.Raw, u.Cached+j.entry.Cached
	j.counted = true
}

func (c *core) uncount(j *job) {
	if !j.counted {
		return
	}
	u := &c.usage[j.entry.Class()]
	u.Requests, u.Raw, u.Cached = u.Requests-1, u.Raw-j.entry.Raw, u.Cached-j.entry.Cached
	j.counted = false
}

func (c *core) tellRejected(id string, query bool, err error) {
	var e *sched.Error
	if errors.As(err, &e) {
		c.rejected[e.Code.Error()]++
	}
	c.tell(&sched.Decision{Kind: sched.DecisionRejected, Request: id, Query: query, Err: err})
}

// tell calls the hook. A panic there must not end the actor.
func (c *core) tell(d *sched.Decision) {
	if c.e.config.OnDecision == nil {
		return
	}
	defer func() { _ = recover() }()
	c.e.config.OnDecision(*d)
}

// close refuses everyone and ends the goroutine.
func (c *core) close() {
	if c.closing {
		return
	}
	c.closing = true
	world := *c.e.world.Load()
	world.Closed = true
	c.e.world.Store(world.Made())
	for entry := range c.line.Queue().All {
		c.line.Remove(entry)
		c.refuse(entry.Value, &sched.Error{Code: sched.ErrClosed, Request: entry.Value.id})
	}
}
