package shards

import (
	"cmp"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/capacity"
	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Env is what the shards of one pool share.
type Env struct {
	// Now tells the time in nanoseconds.
	Now lifecycle.Now
	// NoPrefixIndex leaves the index of live prompt blocks out: a search for a live
	// prefix then walks the blocks of each rank. It is set before the first shard is
	// made.
	NoPrefixIndex bool
	// Fleet: other schedulers receive the load that is caused here, so each change of
	// it is noted. It is set before the first shard is made.
	Fleet bool
	// changes numbers the batches of changes that others receive, from 1. A change is
	// noted with the number. Written by NextChanges, read under the ranks' locks.
	changes atomic.Uint64
	// untold is set when a change is noted, cleared by NextChanges.
	untold atomic.Bool
	// ring carries capacity hints; nil while no class can queue. Written by
	// EnableHints, read under the ranks' locks.
	ring atomic.Pointer[capacity.Ring[*Shard]]
	// watched says what leaves a hint when it goes down, beside the prefill: bits
	// of watchRequests and watchBlocks. Written by Watch, read under the ranks' locks.
	watched atomic.Uint32
	// prefixes is made with the first booking that has block hashes.
	prefixes atomic.Pointer[Prefixes]
	// ordinals numbers the shards in order of creation.
	ordinals atomic.Uint64
}

// EnableHints makes the ring, if there is none yet. It must be called before
// anyone may wait, that is, before the profile that lets them is published: a
// release that finds no ring has then published its load before the first
// waiter reads it.
func (e *Env) EnableHints() {
	if e.ring.Load() == nil {
		e.ring.CompareAndSwap(nil, capacity.NewRing(capacity.DefaultSize, func(s *Shard) *capacity.Mark { return &s.hint }))
	}
}

const (
	watchRequests = 1 << iota
	watchBlocks
)

// Watch says what else than the prefill makes a rank busy for some class, so that
// its decrease leaves a hint. What is new in it must be said before the profile
// that asks for it is published, as EnableHints must be called; what is gone
// from it, after that profile took the old one's place.
func (e *Env) Watch(w lifecycle.Watched) {
	bits := uint32(0)
	if w.Requests {
		bits |= watchRequests
	}
	if w.Blocks {
		bits |= watchBlocks
	}
	e.watched.Store(bits)
}

// Watched returns what Watch said.
func (e *Env) Watched() lifecycle.Watched {
	bits := e.watched.Load()
	return lifecycle.Watched{Requests: bits&watchRequests != 0, Blocks: bits&watchBlocks != 0}
}

// Hints returns the ring, nil if hints are not enabled.
func (e *Env) Hints() *capacity.Ring[*Shard] { return e.ring.Load() }

// Prefixes returns the index of live prompt blocks, nil if there never were any
// or it is left out.
func (e *Env) Prefixes() *Prefixes { return e.prefixes.Load() }

// Shard is one rank: a lock, the authoritative state under it, and the load it
// publishes. A rank that is removed and added again is another shard.
//
// Methods named …Locked need the lock. No callback, send, log or wake happens
// under it; see the package comment for the lock order.
type Shard struct {
	id      lifecycle.RankID
	ordinal uint64
	env     *Env

	mu struct {
		sync.Mutex
		rank lifecycle.Rank
		// dead: the rank was removed; its bookings are gone and no other may come.
		dead bool
		// spot is where the rank stands in the load index, if it does.
		spot spot
		// tags are for edges of the prefix index that the rank makes.
		tags tags
	}
	// hint is set under mu, cleared by the holder of the turn.
	hint capacity.Mark
	// spot is where the rank stands in the load index, noSpot if it does not.
	// Written under mu, and seldom; read by all.
	spot atomic.Int64

	elsewhere *elsewhere // nil while no peer is known; see there
	// The published load stands on cache lines of its own, so that readers do not slow
	// down the goroutines that wait for the lock. A test holds that; the allocator
	// aligns what has a multiple of 128 bytes to that much.
	published published
	seat      seat // in the prefix index; room that is left on their lines
}

// NewShard returns an idle rank.
func NewShard(id lifecycle.RankID, env *Env) *Shard {
	s := &Shard{id: id, ordinal: env.ordinals.Add(1), env: env}
	s.spot.Store(noSpot)
	if env.Fleet {
		s.makeElsewhere()
	}
	if !env.NoPrefixIndex {
		s.mu.rank = *lifecycle.NewRank((*pathObserver)(s))
	}
	return s
}

// ID returns the rank.
func (s *Shard) ID() lifecycle.RankID { return s.id }

// Ordinal is unique among the shards of a pool: it is the generation of a rank.
func (s *Shard) Ordinal() uint64 { return s.ordinal }

// Before is the lock order among shards.
func (s *Shard) Before(other *Shard) bool {
	return cmp.Or(s.id.Compare(other.id), cmp.Compare(s.ordinal, other.ordinal)) < 0
}

// Prefixes returns the index of live prompt blocks of the pool, nil if there
// never were any or it is left out.
func (s *Shard) Prefixes() *Prefixes { return s.env.Prefixes() }

// PrefixIndexed reports whether the pool keeps the index of live prompt blocks.
func (s *Shard) PrefixIndexed() bool { return !s.env.NoPrefixIndex }

// View returns the published load without taking the lock.
func (s *Shard) View() (v View) {
	s.Read(&v)
	return v
}

// Read is View into memory of the caller, for callers that read many.
func (s *Shard) Read(v *View) { v.Version = s.readPublished(&v.Load) }

// Version returns the change counter without taking the lock.
func (s *Shard) Version() uint64 { return s.published.version.Load() }

// Lock takes the rank's lock.
func (s *Shard) Lock() { s.mu.Lock() }

// Unlock gives it back.
func (s *Shard) Unlock() { s.mu.Unlock() }

// LockBoth takes the locks of two shards, which may be the same one, in order.
func LockBoth(a, b *Shard) {
	switch {
	case a == b:
		a.Lock()
	case a.Before(b):
		a.Lock()
		b.Lock()
	default:
		b.Lock()
		a.Lock()
	}
}

// UnlockBoth gives the locks of two shards back.
func UnlockBoth(a, b *Shard) {
	a.Unlock()
	if a != b {
		b.Unlock()
	}
}

// DeadLocked reports whether the rank was removed.
func (s *Shard) DeadLocked() bool { return s.mu.dead }

// HintedLocked reports whether a hint about this rank is under way: something
// was freed here that the queue has not looked at yet.
func (s *Shard) HintedLocked() bool { return s.hint.Set() }

// LoadLocked returns the authoritative load, with what is elsewhere.
func (s *Shard) LoadLocked() lifecycle.Load {
	load := s.mu.rank.Load()
	if s.elsewhere != nil {
		s.elsewhere.addTo(&load)
	}
	return load
}

// LivePrefixLocked returns how many leading blocks are live on the rank.
func (s *Shard) LivePrefixLocked(blocks []uint64) int { return s.mu.rank.LivePrefix(blocks) }

// WithoutLocked returns load and live prefix as if a booking were released.
func (s *Shard) WithoutLocked(b *lifecycle.Booking, blocks []uint64) (lifecycle.Load, int) {
	load := s.mu.rank.LoadWithout(b, s.env.Now)
	if s.elsewhere != nil {
		s.elsewhere.addTo(&load)
	}
	return load, s.mu.rank.LivePrefixWithout(b, blocks)
}

// PromptLocked returns the hashes of a booking's prompt blocks.
func (s *Shard) PromptLocked(b *lifecycle.Booking) []uint64 { return s.mu.rank.Prompt(b) }

// BookLocked adds a booking.
func (s *Shard) BookLocked(b *lifecycle.Booking, blocks []uint64) {
	if len(blocks) > 0 && s.env.prefixes.Load() == nil && !s.env.NoPrefixIndex {
		s.env.prefixes.CompareAndSwap(nil, newPrefixes())
	}
	s.mu.rank.Book(b, blocks, s.env.Now)
	s.publishLocked()
}

// PrefillDoneLocked ends a booking's prefill; it reports whether that was not
// done yet.
func (s *Shard) PrefillDoneLocked(b *lifecycle.Booking) (changed bool) {
	if changed = s.mu.rank.PrefillDone(b, s.env.Now); changed {
		s.publishLocked()
	}
	return changed
}

// AddOutputBlockLocked adds an output block of weight 1.
func (s *Shard) AddOutputBlockLocked(b *lifecycle.Booking) {
	s.mu.rank.AddOutputBlock(b)
	s.publishLocked()
}

// AddDecayedOutputBlockLocked adds an output block and sets the weights that go
// with it.
func (s *Shard) AddDecayedOutputBlockLocked(b *lifecycle.Booking, weight int64) {
	s.mu.rank.AddOutputBlockWithDecay(b, weight)
	s.publishLocked()
}

// SetTokensLocked corrects a booking's prefill tokens.
func (s *Shard) SetTokensLocked(b *lifecycle.Booking, tokens int64) {
	s.mu.rank.SetTokens(b, tokens, s.env.Now)
	s.publishLocked()
}

// TouchLocked makes a booking the last in touch order.
func (s *Shard) TouchLocked(b *lifecycle.Booking) { s.mu.rank.Touch(b) }

// BookingsLocked yields the live bookings in touch order.
func (s *Shard) BookingsLocked() iter.Seq[*lifecycle.Booking] { return s.mu.rank.All() }

// ReleaseLocked ends a booking.
func (s *Shard) ReleaseLocked(b *lifecycle.Booking) {
	s.mu.rank.Release(b, s.env.Now)
	s.publishLocked()
}

// TransferLocked moves a booking to another shard. REQUIRES: both locks.
func (s *Shard) TransferLocked(b *lifecycle.Booking, to *Shard, tokens int64) {
	s.mu.rank.Transfer(b, &to.mu.rank, tokens, s.env.Now)
	if x := s.mu.spot.index; s.mu.spot.rules != nil && s != to {
		// In between the load is on neither, or on both: no caller may count then.
		x.LockCount(s)
		defer x.UnlockCount(s)
		if to.mu.spot.index == x {
			to.mu.spot.counting = true
			defer func() { to.mu.spot.counting = false }()
		}
	}
	s.publishLocked()
	to.publishLocked()
}

// KillLocked marks the rank as removed. Its bookings must be released.
func (s *Shard) KillLocked() {
	s.mu.dead = true
	if x := s.mu.spot.index; x != nil {
		x.give(s)
	}
	if ring := s.env.ring.Load(); ring != nil {
		ring.Forget(s)
	}
	s.leaveSeatLocked()
}

// leaveSeatLocked gives up the seat of a dead rank in the prefix index, if it has
// no bookings left.
func (s *Shard) leaveSeatLocked() {
	if p := s.env.prefixes.Load(); p != nil && s.mu.rank.Len() == 0 {
		p.seats.give(s)
	}
}

// CheckLocked compares the sums with the bookings.
func (s *Shard) CheckLocked() error { return s.mu.rank.Check() }

// publishLocked makes the load visible and then leaves a hint if the change may free
// capacity: see lifecycle.Watched. Load, mark and push are one section under the lock:
// a later booking here sees either both or neither. The mark comes after the load, so
// that the goroutine that clears it reads the new load.
func (s *Shard) publishLocked() {
	load := s.mu.rank.Load()
	if s.elsewhere != nil {
		s.elsewhere.addTo(&load)
		s.stampLocked()
	}
	if s.mu.spot.rules == nil || !s.beginCountLocked(&load) {
		s.publishLoadLocked(&load)
		return
	}
	count := &s.mu.spot.index.count
	s.publishLoadLocked(&load)
	count.Unlock()
}

func (s *Shard) publishLoadLocked(load *lifecycle.Load) {
	var before lifecycle.Load
	s.published.standing(&before)
	if s.elsewhere != nil {
		if before.Prefill.Elsewhere == untold {
			before.Prefill.Elsewhere = s.elsewhere.prefill[s.published.version.Load()&1].Load()
		}
		s.stageElsewhereLocked(load.Prefill.Elsewhere)
	}
	s.published.write(load)
	if x := s.mu.spot.index; x != nil {
		x.update(s, load)
	}
	perturb.Point()
	freed := s.env.Watched().Frees(&before, load)
	if s.mu.dead {
		s.leaveSeatLocked()
	}
	if !freed || s.mu.dead {
		return
	}
	if ring := s.env.ring.Load(); ring != nil {
		ring.Record(s)
	}
}
