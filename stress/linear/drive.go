package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// recording is one history in the making.
type recording struct {
	*history
	engine engine.Engine
	time   *clock.Manual
	next   atomic.Int32 // requests handed out
	moves  atomic.Int32 // moves of the clock that were begun
	ticks  atomic.Int32 // moves that were made
	moved  sync.Mutex   // held while the clock moves
	group  sync.WaitGroup
	shared struct {
		sync.Mutex
		bookings []*owned
		pending  []*pending
	}
}

// owned is a booking that anybody may act on.
type owned struct {
	r        *request
	booking  engine.Booking
	attempts atomic.Uint32 // of which a caller has been told
	released atomic.Bool
}

// pending is a call that has not returned.
type pending struct {
	*call
	cancel context.CancelFunc
	done   chan struct{}
}

// patience is how long, in real time, something may take that takes microseconds.
const patience = time.Minute

// record runs some clients against a new engine and returns what they saw.
func record(target Target, seed uint64) (h *history, err error) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	clients, steps := 3+rnd.IntN(4), 4+rnd.IntN(5)
	w, err := newWorld(rnd, clients*steps)
	if err != nil {
		return nil, err
	}
	file, err := policy.Parse([]byte(policies[0]))
	if err != nil {
		return nil, err
	}
	r := &recording{history: newHistory(w), time: clock.NewManual(time.Unix(0, 0))}
	r.engine, err = target.New(sched.Config{BlockSize: 16, Policy: file}, r.time, r.hook)
	if err != nil {
		return nil, err
	}
	if err := r.engine.SetWorkers(w.workers); err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	for c := range clients {
		client := &client{recording: r, number: c, rnd: rand.New(rand.NewPCG(seed, uint64(c)+2))}
		group.Go(func() {
			for range steps {
				client.step()
			}
		})
	}
	group.Wait()
	return r.history, r.finish(rnd, clients)
}

// finish looks at the engine at rest, lets everybody go and looks again.
func (r *recording) finish(rnd *rand.Rand, client int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.rest(ctx, client); err != nil {
		return err
	}
	r.rested = r.now()
	if rnd.IntN(2) == 0 {
		r.change(client, change{kind: "close"}, r.engine.Close)
	}
	r.shared.Lock()
	for _, p := range r.shared.pending {
		p.leave(r.history)
	}
	r.shared.Unlock()
	r.group.Wait()
	if err := r.rest(ctx, client); err != nil {
		return err
	}
	for _, o := range r.shared.bookings {
		if err := o.booking.Release(); err != nil && !errors.Is(err, sched.ErrUnchanged) {
			return err
		}
	}
	for _, l := range r.engine.Loads() {
		if l.PrefillTokens != 0 || l.Blocks != 0 || l.Requests != 0 {
			return fmt.Errorf("all is released, and rank %v has %+v", l.Rank, l)
		}
	}
	return r.engine.Close()
}

// rest waits until every call has returned or waits and the engine moves no more,
// and records what is seen then.
func (r *recording) rest(ctx context.Context, client int) error {
	for !r.decided() {
		if ctx.Err() != nil {
			return errors.New("a call neither returns nor is told to wait")
		}
		runtime.Gosched()
	}
	if err := r.engine.Settle(ctx); err != nil {
		return err
	}
	for !r.decided() { // what was granted has returned by now, or will at once
		if ctx.Err() != nil {
			return errors.New("a call that was granted does not return")
		}
		runtime.Gosched()
	}
	began := r.now()
	o := rest{loads: r.engine.Loads(), classes: r.engine.Stats().Classes}
	for i := range o.loads {
		o.loads[i].TotalKVBlocks = 0
	}
	r.did(client, o, began)
	return nil
}

// decided reports whether each call has returned or been told to wait.
func (r *recording) decided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.mu.calls {
		if c.end == 0 && (c.queuedAt == 0 || c.admittedAt != 0 || c.left.Load() != 0) {
			return false
		}
	}
	return true
}

// leave ends the context of a call.
func (p *pending) leave(h *history) {
	if p.left.CompareAndSwap(0, h.now()) {
		p.cancel()
	}
}

// start begins a Schedule or Query on its own goroutine.
func (r *recording) start(number int, q *request) *pending {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{&call{r: q, client: number}, cancel, make(chan struct{})}
	r.shared.Lock()
	r.shared.pending = append(r.shared.pending, p)
	r.shared.Unlock()
	q.born = uint8(r.ticks.Load())
	r.begins(p.call)
	r.group.Go(func() {
		defer close(p.done)
		defer cancel()
		asked := r.world.asked(q)
		if q.query {
			placement, err := r.engine.Query(ctx, asked)
			r.ends(p.call, placement.Rank, err)
			return
		}
		b, err := r.engine.Schedule(ctx, asked)
		if err != nil {
			r.ends(p.call, sched.RankID{}, err)
			return
		}
		r.ends(p.call, b.Placement().Rank, nil)
		o := &owned{r: q, booking: b}
		o.attempts.Store(1)
		r.shared.Lock()
		r.shared.bookings = append(r.shared.bookings, o)
		r.shared.Unlock()
	})
	return p
}

// change makes a call about the scheduler as a whole and records it.
func (r *recording) change(client int, c change, f func() error) {
	began := r.now()
	c.err = f()
	if replaces := c.kind == "add" && c.process != 0; c.err == nil && (c.kind == "remove" || replaces) {
		for rank := range r.world.ranks {
			if r.world.worker(rank) == c.worker {
				r.did(client, drop{rank, replaces}, began)
			}
		}
	}
	r.did(client, c, began)
}
