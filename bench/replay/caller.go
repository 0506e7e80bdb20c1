package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// call is the life of one request, on its own goroutine.
func (d *driver) call(ctx context.Context, i int) {
	f, r := &d.flights[i], &d.cfg.Requests[i]
	blocks := r.FullBlocks(d.cfg.Rank.Block)
	request := sched.Request{
		ID:          d.ids[i],
		ISL:         r.ISL,
		ExpectedOSL: r.OSL,
		Blocks:      blocks,
		Overlaps:    d.overlaps(blocks, i),
		Class:       r.Class,
	}

	d.entered()
	began := time.Now()
	booking, err := d.engine.Schedule(ctx, &request)
	f.schedule = time.Since(began)
	d.calls.Add(-1)
	if err != nil {
		f.fail(ctx, refused, err)
		return
	}
	n := d.node(booking.Placement().Rank)
	if n == nil {
		f.fail(ctx, refused, fmt.Errorf("request %s was put on rank %v, which does not exist",
			booking.ID(), booking.Placement().Rank))
		f.check(ctx, booking.Release())
		return
	}
	f.notify = make(chan struct{}, 1)
	n.submit(i, blocks)
	d.follow(ctx, f, n, booking)
}

// follow tells the engine what happens to a booking, to its end.
func (d *driver) follow(ctx context.Context, f *flight, n *node, booking engine.Booking) {
	for {
		select {
		case <-f.notify:
		case <-ctx.Done():
			f.fail(ctx, unfinished, context.Cause(ctx))
			f.check(ctx, booking.Release())
			return
		}
		got := n.take(f)
		if got.firstToken {
			f.check(ctx, booking.PrefillDone())
			f.firstToken = got.firstTokenAt
		}
		for range got.outputBlocks {
			f.check(ctx, booking.AddOutputBlock())
		}
		if got.finished {
			f.check(ctx, booking.Release())
			if f.err == nil {
				f.outcome = completed
			}
			return
		}
	}
}

// fail records how a request ended, unless it was merely given up because the
// replay was interrupted.
func (f *flight) fail(ctx context.Context, how outcome, err error) {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrStalled) {
		f.outcome = cutShort
		return
	}
	f.outcome = how
	f.err = err
}

// check records the first error of a lifecycle call. All are made on live
// bookings and once, so that none should fail.
func (f *flight) check(ctx context.Context, err error) {
	if err != nil && f.err == nil {
		f.fail(ctx, unfinished, err)
	}
}

// entered counts a caller in, and keeps the most there were at once.
func (d *driver) entered() {
	now := d.calls.Add(1)
	for {
		most := d.mostCalls.Load()
		if now <= most || d.mostCalls.CompareAndSwap(most, now) {
			return
		}
	}
}

// overlaps names the ranks that hold most of the prompt's leading blocks.
func (d *driver) overlaps(blocks []uint64, i int) []sched.Overlap {
	best := d.holders.Best(blocks, d.cfg.MaxOverlaps, i)
	out := make([]sched.Overlap, len(best))
	for j, b := range best {
		out[j] = sched.Overlap{Rank: d.rankID(b.Rank), Device: float64(b.Blocks)}
	}
	return out
}
