package sched

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/ids"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/overlaps"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Booking is a live claim on a rank. Its owner reports what becomes of the request and
// releases it. Methods may be called from any goroutine, after Close too; they never
// wait for a turn and are idempotent. A call that finds nothing to change returns
// ErrUnchanged (a second Release too: the error names the request). A call after a
// transfer by id returns ErrStaleAttempt.
type Booking struct {
	_   noCopy
	s   *Scheduler
	rec *record
	// cleanup reclaims the booking when this handle is garbage; nil if nothing does.
	cleanup *runtime.Cleanup
}

// record is what the scheduler knows of a request from the moment its id is
// claimed until its booking has ended. The embedded lifecycle.Booking and the
// other plain fields are guarded by the lock of the rank it is on.
type record struct {
	lifecycle.Booking
	claimed ids.Entry[*record]
	// shard is the rank the booking is or was on; nil before it was booked.
	// Written under the lock of the rank it leaves, and of the one it comes to;
	// read by all; a reader then looks again under the lock.
	shard     atomic.Pointer[shards.Shard]
	worker    *shards.Worker // as it was when it was decided to go there
	class     *measure.Class // of the class it was admitted in; written when it is booked, not again
	potential int64
	overlaps  overlaps.Kept // as asked for, or as refreshed; set to the rank it is on
	terms     *terms        // what else it asked for; nil if nothing
	// done is the channel of Done, once Done was called or the booking ended without
	// its owner: then it says why, see Scheduler.expired.
	done atomic.Pointer[chan struct{}]
	// cancel cancels the context of Do's callback, with the reason as the cause. Written
	// by Do once, before it looks whether the booking has ended; read by the goroutine
	// that ends the booking without its owner, after done was written: so one of them
	// sees it.
	cancel atomic.Pointer[context.CancelCauseFunc]
	// held is the attempt the owner's handle stands for; moved by the handle's
	// own Transfer only.
	held atomic.Uint64
	own  Booking
	// waited is how long the request stood in line, in ns; the owner's.
	waited int64
	life   *life // written before the record is published; nil without observers
}

// lock takes the lock of the rank the booking is or was on. REQUIRES: it was
// booked.
func (r *record) lock() *shards.Shard {
	for {
		shard := r.shard.Load()
		shard.Lock()
		if r.shard.Load() == shard {
			return shard
		}
		shard.Unlock()
	}
}

func (r *record) placementLocked(shard *shards.Shard) Placement {
	id := shard.ID()
	return Placement{
		Rank: id, Endpoint: r.worker.Endpoint, Attempt: r.Attempt, CachedTokens: r.Cached,
		Overlap: r.overlaps.Overlap(id), PotentialDecodeBlocks: r.potential,
	}
}

func (r *record) currentLocked(attempt uint64) error {
	switch {
	case attempt != 0 && attempt < r.Attempt:
		return &Error{
			Code: ErrStaleAttempt, Request: r.ID,
			Rule: fmt.Sprintf("attempt %d: a later one, %d, has taken its place", attempt, r.Attempt),
		}
	case attempt > r.Attempt:
		return &Error{Code: ErrNotFound, Request: r.ID, Rule: fmt.Sprintf("attempt %d: there is none yet", attempt)}
	case !r.Live():
		return &Error{Code: ErrUnchanged, Request: r.ID, Rule: "the booking has ended"}
	}
	return nil
}

// life is what is kept of a request for observers; only while there are any.
type life struct {
	arrival int64 // ns
	// class and granted are the owner's until it has told the grant.
	class   string
	granted int64 // ns
	// stage is nil until the grant has been told, and grantTold from then on; or
	// it is the event that ended the booking before that.
	stage atomic.Pointer[Event]
}

var grantTold Event
