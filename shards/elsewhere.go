package shards

import (
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Elsewhere is load on a rank that other schedulers cause, as far as they said.
type Elsewhere struct {
	Prefill          int64 // active tokens
	Blocks, Requests int64
}

// elsewhere is what a rank knows of other schedulers, and they of it. A rank gets one
// when it is made in a fleet, or when others' load is first set; without one all of
// this costs a look at a nil pointer under the rank's lock, and readers nothing.
//
// Blocks and requests of others are added to those that the rank publishes. Their
// prefill cannot be, as it would decay with the rank's own. It stands here, in two
// slots that follow those of the published load, and the published load says whether
// there is any: only then a reader comes here. The order is that of published: the
// slot that does not stand is filled, then the version moves.
type elsewhere struct {
	load    Elsewhere       // guarded by the rank's lock
	prefill [2]atomic.Int64 // written under the rank's lock, read by all
	quiet   bool            // what is published is no change of the own load; guarded by the rank's lock
	// version moves with each change of the own load; guarded by the rank's lock. It
	// begins above all versions of a rank that had the same name before.
	version uint64
	// stamp is the count of Env.changes at the last change of the own load, 0 if there
	// was none. Written under the rank's lock, read by all.
	stamp atomic.Uint64
}

// untold stands for prefill elsewhere that was not read yet.
const untold = -1

// changesPerRank is how many changes of one rank have versions of their own before
// those of a rank that is made next.
const changesPerRank = 1 << 40

// makeElsewhere gives the rank its place for others. REQUIRES: the lock, or that the
// rank is not published.
func (s *Shard) makeElsewhere() {
	if s.elsewhere == nil {
		s.elsewhere = &elsewhere{version: s.ordinal * changesPerRank}
	}
}

func (e *elsewhere) addTo(load *lifecycle.Load) {
	load.Prefill.Elsewhere = e.load.Prefill
	load.Blocks += e.load.Blocks
	load.Requests += e.load.Requests
}

// SetElsewhereLocked replaces the load that others cause. Where it falls it leaves a
// hint, as a release does.
func (s *Shard) SetElsewhereLocked(load Elsewhere) {
	if s.elsewhere == nil && load == (Elsewhere{}) {
		return
	}
	s.makeElsewhere()
	if s.elsewhere.load == load {
		return
	}
	s.elsewhere.load, s.elsewhere.quiet = load, true
	s.publishLocked()
	s.elsewhere.quiet = false
}

// ElsewhereLocked returns the load that others cause.
func (s *Shard) ElsewhereLocked() Elsewhere {
	if s.elsewhere == nil {
		return Elsewhere{}
	}
	return s.elsewhere.load
}

// Apart returns the load and which part of it others cause, both of one moment.
func (s *Shard) Apart() (View, Elsewhere) {
	view := s.View()
	if !view.mayHaveElsewhere() {
		return view, Elsewhere{}
	}
	s.Lock()
	defer s.Unlock()
	return s.View(), s.ElsewhereLocked()
}

// mayHaveElsewhere is false of a rank without load.
func (v *View) mayHaveElsewhere() bool {
	return v.Prefill.Elsewhere != 0 || v.Blocks != 0 || v.Requests != 0
}

// readPublished reads the published load, others' prefill with it.
func (s *Shard) readPublished(load *lifecycle.Load) uint64 {
	for {
		version := s.published.read(load)
		if load.Prefill.Elsewhere != untold {
			return version
		}
		load.Prefill.Elsewhere = s.elsewhere.prefill[version&1].Load()
		if s.published.version.Load() == version {
			return version
		}
	}
}

// stageElsewhereLocked writes others' prefill for the load that is published next.
func (s *Shard) stageElsewhereLocked(prefill int64) {
	slot := &s.elsewhere.prefill[(s.published.version.Load()+1)&1]
	set(slot, prefill)
}

// stampLocked notes that the own load has changed.
//
// Guarantee: a change is among those that the next NextChanges returns, or the one
// after. How: NextChanges moves the count and then reads the stamps. A stamp is
// written until the count has not moved since it was read, so either the count is
// moved after the stamp was written, and the reader that moves it finds the stamp, or
// the stamp has the newer count, and the next reader finds it.
func (s *Shard) stampLocked() {
	e := s.elsewhere
	if e.quiet || !s.env.Fleet {
		return
	}
	e.version++
	for {
		now := s.env.changes.Load() + 1
		set2(&e.stamp, now)
		if s.env.changes.Load()+1 == now {
			break
		}
	}
	if !s.env.untold.Load() {
		s.env.untold.Store(true)
	}
}

func set2(word *atomic.Uint64, value uint64) {
	if word.Load() != value {
		word.Store(value)
	}
}

// Untold reports whether a change of the own load was noted since NextChanges.
func (e *Env) Untold() bool { return e.untold.Load() }

// NextChanges begins another count of changes and returns it: a rank has changed since
// an earlier count if ChangedSince says so.
func (e *Env) NextChanges() uint64 {
	e.untold.Store(false)
	return e.changes.Add(1) + 1
}

// ChangedSince reports whether the own load has changed since the count, 0 for ever.
func (s *Shard) ChangedSince(count uint64) bool {
	if s.elsewhere == nil {
		return false
	}
	stamp := s.elsewhere.stamp.Load()
	return stamp != 0 && stamp >= count
}

// OwnLocked returns the load that is caused here, and its version. If time alone
// changes it, the version moves and the rank counts as changed again.
func (s *Shard) OwnLocked() (load lifecycle.Load, version uint64) {
	load = s.mu.rank.Load()
	e := s.elsewhere
	if e == nil {
		return load, 0
	}
	if load.Prefill.Decays() {
		e.version++
		e.stamp.Store(s.env.changes.Load() + 1)
	}
	return load, e.version
}

// LastToldLocked returns the version of the load of a dead rank and the count of
// changes up to which others may have been told of it; known is false if they were
// never told.
func (s *Shard) LastToldLocked() (version, count uint64, known bool) {
	e := s.elsewhere
	if e == nil || e.stamp.Load() == 0 {
		return 0, 0, false
	}
	e.quiet = false
	s.stampLocked()
	return e.version, e.stamp.Load(), true
}
