package shards

import (
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// View is what a rank publishes for readers that do not take its lock.
type View struct {
	lifecycle.Load
	// Version counts the changes of the rank; it is the change counter that a
	// refusal reads again.
	Version uint64
}

// published is the published load of one rank: two slots of which one stands
// while the other is written.
//
// Guarantee: read returns a load that the rank had, all of one moment, and the
// version that goes with it.
//
// How: the writer, under the rank's lock, fills the slot that does not stand and
// then moves the version, which makes it the one that stands. A reader takes the
// version, reads its slot and takes the version again: if it has not moved, that
// slot was not written meanwhile, because it is written again only for the next
// version but one. A writer that is descheduled halfway holds up no reader,
// which a plain sequence lock would; a snapshot pointer would do too, at the
// cost of an allocation for every change.
//
// Go's atomics are sequentially consistent, so a reader that sees a version sees
// the slot as it was filled for it.
type published struct {
	version atomic.Uint64 // written under the rank's lock; read by all
	slots   [2]viewSlot
}

// viewSlot is one load in atomic words: written under the rank's lock, read by
// all.
type viewSlot struct {
	sum            atomic.Int64
	unmodelled     atomic.Int64 // its complement, below 0, if there is prefill elsewhere
	anchorTokens   atomic.Int64 // 0: no anchor, as an entry has at least one token
	anchorDuration atomic.Int64
	anchorSince    atomic.Int64
	blocks         atomic.Int64
	requests       atomic.Int64
}

// write publishes a load. REQUIRES: the rank's lock is held.
func (p *published) write(load *lifecycle.Load) {
	version := p.version.Load() + 1
	s := &p.slots[version&1]
	pre := &load.Prefill
	anchor := pre.AnchorTokens
	if !pre.HasAnchor {
		anchor = 0
	}
	// A store costs ten times a load, and most words stay as they are.
	set(&s.sum, pre.Sum)
	unmodelled := pre.Unmodelled
	if pre.Elsewhere != 0 {
		unmodelled = ^unmodelled
	}
	set(&s.unmodelled, unmodelled)
	set(&s.anchorTokens, anchor)
	set(&s.anchorDuration, int64(pre.AnchorDuration))
	set(&s.anchorSince, pre.AnchorSince)
	set(&s.blocks, load.Blocks)
	set(&s.requests, load.Requests)
	perturb.Point()
	p.version.Store(version)
}

func set(word *atomic.Int64, value int64) {
	if word.Load() != value {
		word.Store(value)
	}
}

// read fills in the load and returns its version. Prefill that is elsewhere stands
// in another place and is untold: only a Shard can read it.
func (p *published) read(load *lifecycle.Load) uint64 {
	for {
		version := p.standing(load)
		perturb.Point()
		if p.version.Load() == version {
			return version
		}
	}
}

// standing fills in the load that stands, if it does not move meanwhile: it cannot
// under the rank's lock.
func (p *published) standing(load *lifecycle.Load) (version uint64) {
	version = p.version.Load()
	s := &p.slots[version&1]
	pre := &load.Prefill
	pre.Sum, pre.AnchorTokens = s.sum.Load(), s.anchorTokens.Load()
	pre.Unmodelled, pre.AnchorDuration = s.unmodelled.Load(), time.Duration(s.anchorDuration.Load())
	pre.AnchorSince, pre.HasAnchor = s.anchorSince.Load(), pre.AnchorTokens != 0
	load.Blocks = s.blocks.Load()
	load.Requests = s.requests.Load()
	pre.Elsewhere = 0
	if pre.Unmodelled < 0 {
		pre.Unmodelled, pre.Elsewhere = ^pre.Unmodelled, untold
	}
	return version
}
