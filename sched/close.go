package sched

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Recheck waits until every waiter has been tested again, and returns at once when no
// class can queue or waits for an endpoint. It returns the context's error if that ends
// first.
func (s *Scheduler) Recheck(ctx context.Context) error {
	if err := s.contextGiven(ctx); err != nil {
		return err
	}
	if p := s.world.Load().Profile; !p.CanQueue() && !p.WaitsForEndpoint() {
		return nil
	}
	done := make(chan struct{})
	s.rechecks.add(done)
	s.enterTurn(arrivalAllowance)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return contextError("", ctx.Err())
	}
}

// Shutdown refuses new requests, lets the waiters go on until no request waits or ctx
// ends, then closes the scheduler and, as long as ctx allows, waits until observers
// have received all events. It does not wait for bookings to be released: Stats().Live
// says how many are left. It returns the context's error if that ended first; requests
// that still wait get ErrClosed.
func (s *Scheduler) Shutdown(ctx context.Context) error {
	if err := s.contextGiven(ctx); err != nil {
		return err
	}
	_ = s.change(func(w *pool.World) ([]*shards.Shard, error) {
		w.Draining = true
		return nil, nil
	})
	err := s.await(ctx, func() bool { return s.waiting.Load() == 0 })
	err = errors.Join(err, s.Close())
	if err == nil {
		err = s.await(ctx, s.outbox.Quiet)
	}
	return err
}

// Close refuses new requests and answers every waiter with ErrClosed. Bookings stay
// until they are released; their lifecycle calls go on working. Closing twice is
// harmless.
func (s *Scheduler) Close() error {
	if err := s.made(); err != nil {
		return err
	}
	_ = s.change(func(w *pool.World) ([]*shards.Shard, error) {
		w.Closed = true
		return nil, nil
	})
	return s.await(context.Background(), func() bool { return s.waiting.Load() == 0 })
}

// Settle waits until nothing moves: the turn is free, no arrival is undecided, and
// hooks and observers have received every decision and event. It is for tests and
// simulations; while other callers are active it may never return.
func (s *Scheduler) Settle(ctx context.Context) error {
	if err := s.contextGiven(ctx); err != nil {
		return err
	}
	return s.await(ctx, func() bool {
		s.flush()
		return s.turn.Idle() && s.arrivals.Empty() && s.leavers.Empty() && s.journal.Quiet() && s.outbox.Quiet()
	})
}

// await polls for something that is rarely waited for, at first eagerly and then with
// growing pauses up to a millisecond, so that the hot path need not signal it.
func (s *Scheduler) await(ctx context.Context, done func() bool) error {
	pause := time.Microsecond
	for spins := 0; !done(); spins++ {
		if err := ctx.Err(); err != nil {
			return contextError("", err)
		}
		if spins < 100 {
			runtime.Gosched()
			continue
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Millisecond)
	}
	return nil
}
