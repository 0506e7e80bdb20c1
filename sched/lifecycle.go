package sched

import (
	"errors"
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// The lifecycle calls. Each takes the lock of the rank the booking is on, makes its
// change there and, if that freed capacity and a request waits, tries the turn. None
// waits for it. attempt 0 means the live one.

// touchedLocked notes that the owner is there.
func (s *Scheduler) touchedLocked(rec *record, shard *shards.Shard) {
	if s.config.BookingTTL > 0 {
		rec.Touched = s.now()
		shard.TouchLocked(&rec.Booking)
	}
}

// lockLive takes the lock of the rank of a live booking. If the booking has
// ended or the attempt is not the live one, it returns the error and no lock.
func (s *Scheduler) lockLive(rec *record, attempt uint64) (*shards.Shard, error) {
	shard := rec.lock()
	if err := rec.currentLocked(attempt); err != nil {
		shard.Unlock()
		return nil, err
	}
	return shard, nil
}

func (s *Scheduler) prefillDone(rec *record, attempt uint64) error {
	shard, err := s.lockLive(rec, attempt)
	if err != nil {
		return err
	}
	s.touchedLocked(rec, shard)
	changed := shard.PrefillDoneLocked(&rec.Booking)
	if changed && rec.life != nil {
		s.tellStep(rec, EventPrefillDone, rec.placementLocked(shard))
	}
	shard.Unlock()
	if !changed {
		return ErrUnchanged
	}
	s.loadFell()
	return nil
}

func (s *Scheduler) touch(rec *record, attempt uint64) error {
	shard, err := s.lockLive(rec, attempt)
	if err != nil {
		return err
	}
	s.touchedLocked(rec, shard)
	shard.Unlock()
	return nil
}

func (s *Scheduler) addOutputBlock(rec *record, attempt uint64) error {
	shard, err := s.lockLive(rec, attempt)
	if err != nil {
		return err
	}
	s.touchedLocked(rec, shard)
	shard.AddOutputBlockLocked(&rec.Booking)
	shard.Unlock()
	s.flush()
	return nil
}

func (s *Scheduler) addDecayedOutputBlock(rec *record, attempt uint64, decay float64) error {
	weight, ok := lifecycle.DecayWeight(decay)
	if !ok {
		return &Error{Code: ErrInvalid, Request: rec.ID, Rule: fmt.Sprintf("decay %v: must be in [0,1]", decay)}
	}
	shard, err := s.lockLive(rec, attempt)
	if err != nil {
		return err
	}
	s.touchedLocked(rec, shard)
	shard.AddDecayedOutputBlockLocked(&rec.Booking, weight)
	shard.Unlock()
	s.loadFell()
	return nil
}

func (s *Scheduler) transfer(rec *record, attempt uint64, to RankID) (Placement, error) {
	for {
		table := s.world.Load().Table
		place := table.Slot(to)
		from := rec.shard.Load()
		if place < 0 {
			shard, err := s.lockLive(rec, attempt)
			if err != nil {
				return Placement{}, err
			}
			s.touchedLocked(rec, shard)
			shard.Unlock()
			return Placement{}, &Error{
				Code: ErrNoEndpoints, Request: rec.ID, Worker: to.Worker, Rank: to.Rank, HasWorker: true, HasRank: true,
				Rule: "the rank to transfer to must exist",
			}
		}
		dest := table.Slots()[place]
		shards.LockBoth(from, dest.Shard)
		if rec.shard.Load() != from || dest.Shard.DeadLocked() {
			// It was moved meanwhile, or the rank was removed: look again.
			shards.UnlockBoth(from, dest.Shard)
			continue
		}
		err := rec.currentLocked(attempt)
		if err == nil {
			s.touchedLocked(rec, from)
			if from == dest.Shard {
				err = ErrUnchanged
			}
		}
		if err != nil {
			shards.UnlockBoth(from, dest.Shard)
			return Placement{}, err
		}
		p := s.moveLocked(rec, from, &dest)
		shards.UnlockBoth(from, dest.Shard)
		s.loadFell()
		return p, nil
	}
}

// moveLocked transfers a live booking, and tells observers. REQUIRES: both locks.
func (s *Scheduler) moveLocked(rec *record, from *shards.Shard, dest *shards.Slot) Placement {
	rec.overlaps.SetRank(dest.Shard.ID())
	o := rec.overlaps.Overlap(dest.Shard.ID())
	rec.Cached = s.params.Tiers.CachedTokens(o.Device, o.Host, o.Disk, s.params.BlockSize, rec.ISL)
	rec.worker = dest.Worker
	rec.Attempt = s.ids.NextAttempt(&rec.claimed)
	tokens := int64(0)
	if rec.Tracked {
		tokens = max(0, rec.ISL-rec.Cached)
	}
	from.TransferLocked(&rec.Booking, dest.Shard, tokens)
	rec.shard.Store(dest.Shard)
	rec.potential = dest.Shard.LoadLocked().Blocks
	p := rec.placementLocked(dest.Shard)
	if rec.life != nil {
		s.tellStep(rec, EventTransferred, p)
	}
	return p
}

// release ends a live booking for its owner.
func (s *Scheduler) release(rec *record, attempt uint64) error {
	return s.end(rec, attempt, EventReleased)
}

// end takes a live booking off its rank and frees its id.
func (s *Scheduler) end(rec *record, attempt uint64, how EventKind) error {
	shard, err := s.lockLive(rec, attempt)
	if err != nil {
		return err
	}
	shard.ReleaseLocked(&rec.Booking)
	shard.Unlock()
	s.ended(rec, how)
	s.loadFell()
	return nil
}

// ended does what remains once a booking is off its rank.
func (s *Scheduler) ended(rec *record, how EventKind) {
	if s.outbox != nil {
		s.tellEnded(rec, how)
	}
	s.ids.Free(&rec.claimed)
	s.expiry.ended(s)
	if how.cause() != nil {
		s.finish(rec, how)
	}
}

// undo takes back a booking whose owner has gone before it was told. The id is
// the owner's to free.
func (s *Scheduler) undo(rec *record) {
	shard := rec.lock()
	live := rec.Live()
	if live {
		shard.ReleaseLocked(&rec.Booking)
	}
	shard.Unlock()
	if live {
		s.expiry.ended(s)
	}
}

// byID finds the record of a live booking.
func (s *Scheduler) byID(id string) (*record, error) {
	if err := s.made(); err != nil {
		return nil, err
	}
	rec := s.ids.Find(id)
	if rec == nil || rec.shard.Load() == nil {
		return nil, &Error{Code: ErrNotFound, Request: id, Rule: "no live booking has this id"}
	}
	return rec, nil
}

// endedToNotFound: by id the library knows live bookings only.
func endedToNotFound(rec *record, err error) error {
	if errors.Is(err, ErrUnchanged) {
		shard := rec.lock()
		live := rec.Live()
		shard.Unlock()
		if !live {
			return &Error{Code: ErrNotFound, Request: rec.ID, Rule: "no live booking has this id"}
		}
	}
	return err
}

// PrefillDone is Booking.PrefillDone by request id, for an owner that kept only
// that and the attempt; attempt 0 means the live one. An id without a live
// booking is ErrNotFound, another attempt than the live one ErrStaleAttempt or,
// if it is yet to come, ErrNotFound.
func (s *Scheduler) PrefillDone(id string, attempt uint64) error {
	rec, err := s.byID(id)
	if err != nil {
		return err
	}
	return endedToNotFound(rec, s.prefillDone(rec, attempt))
}

// Touch is Booking.Touch by request id, as PrefillDone.
func (s *Scheduler) Touch(id string, attempt uint64) error {
	rec, err := s.byID(id)
	if err != nil {
		return err
	}
	return endedToNotFound(rec, s.touch(rec, attempt))
}

// AddOutputBlock is Booking.AddOutputBlock by request id, as PrefillDone.
func (s *Scheduler) AddOutputBlock(id string, attempt uint64) error {
	rec, err := s.byID(id)
	if err != nil {
		return err
	}
	return endedToNotFound(rec, s.addOutputBlock(rec, attempt))
}

// AddOutputBlockWithDecay is Booking.AddOutputBlockWithDecay by request id, as
// PrefillDone.
func (s *Scheduler) AddOutputBlockWithDecay(id string, attempt uint64, decay float64) error {
	rec, err := s.byID(id)
	if err != nil {
		return err
	}
	return endedToNotFound(rec, s.addDecayedOutputBlock(rec, attempt, decay))
}

// Transfer is Booking.Transfer by request id, as PrefillDone. A handle of the
// booking is stale from then on.
func (s *Scheduler) Transfer(id string, attempt uint64, to RankID) (Placement, error) {
	rec, err := s.byID(id)
	if err != nil {
		return Placement{}, err
	}
	p, err := s.transfer(rec, attempt, to)
	return p, endedToNotFound(rec, err)
}

// Release is Booking.Release by request id, as PrefillDone.
func (s *Scheduler) Release(id string, attempt uint64) error {
	rec, err := s.byID(id)
	if err != nil {
		return err
	}
	return endedToNotFound(rec, s.release(rec, attempt))
}

// dropRank ends all bookings of a rank that is gone.
func (s *Scheduler) dropRank(shard *shards.Shard) {
	var dropped []*record
	ghosts := 0
	shard.Lock()
	shard.KillLocked()
	for b := range shard.BookingsLocked() {
		shard.ReleaseLocked(b)
		// A booking whose owner has gone meanwhile may have left its id to another.
		if rec := s.ids.Find(b.ID); rec != nil && &rec.Booking == b {
			dropped = append(dropped, rec)
		} else {
			ghosts++
		}
	}
	s.peers.noteGone(shard)
	shard.Unlock()
	for range ghosts {
		s.expiry.ended(s)
	}
	for _, rec := range dropped {
		s.ended(rec, EventDropped)
	}
	s.counters.dropped.Add(int64(len(dropped)))
	s.logDropped(shard.ID(), len(dropped))
}
