package sched

import (
	"time"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/journal"
	"github.com/seed-3c5df8a4/turnstile/sched/internal/overlaps"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// attempt is one attempt to choose a rank and book it, as one step.
//
// A look at the published loads proposes a rank. Under that rank's lock the
// booking is made only if what was read still holds:
//
//   - the world is still the one looked at, and the rank is alive;
//   - the selector stands by its choice: the cost is not above the runner-up's;
//   - the gate has a witness, if the class has a threshold: an eligible rank that
//     is not busy under its own lock, the chosen one or, locked with it in order,
//     another;
//   - on the fast path no request has started to wait; in the turn, no hint about
//     either rank is under way and no instant has passed at which decay unblocks a
//     waiter: that capacity was freed for waiters that have not been tested yet.
//
// With a busy_worker_ratio, whose gate depends on all ranks at once, there is no
// witness: the busy ranks are counted under the rank's lock and that of the count, and
// the booking is made before these are given back. No rank becomes busy or idle
// meanwhile but by time, so what was counted is true when the booking is made. (Two
// that count without it would each count the other's rank as idle, and both book.)
// What was freed for others and may have made the count low enough has its hint
// under way; in the turn none may be.
//
// If not, the race is lost and the caller looks again. After some lost races, and
// with a ratio where the ranks are too few to be counted, the eligible ranks are
// locked together, and look, choice and booking happen under their locks: then there
// is nothing to lose a race to.
type bookTry struct {
	job   *job
	look  *pool.Look
	world *pool.World
	class int
	never bool // the class never queues
	turn  bool // made by the holder of the turn

	expected time.Duration
	// kept is what the booking keeps of the overlaps, packed without locks for the
	// rank that was proposed.
	kept     overlaps.Kept
	proposed RankID
	terms    *terms                  // what else it keeps of the request
	told     *journal.Slot[Decision] // the place of the decision in the journal, outside the turn
}

// tryBook makes one try and, if it succeeds, stores the placement in the job.
// REQUIRES: the look was taken.
func (s *Scheduler) tryBook(a *bookTry, exclusive bool) (outcome, error) {
	rules := a.world.Profile.Class(a.class)
	counted := rules.BusyWorkerRatio > 0 && rules.BusyWorkerRatio < 1
	if exclusive || counted && !a.look.CountsBusy() {
		return s.tryBookLocked(a)
	}
	gated := rules.CanQueue() && !counted
	choice, failed := a.look.Choose(s.rand)
	if failed != nil {
		return decided, failureError(a.job.id, failed)
	}
	if a.onlyReads() {
		p := placementOf(a.look.Placed(choice.Candidate))
		// Reserved before the waiting count is read, so that later waiters have later
		// decisions.
		told := s.journal.Reserve(Decision{Kind: DecisionAdmitted, Request: a.job.id, Query: true, Placement: p})
		// If the witness has not moved, it was one when the waiting count was read.
		if !s.undisturbed(a) || gated && !a.look.StillIdle(choice.Candidate) || counted && !s.roomFor(a) {
			told.Drop()
			return lostRace, nil
		}
		told.Keep()
		a.job.placement = p
		return decided, nil
	}
	a.expected = s.estimate(a, choice)
	s.keep(a, a.look.Candidate(choice.Candidate).Rank)
	chosen := a.look.Slot(choice.Candidate)
	witness := chosen
	if gated && a.look.WasBusy(choice.Candidate) {
		other := a.look.IdleCandidate(choice.Candidate)
		if other < 0 {
			return lostRace, nil
		}
		witness = a.look.Slot(other)
	}
	if counted && !a.look.CountsBusy() { // anew: the choice may have looked at all ranks
		return lostRace, nil
	}
	perturb.Point()
	return s.book(a, choice, chosen, witness, gated, counted), nil
}

// book books on the chosen rank if, under its lock, what was read still holds.
func (s *Scheduler) book(a *bookTry, choice pool.Choice, chosen, witness *shards.Slot, gated, counted bool) outcome {
	shards.LockBoth(chosen.Shard, witness.Shard)
	defer shards.UnlockBoth(chosen.Shard, witness.Shard) // also if the clock panics
	if counted {
		a.look.LockCount(chosen.Shard)
		defer a.look.UnlockCount(chosen.Shard)
	}
	s.reserve(a)
	holds := s.holdsLocked(a, choice, chosen, witness, gated, counted) && a.trackLocked(choice)
	perturb.Point()
	if !holds {
		a.told.Drop()
		return lostRace
	}
	s.takeLocked(a, choice, chosen.Shard)
	return decided
}

// holdsLocked reports whether what was read of the ranks still holds. REQUIRES: the
// locks of chosen and witness, and the count's if counted.
func (s *Scheduler) holdsLocked(a *bookTry, choice pool.Choice, chosen, witness *shards.Slot, gated, counted bool) bool {
	load := chosen.Shard.LoadLocked()
	return !chosen.Shard.DeadLocked() && s.undisturbed(a) &&
		(!a.turn || !chosen.Shard.HintedLocked() && !witness.Shard.HintedLocked()) &&
		(!gated || a.idleLocked(witness)) &&
		a.look.MayTakeLocked(chosen, &load) &&
		(!counted || a.look.RoomLocked() && (!a.turn || !s.env.Hints().Pending())) &&
		a.look.StandsLocked(choice, &load)
}

// roomFor reports whether the share of ranks that are busy for the class lets a query
// go on, and still no other request's turn has come.
func (s *Scheduler) roomFor(a *bookTry) bool {
	if !a.look.CountsBusy() {
		return false
	}
	a.look.LockCount(nil)
	defer a.look.UnlockCount(nil)
	return a.look.RoomLocked() && s.undisturbed(a)
}

// tryBookLocked looks, chooses and books with all eligible ranks locked. Code of
// the embedder's is not called under locks: its selector chooses before, and its
// choice is booked as long as it may be.
func (s *Scheduler) tryBookLocked(a *bookTry) (outcome, error) {
	l := a.look
	foreign := !l.BuiltinSelector()
	choice, failed := l.Choose(s.rand)
	if failed != nil {
		return decided, failureError(a.job.id, failed)
	}
	a.expected = s.estimate(a, choice)
	chosen := l.Candidate(choice.Candidate).Rank
	s.keep(a, chosen)
	perturb.Point()
	l.LockEligible()
	defer l.UnlockEligible()
	s.reserve(a)
	defer func() { a.told.Drop() }() // unless it is kept
	if !s.undisturbed(a) || a.turn && l.HintedLocked() {
		return lostRace, nil
	}
	if l.Retake(); l.MustWait() {
		return lostRace, nil
	}
	if !foreign {
		if choice, failed = l.Choose(s.rand); failed != nil {
			return decided, failureError(a.job.id, failed)
		}
	} else if choice.Candidate = l.Find(chosen); choice.Candidate < 0 {
		return lostRace, nil
	}
	l.Complete(choice.Candidate)
	if !a.trackLocked(choice) {
		return lostRace, nil
	}
	shard := l.Slot(choice.Candidate).Shard
	if shard.DeadLocked() {
		return lostRace, nil
	}
	s.takeLocked(a, choice, shard)
	return decided, nil
}

// reserve takes the place in the journal of a booking outside the turn. It comes before
// the waiting count is read: the decision of a request that starts to wait after that,
// because of this booking or in another world, comes later. REQUIRES: the ranks' locks.
func (s *Scheduler) reserve(a *bookTry) {
	if !a.turn && s.journal != nil {
		a.told = s.journal.Reserve(Decision{Kind: DecisionAdmitted, Request: a.job.id, Query: a.job.query})
		a.job.told = a.told // so that it is dropped if the clock breaks
	}
}

// keep makes what a booking on a rank keeps of its request.
func (s *Scheduler) keep(a *bookTry, rank RankID) {
	if !a.job.query {
		a.kept, a.proposed = overlaps.Keep(a.job.request.Overlaps, rank), rank
		a.terms = s.termsOf(&a.job.request)
	}
}

// onlyReads: a query that no request waits before or behind needs no lock. In the turn
// it does, to see whether something was freed for the requests before it.
func (a *bookTry) onlyReads() bool { return a.job.query && !a.turn }

// trackLocked has a selector with state note the booking.
func (a *bookTry) trackLocked(choice pool.Choice) bool {
	return a.job.query || a.look.TrackLocked(choice)
}

// takeLocked places the job and books, unless it is a query. REQUIRES: the rank's
// lock.
func (s *Scheduler) takeLocked(a *bookTry, choice pool.Choice, shard *shards.Shard) {
	a.job.placement = placementOf(a.look.Placed(choice.Candidate))
	if !a.job.query {
		s.bookLocked(a, choice, shard)
	}
	a.told.KeepWith(func(d *Decision) { d.Placement = a.job.placement })
}

// undisturbed reports whether the world stands and no other request's turn has come.
func (s *Scheduler) undisturbed(a *bookTry) bool {
	if s.world.Load() != a.world {
		return false
	}
	if a.turn {
		return s.beforeNextFree()
	}
	return s.nobodyAhead(a)
}

// beforeNextFree reports whether time alone has freed no rank that a waiter waits for.
// REQUIRES: the turn.
func (s *Scheduler) beforeNextFree() bool {
	next := s.line.nextFree()
	return next == queue.NoDue || s.now() < next
}

// nobodyAhead reports whether a request that is decided outside the turn has no waiter
// before it: of any class or, if its class never queues, of its own.
func (s *Scheduler) nobodyAhead(a *bookTry) bool {
	switch {
	case s.waiting.Load() == 0:
		return true
	case !a.never:
		return false
	case !a.world.Profile.Class(a.class).CanQueue():
		return true
	default:
		usage, known := s.ledger.usageFor(a.world.Profile, a.class)
		return known && usage.Requests == 0
	}
}

// idleLocked reports whether a rank is not busy for the class. REQUIRES: its lock.
func (a *bookTry) idleLocked(slot *shards.Slot) bool {
	load := slot.Shard.LoadLocked()
	return !a.look.Instant.Busy(a.world.BusyAbove(a.class, slot), &load) && a.look.MayTakeLocked(slot, &load)
}

// bookLocked makes the booking. REQUIRES: the rank's lock.
func (s *Scheduler) bookLocked(a *bookTry, choice pool.Choice, shard *shards.Shard) {
	j, rec := a.job, a.job.record
	r, p := &j.request, &j.placement
	p.Attempt = s.ids.NextAttempt(&rec.claimed)
	rec.Attempt, rec.ISL, rec.Cached = p.Attempt, r.ISL, p.CachedTokens
	rec.Tracked, rec.Expected = r.Tracked, a.expected
	rec.Tokens = 0
	if r.Tracked {
		rec.Tokens = max(0, r.ISL-p.CachedTokens)
	}
	rec.worker, rec.potential = a.look.Slot(choice.Candidate).Worker, p.PotentialDecodeBlocks
	rec.class = s.classes.Of(a.world.Profile, a.class)
	rec.overlaps, rec.terms = a.kept, a.terms
	if id := shard.ID(); id != a.proposed {
		rec.overlaps.SetRank(id)
	}
	if s.config.BookingTTL > 0 {
		rec.Touched, rec.Serial = s.now(), s.expiry.serial.Add(1)
		s.expiry.live.Add(1)
	}
	rec.shard.Store(shard)
	shard.BookLocked(&rec.Booking, r.Blocks)
}

// estimate returns the expected prefill duration of a request on its rank.
func (s *Scheduler) estimate(a *bookTry, choice pool.Choice) time.Duration {
	l := a.look
	r := l.Request
	if r.Expected != lifecycle.NoDuration || s.estimator == nil || !r.Tracked || a.job.query {
		return r.Expected
	}
	p := l.Placed(choice.Candidate)
	d, ok := s.askEstimator(PrefillWork{
		Rank: p.Rank, Tokens: max(0, r.ISL-p.Cached), ISL: r.ISL, ExpectedOSL: r.ExpectedOSL,
	})
	if !ok || d < 0 {
		return lifecycle.NoDuration
	}
	return d
}

func (s *Scheduler) askEstimator(work PrefillWork) (d time.Duration, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			d, ok = 0, false
			s.hookPanicked(hookEstimator, p)
		}
	}()
	return s.estimator(work)
}
