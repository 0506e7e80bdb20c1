package sched

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// terms is what a request asked for beside its prompt, as far as choosing another
// rank for its booking needs it. It is immutable.
type terms struct {
	allowed, excluded []uint64
	required          []string
	taints            []pool.TaintWeight
	credit, scale     float64 // of this request
	temperature       float64
}

// termsOf returns what a booking keeps of its request, nil if that is nothing out of
// the ordinary.
func (s *Scheduler) termsOf(r *pool.Request) *terms {
	c, p := &r.Constraints, &r.Params
	if c.Allowed == nil && len(c.Excluded) == 0 && len(c.RequiredTaints) == 0 && len(r.Taints) == 0 &&
		p.OverlapCredit == s.params.OverlapCredit && p.PrefillScale == s.params.PrefillScale &&
		p.Temperature == s.params.Temperature {
		return nil
	}
	t := &terms{
		excluded: slices.Clone(c.Excluded), required: slices.Clone(c.RequiredTaints), taints: slices.Clone(r.Taints),
		credit: p.OverlapCredit, scale: p.PrefillScale, temperature: p.Temperature,
	}
	if c.Allowed != nil {
		t.allowed = append([]uint64{}, c.Allowed...)
	}
	return t
}

// moved fills in the request that a booking stands for when another rank is chosen:
// as it was asked for, but without pin and preference. REQUIRES: the lock of the
// booking's rank.
func (s *Scheduler) moved(rec *record, shard *shards.Shard, allowed []uint64, r *pool.Request) {
	r.ID, r.ISL, r.Tracked, r.Params = rec.ID, rec.ISL, rec.Tracked, s.params
	r.Blocks, r.Overlaps = shard.PromptLocked(&rec.Booking), rec.overlaps.List()
	r.Expected, r.HasPrefer, r.Taints = lifecycle.NoDuration, false, nil
	r.Constraints = shards.Constraints{Allowed: allowed}
	if t := rec.terms; t != nil {
		c := &r.Constraints
		c.Excluded, c.RequiredTaints, r.Taints = t.excluded, t.required, t.taints
		if allowed == nil {
			c.Allowed = t.allowed
		}
		r.Params.OverlapCredit, r.Params.PrefillScale, r.Params.Temperature = t.credit, t.scale, t.temperature
	}
}

// transferToBest moves a live booking to the rank that the selector chooses.
func (s *Scheduler) transferToBest(rec *record, attempt uint64, allowed []uint64) (Placement, error) {
	l := s.looks.Get().(*pool.Look)
	defer s.putLook(l)
	m := move{rec: rec, attempt: attempt, look: l, request: &l.Own}
	p, err := s.move(&m, func(shard *shards.Shard) { s.moved(rec, shard, allowed, m.request) })
	if err != nil {
		return Placement{}, err
	}
	s.loadFell()
	return p, nil
}

// move is one choice of another rank for a live booking, and its transfer there, as
// one step: what was read of the booking's own rank must still be so, and the choice
// must stand, under the locks of both. If not, the race is lost and the ranks are
// looked at again; after some lost races all of them are locked for it.
type move struct {
	rec     *record
	attempt uint64
	look    *pool.Look
	request *pool.Request
	// class says which class's rules hold in a world; nil for none.
	class func(*pool.World) int

	own     *shards.Shard // the rank the booking is on
	version uint64        // of own, when it was read
	// load and live are own's as if the booking were released.
	load lifecycle.Load
	live int
}

// move chooses and transfers. prepare is called with the lock of the booking's rank
// before each look. If its own rank is chosen the error is ErrUnchanged. It reports no
// event.
func (s *Scheduler) move(m *move, prepare func(*shards.Shard)) (p Placement, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the booking stays where it is
			s.hookPanicked(hookDeciding, cause)
			p, err = Placement{}, brokenOff(m.rec.ID)
		}
	}()
	for races := 0; ; races++ {
		if err := s.readOwn(m, prepare); err != nil {
			return Placement{}, err
		}
		l, w := m.look, s.current()
		if m.class != nil {
			l.Guards = s.guardsAt(w, s.now())
		}
		l.TakeWhole(w, m.request, -1, pool.Lazily(s.env.Now))
		m.complete()
		choice, failed := l.Choose(s.rand)
		if failed != nil {
			return Placement{}, failureError(m.rec.ID, failed)
		}
		perturb.Point()
		var out outcome
		if races < lostRaces {
			p, out, err = s.moveTo(m, choice)
		} else {
			p, out, err = s.moveLockingAll(m, choice)
		}
		if out != lostRace {
			return p, err
		}
		s.counters.retries.Inc()
	}
}

// readOwn reads what the booking's own rank will be without it.
func (s *Scheduler) readOwn(m *move, prepare func(*shards.Shard)) error {
	shard, err := s.lockLive(m.rec, m.attempt)
	if err != nil {
		return err
	}
	defer shard.Unlock()
	s.touchedLocked(m.rec, shard)
	prepare(shard)
	m.own = shard
	m.readLocked()
	return nil
}

// readLocked REQUIRES the lock of own.
func (m *move) readLocked() {
	m.load, m.live = m.own.WithoutLocked(&m.rec.Booking, m.request.Blocks)
	m.version = m.own.Version()
}

// complete has the look count the ranks without the booking, by the rules of the
// class.
func (m *move) complete() {
	l := m.look
	if at := l.Find(m.own.ID()); at >= 0 && l.Slot(at).Shard == m.own {
		l.Correct(m.own.ID(), &m.load, m.live)
	}
	if m.class != nil {
		l.Restrict(m.class(l.World))
	}
}

// moveTo transfers to the rank chosen, if the choice still stands.
func (s *Scheduler) moveTo(m *move, choice pool.Choice) (Placement, outcome, error) {
	l, rec, to := m.look, m.rec, m.look.Slot(choice.Candidate)
	if to.Shard == m.own {
		return Placement{}, decided, ErrUnchanged
	}
	shards.LockBoth(m.own, to.Shard)
	defer shards.UnlockBoth(m.own, to.Shard)
	if rec.shard.Load() != m.own || m.own.Version() != m.version || s.world.Load() != l.World || to.Shard.DeadLocked() {
		return Placement{}, lostRace, nil
	}
	if err := rec.currentLocked(m.attempt); err != nil {
		return Placement{}, decided, err
	}
	load := to.Shard.LoadLocked()
	if !l.StandsLocked(choice, &load) || !l.MayTakeLocked(to, &load) {
		return Placement{}, lostRace, nil
	}
	return s.moveLocked(rec, m.own, to), decided, nil
}

// moveLockingAll looks, chooses and transfers with all eligible ranks and the
// booking's own locked. Code of the embedder's is not called under locks: its
// selector has chosen before, and its choice holds as long as it may.
func (s *Scheduler) moveLockingAll(m *move, choice pool.Choice) (Placement, outcome, error) {
	l, rec := m.look, m.rec
	chosen := l.Candidate(choice.Candidate).Rank
	l.LockEligibleAnd(m.own)
	defer l.UnlockEligible()
	if rec.shard.Load() != m.own || s.world.Load() != l.World {
		return Placement{}, lostRace, nil
	}
	if err := rec.currentLocked(m.attempt); err != nil {
		return Placement{}, decided, err
	}
	m.readLocked()
	l.TakeWhole(l.World, m.request, -1, l.Instant)
	m.complete()
	if l.BuiltinSelector() {
		var failed *pool.Failure
		if choice, failed = l.Choose(s.rand); failed != nil {
			return Placement{}, decided, failureError(rec.ID, failed)
		}
	} else if choice.Candidate = l.Find(chosen); choice.Candidate < 0 {
		return Placement{}, lostRace, nil
	}
	switch to := l.Slot(choice.Candidate); {
	case to.Shard == m.own:
		return Placement{}, decided, ErrUnchanged
	case to.Shard.DeadLocked():
		return Placement{}, lostRace, nil
	default:
		return s.moveLocked(rec, m.own, to), decided, nil
	}
}

// TransferToBest moves the booking to the rank that the selector chooses, in one step,
// as if the booking were released and its prompt were to be computed there: many
// bookings that move at once are spread over the ranks. allowed are the workers that
// may be chosen in this call; nil means those that the request allows, an empty list
// allows none. The request's other constraints hold, its pin and preference do not, nor
// the rules of its class. The handle then stands for the new attempt. If the rank it is
// on is the best the error is ErrUnchanged; if there is none, ErrNoEndpoints or
// ErrOverloaded; if what chooses fails, ErrSelector or ErrInternal: the booking stays
// where it is.
func (b *Booking) TransferToBest(allowed []uint64) (Placement, error) {
	if !b.made() {
		return Placement{}, unmade()
	}
	p, err := b.s.transferToBest(b.rec, b.rec.held.Load(), allowed)
	if err == nil {
		b.rec.held.Store(p.Attempt)
	}
	return p, err
}

// TransferToBest is Booking.TransferToBest by request id, as PrefillDone. A handle of
// the booking is stale from then on.
func (s *Scheduler) TransferToBest(id string, attempt uint64, allowed []uint64) (Placement, error) {
	rec, err := s.byID(id)
	if err != nil {
		return Placement{}, err
	}
	p, err := s.transferToBest(rec, attempt, allowed)
	return p, endedToNotFound(rec, err)
}
