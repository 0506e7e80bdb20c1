package script_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// fake is an engine with one lock and simple rules: a worker has rank 0 only
// and takes one booking, the lowest free worker is chosen, and who finds none
// waits in order of arrival. A policy text of "bad" is refused.
type fake struct {
	setup script.Setup
	mu    struct {
		sync.Mutex
		closed  bool
		serial  uint64
		workers []uint64
		queue   []*fakeWaiter
		live    map[string]*fakeBooking
	}
	// lie, if set, may alter what the hook is told; false drops it.
	lie func(*sched.Decision) bool
}

type fakeWaiter struct {
	id     string
	isl    int64
	query  bool
	result chan fakeResult
	timer  clock.Timer
}

type fakeResult struct {
	booking   *fakeBooking
	placement sched.Placement
	err       error
}

type fakeBooking struct {
	engine     *fake
	id         string
	placement  sched.Placement
	prefilled  bool
	ended      bool
	done       chan struct{}
	expiration clock.Timer
}

func newFake(s script.Setup) (engine.Engine, error) {
	return newLiar(nil)(s)
}

func newLiar(lie func(*sched.Decision) bool) script.Factory {
	return func(s script.Setup) (engine.Engine, error) {
		if s.BlockSize <= 0 || string(s.PolicyYAML) == "bad" {
			return nil, &sched.Error{Code: sched.ErrInvalid}
		}
		f := &fake{setup: s, lie: lie}
		f.mu.live = make(map[string]*fakeBooking)
		return f, nil
	}
}

func (f *fake) tell(d sched.Decision) {
	if f.lie == nil || f.lie(&d) {
		f.setup.OnDecision(d)
	}
}

func fakeError(id string, code error) error { return &sched.Error{Code: code, Request: id} }

// placeLocked returns the lowest free worker.
func (f *fake) placeLocked() (sched.Placement, bool) {
	for _, w := range f.mu.workers {
		taken := false
		for _, b := range f.mu.live {
			taken = taken || b.placement.Rank.Worker == w
		}
		if !taken {
			return sched.Placement{Rank: sched.RankID{Worker: w}}, true
		}
	}
	return sched.Placement{}, false
}

func (f *fake) grantLocked(id string, query bool, p sched.Placement) fakeResult {
	if query {
		f.tell(sched.Decision{Kind: sched.DecisionAdmitted, Request: id, Query: true, Placement: p})
		return fakeResult{placement: p}
	}
	f.mu.serial += 7 // attempts need only grow
	p.Attempt = f.mu.serial
	b := &fakeBooking{engine: f, id: id, placement: p, done: make(chan struct{})}
	f.mu.live[id] = b
	b.armLocked()
	f.tell(sched.Decision{Kind: sched.DecisionAdmitted, Request: id, Placement: p})
	return fakeResult{booking: b, placement: p}
}

func (f *fake) dispatchLocked() {
	for len(f.mu.queue) > 0 {
		p, ok := f.placeLocked()
		if !ok {
			return
		}
		w := f.mu.queue[0]
		f.mu.queue = f.mu.queue[1:]
		w.settle(f.grantLocked(w.id, w.query, p))
	}
}

func (w *fakeWaiter) settle(r fakeResult) {
	if w.timer != nil {
		w.timer.Stop()
	}
	w.result <- r
}

// leave refuses w, if it still waits.
func (f *fake) leave(w *fakeWaiter, code error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.mu.queue, w); i >= 0 {
		f.mu.queue = slices.Delete(f.mu.queue, i, i+1)
		f.refuseLocked(w, code)
	}
}

func (f *fake) refuseLocked(w *fakeWaiter, code error) {
	err := fakeError(w.id, code)
	f.tell(sched.Decision{Kind: sched.DecisionRejected, Request: w.id, Query: w.query, Err: err})
	w.settle(fakeResult{err: err})
}

func (f *fake) arrive(ctx context.Context, r *sched.Request, query bool) fakeResult {
	f.mu.Lock()
	waits := slices.ContainsFunc(f.mu.queue, func(w *fakeWaiter) bool { return w.id == r.ID })
	now := f.setup.Clock.Now()
	switch {
	case f.mu.closed:
		f.mu.Unlock()
		return fakeResult{err: fakeError(r.ID, sched.ErrClosed)}
	case r.ISL < 0:
		f.mu.Unlock()
		return fakeResult{err: fakeError(r.ID, sched.ErrInvalid)}
	case waits || f.mu.live[r.ID] != nil:
		f.mu.Unlock()
		return fakeResult{err: fakeError(r.ID, sched.ErrDuplicate)}
	case !r.Due.IsZero() && !r.Due.After(now):
		err := fakeError(r.ID, sched.ErrDeadline)
		f.tell(sched.Decision{Kind: sched.DecisionRejected, Request: r.ID, Query: query, Err: err})
		f.mu.Unlock()
		return fakeResult{err: err}
	}
	if p, ok := f.placeLocked(); ok && len(f.mu.queue) == 0 {
		defer f.mu.Unlock()
		return f.grantLocked(r.ID, query, p)
	}
	if r.DoNotQueue {
		defer f.mu.Unlock()
		pending := int64(len(f.mu.queue))
		return fakeResult{err: &sched.Error{Code: sched.ErrWouldQueue, Class: "default", Pending: pending, Tokens: 2, Cached: 1}}
	}
	w := &fakeWaiter{id: r.ID, isl: r.ISL, query: query, result: make(chan fakeResult, 1)}
	f.mu.queue = append(f.mu.queue, w)
	if !r.Due.IsZero() {
		w.timer = f.setup.Clock.AfterFunc(r.Due.Sub(now), func() { f.leave(w, sched.ErrDeadline) })
	}
	f.tell(sched.Decision{Kind: sched.DecisionQueued, Request: r.ID, Query: query})
	f.mu.Unlock()
	select {
	case res := <-w.result:
		return res
	case <-ctx.Done():
		f.leave(w, sched.ErrCanceled)
		return <-w.result
	}
}

func (f *fake) Schedule(ctx context.Context, r *sched.Request) (engine.Booking, error) {
	res := f.arrive(ctx, r, false)
	if res.err != nil {
		return nil, res.err
	}
	return res.booking, nil
}

func (f *fake) Query(ctx context.Context, r *sched.Request) (sched.Placement, error) {
	res := f.arrive(ctx, r, true)
	return res.placement, res.err
}

func (f *fake) Select(_ context.Context, r *sched.Request) (sched.Placement, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.workers) == 0 {
		return sched.Placement{}, fakeError(r.ID, sched.ErrNoEndpoints)
	}
	return sched.Placement{Rank: sched.RankID{Worker: f.mu.workers[0]}}, nil
}

func (f *fake) setWorkers(change func([]uint64) []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.workers = change(f.mu.workers)
	slices.Sort(f.mu.workers)
	f.dispatchLocked()
}

func (f *fake) UpsertWorker(w sched.Worker) error {
	if w.Ranks == 0 {
		return &sched.Error{Code: sched.ErrInvalid}
	}
	f.setWorkers(func(ids []uint64) []uint64 { return append(ids, w.ID) })
	return nil
}

func (f *fake) SetWorkers(ws []sched.Worker) error {
	f.setWorkers(func([]uint64) []uint64 {
		ids := []uint64{}
		for _, w := range ws {
			ids = append(ids, w.ID)
		}
		return ids
	})
	return nil
}

func (f *fake) RemoveWorker(uint64) error              { return sched.ErrNotFound }
func (f *fake) RemoveIncarnation(uint64, string) error { return sched.ErrNotFound }
func (f *fake) SetAsideIncarnation(uint64, string, time.Duration) error {
	return sched.ErrStaleIncarnation
}
func (f *fake) DrainWorker(uint64) error            { return nil }
func (f *fake) UndrainWorker(uint64) error          { return nil }
func (f *fake) SetOverloaded([]uint64) error        { return nil }
func (f *fake) SetAvailable([]uint64) error         { return nil }
func (f *fake) SetProfileYAML([]byte) error         { return errors.New("out of paper") }
func (f *fake) Recheck(context.Context) error       { return nil }
func (f *fake) Settle(context.Context) error        { return nil }
func (f *fake) AddOutputBlock(string, uint64) error { return nil }

func (f *fake) AddOutputBlockWithDecay(string, uint64, float64) error { return nil }

func (f *fake) onLive(id string, attempt uint64, do func(*fakeBooking) error) error {
	f.mu.Lock()
	b := f.mu.live[id]
	if b == nil {
		f.mu.Unlock()
		return fakeError(id, sched.ErrNotFound)
	}
	stale := attempt != 0 && attempt != b.placement.Attempt
	f.mu.Unlock()
	if stale {
		return fakeError(id, sched.ErrStaleAttempt)
	}
	return do(b)
}

func (f *fake) PrefillDone(id string, n uint64) error {
	return f.onLive(id, n, (*fakeBooking).PrefillDone)
}
func (f *fake) Touch(id string, n uint64) error   { return f.onLive(id, n, (*fakeBooking).Touch) }
func (f *fake) Release(id string, n uint64) error { return f.onLive(id, n, (*fakeBooking).Release) }

func (f *fake) Transfer(id string, n uint64, to sched.RankID) (p sched.Placement, err error) {
	err = f.onLive(id, n, func(b *fakeBooking) error {
		p, err = b.Transfer(to)
		return err
	})
	return p, err
}

func (f *fake) TransferToBest(id string, n uint64, allowed []uint64) (p sched.Placement, err error) {
	err = f.onLive(id, n, func(b *fakeBooking) error {
		p, err = b.TransferToBest(allowed)
		return err
	})
	return p, err
}

func (f *fake) Loads() []sched.RankLoad {
	f.mu.Lock()
	defer f.mu.Unlock()
	loads := []sched.RankLoad{}
	for _, w := range f.mu.workers {
		l := sched.RankLoad{Rank: sched.RankID{Worker: w}}
		for _, b := range f.mu.live {
			if b.placement.Rank == l.Rank {
				l.Requests++
			}
		}
		loads = append(loads, l)
	}
	slices.Reverse(loads) // the runner puts them in order
	return loads
}

func (f *fake) Stats() sched.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := sched.ClassStats{Name: "default", Pending: int64(len(f.mu.queue))}
	for _, w := range f.mu.queue {
		c.Tokens += w.isl
	}
	return sched.Stats{Classes: []sched.ClassStats{c}}
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.closed = true
	for _, w := range f.mu.queue {
		f.refuseLocked(w, sched.ErrClosed)
	}
	f.mu.queue = nil
	return nil
}

func (b *fakeBooking) armLocked() {
	if b.expiration != nil {
		b.expiration.Stop()
	}
	if ttl := b.engine.setup.TTL; ttl > 0 {
		b.expiration = b.engine.setup.Clock.AfterFunc(ttl, func() { b.expire() })
	}
}

func (b *fakeBooking) expire() {
	f := b.engine
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.ended {
		return
	}
	b.endLocked()
	f.tell(sched.Decision{Kind: sched.DecisionExpired, Request: b.id})
	close(b.done)
	f.dispatchLocked()
}

func (b *fakeBooking) endLocked() {
	b.ended = true
	delete(b.engine.mu.live, b.id)
	if b.expiration != nil {
		b.expiration.Stop()
	}
}

func (b *fakeBooking) change(do func() error) error {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	if b.ended {
		return fakeError(b.id, sched.ErrUnchanged)
	}
	b.armLocked()
	return do()
}

func (b *fakeBooking) ID() string                            { return b.id }
func (b *fakeBooking) Placement() sched.Placement            { return b.placement }
func (b *fakeBooking) Done() <-chan struct{}                 { return b.done }
func (b *fakeBooking) Touch() error                          { return b.change(func() error { return nil }) }
func (b *fakeBooking) AddOutputBlock() error                 { return b.Touch() }
func (b *fakeBooking) AddOutputBlockWithDecay(float64) error { return b.Touch() }

func (b *fakeBooking) PrefillDone() error {
	return b.change(func() error {
		if b.prefilled {
			return fakeError(b.id, sched.ErrUnchanged)
		}
		b.prefilled = true
		return nil
	})
}

func (b *fakeBooking) Release() error {
	return b.change(func() error {
		b.endLocked()
		b.engine.dispatchLocked()
		return nil
	})
}

func (b *fakeBooking) Transfer(to sched.RankID) (sched.Placement, error) {
	err := b.change(func() error {
		switch {
		case to == b.placement.Rank:
			return fakeError(b.id, sched.ErrUnchanged)
		case !slices.Contains(b.engine.mu.workers, to.Worker):
			return fakeError(b.id, sched.ErrNoEndpoints)
		}
		b.engine.mu.serial++
		b.placement.Rank, b.placement.Attempt = to, b.engine.mu.serial
		b.engine.dispatchLocked()
		return nil
	})
	return b.placement, err
}

// TransferToBest moves to the lowest of the allowed workers, whether or not it is
// free.
func (b *fakeBooking) TransferToBest(allowed []uint64) (sched.Placement, error) {
	if len(allowed) == 0 {
		return b.placement, fakeError(b.id, sched.ErrNoEndpoints)
	}
	return b.Transfer(sched.RankID{Worker: slices.Min(allowed)})
}

var _ engine.Engine = (*fake)(nil)

// patience is how long, in real time, a command may take on a lying engine.
const patience = 50 * time.Millisecond
