package kvevents

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

var (
	errGone = errors.New("kvevents: rank was forgotten")
	// ErrTooManyBlocks says that an engine announced more blocks than it can hold: events
	// were lost, or it announces blocks again that it has.
	ErrTooManyBlocks = errors.New("kvevents: more blocks than the rank can hold")
)

// BlockSizeError says that an engine's blocks are not made of whole blocks of the index.
type BlockSizeError struct {
	Rank          sched.RankID
	Engine, Index int // tokens of a block
}

func (e *BlockSizeError) Error() string {
	return fmt.Sprintf("kvevents: rank %v has blocks of %d tokens: must be a multiple of the index's %d", e.Rank, e.Engine, e.Index)
}

// mostBlocks is the bound for a rank whose cache size is not known.
const mostBlocks = 1 << 20

// Bits of a rank's word; the rest is its generation.
const (
	scores uint64 = 1 << iota // it counts
	paired                    // its engine's blocks are made of pairs of tokens
	generation
)

// rank is what is known of one rank.
type rank struct {
	x    *Index
	id   sched.RankID
	slot uint32

	// word: written under mu, read by look-ups. See Index.
	word atomic.Uint64
	// splits: how many blocks one of the engine's has, by tier, 0 before the first. Written
	// under mu before the first block is added and when all are cleared.
	splits [tiers]atomic.Uint32

	mu struct {
		sync.Mutex
		gone  bool
		held  [tiers]holding
		group uint32 // the cache group that is followed, noGroup before the first event
		most  int    // blocks
		stats RankStats
		heard time.Time // when the last message came

		// known: the life of its engine is that of the last batch. See follower.
		known bool
		// doubted is the number of the doubt that there is, 0 for none.
		doubted, doubts uint64
		grace, forget   *time.Timer
	}
}

// holding is what a rank holds in one tier, by the names that its engine gives.
type holding struct {
	split int               // as splits
	last  map[uint64]uint64 // the last of them, which commits to the others
	again map[uint64]uint32 // copies beyond the first, of those that have any
}

func newRank(x *Index, id sched.RankID, slot uint32) *rank {
	r := &rank{x: x, id: id, slot: slot}
	r.mu.group = noGroup
	r.mu.most = mostBlocks
	r.mu.stats = RankStats{Rank: id, State: Live}
	r.word.Store(scores)
	return r
}

// setLocked switches bits of the word.
//
// REQUIRES: mu.
func (r *rank) setLocked(on, off uint64) {
	r.word.Store((r.word.Load() | on) &^ off)
}

// clearLocked forgets all blocks. Look-ups pass the rank over meanwhile.
//
// REQUIRES: mu.
func (r *rank) clearLocked() {
	before := r.word.Load()
	r.word.Store((before + generation) &^ (scores | paired))
	for t := range r.mu.held {
		h := &r.mu.held[t]
		for _, last := range h.last {
			r.x.tables[t].remove(last, r.slot)
		}
		*h = holding{}
		r.splits[t].Store(0)
	}
	r.mu.group = noGroup
	r.mu.stats.Blocks = 0
	r.setLocked(before&scores, 0)
}

func (r *rank) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clearLocked()
}

// end forgets all for good.
func (r *rank) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.gone = true
	r.settleLocked()
	r.setLocked(0, scores)
	r.clearLocked()
}

// apply takes in a batch. After an error the rank holds nothing.
func (r *rank) apply(b *Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.gone {
		return errGone
	}
	r.mu.stats.Batches++
	r.mu.stats.Bad += uint64(b.Bad)
	r.mu.stats.Unknown += uint64(b.Unknown)
	for i := range b.events {
		e := &b.events[i]
		var err error
		switch e.kind {
		case stored:
			err = r.storeLocked(b, e)
		case removed:
			r.removeLocked(b, e)
		case cleared:
			r.clearLocked()
		default:
		}
		if err != nil {
			r.clearLocked()
			return err
		}
	}
	return nil
}

// followedLocked says whether events of this tier and group are followed.
func (r *rank) followedLocked(e *event) bool {
	return r.x.tables[e.tier] != nil && (e.group == noGroup || e.group == r.mu.group)
}

// storeLocked takes in blocks that the rank now holds. What is in doubt is left out:
// blocks whose parent is not known, and those after one that is not indexed.
func (r *rank) storeLocked(b *Batch, e *event) error {
	if e.group == noGroup {
		e.group = 0
	}
	switch {
	case r.x.tables[e.tier] == nil:
		return nil
	case r.mu.group == noGroup:
		r.mu.group = e.group
	case e.group < r.mu.group:
		r.clearLocked() // the main group has the lowest number
		r.mu.group = e.group
	case e.group > r.mu.group:
		return nil
	}
	names := b.hashesOf(e.hashes)
	if e.tokens.n == 0 {
		return r.moveLocked(e.tier, names)
	}
	size := r.x.hash.size
	split := int(e.size) / size
	if int(e.size)%size != 0 {
		if e.tier != device { // a cache beside the engine has its own
			r.mu.stats.Bad++
			return nil
		}
		return &BlockSizeError{Rank: r.id, Engine: int(e.size), Index: size}
	}
	if !r.splitLocked(e.tier, split) {
		r.mu.stats.Bad++
		return nil
	}
	at := r.x.hash.root(b.spaces[e.space])
	if !e.root {
		var ok bool
		if at, ok = r.findLocked(e.parent); !ok {
			r.mu.stats.Orphans += uint64(len(names))
			return nil
		}
	}
	if e.pairs {
		r.setLocked(paired, 0)
	}
	tokens := b.tokensOf(e.tokens)
	for i, name := range names {
		if uint32(i) >= e.keyed {
			r.mu.stats.Keyed += uint64(len(names) - i)
			break
		}
		for range split {
			at = r.x.hash.next(at, tokens[:size])
			tokens = tokens[size:]
		}
		if !r.holdLocked(e.tier, name, at) {
			r.mu.stats.Bad++ // one name for two blocks: neither
			r.releaseLocked(e.tier, name)
			break
		}
		if r.mu.stats.Blocks > r.mu.most {
			r.mu.stats.Overflows++
			return fmt.Errorf("%w: %d on rank %v", ErrTooManyBlocks, r.mu.stats.Blocks, r.id)
		}
	}
	return nil
}

// moveLocked takes in blocks that came to a tier and were named without their tokens.
func (r *rank) moveLocked(to tier, names []uint64) error {
	for _, name := range names {
		for from := range r.mu.held {
			h := &r.mu.held[from]
			last, ok := h.last[name]
			if !ok {
				continue
			}
			if r.splitLocked(to, h.split) {
				r.holdLocked(to, name, last)
			}
			break
		}
		if r.mu.stats.Blocks > r.mu.most {
			r.mu.stats.Overflows++
			return fmt.Errorf("%w: %d on rank %v", ErrTooManyBlocks, r.mu.stats.Blocks, r.id)
		}
	}
	return nil
}

// splitLocked takes in how many blocks one of the engine's has in a tier, and returns
// false if it was another number before.
func (r *rank) splitLocked(t tier, split int) bool {
	h := &r.mu.held[t]
	if h.split == 0 {
		h.split = split
		r.splits[t].Store(uint32(split))
	}
	return h.split == split
}

// findLocked returns the last block of what the engine calls name.
func (r *rank) findLocked(name uint64) (uint64, bool) {
	for t := range r.mu.held {
		if last, ok := r.mu.held[t].last[name]; ok {
			return last, true
		}
	}
	return 0, false
}

// holdLocked has name mean this block, in this tier, once more if it does already. It
// returns false if it means another.
func (r *rank) holdLocked(t tier, name, block uint64) bool {
	h := &r.mu.held[t]
	if known, ok := h.last[name]; ok {
		if known != block {
			return false
		}
		if h.again == nil {
			h.again = make(map[uint64]uint32)
		}
		h.again[name]++
		return true
	}
	if h.last == nil {
		h.last = make(map[uint64]uint64)
	}
	h.last[name] = block
	r.x.tables[t].add(block, r.slot)
	r.mu.stats.Blocks += h.split
	return true
}

// releaseLocked has name mean nothing in this tier.
func (r *rank) releaseLocked(t tier, name uint64) {
	h := &r.mu.held[t]
	last, ok := h.last[name]
	if !ok {
		return
	}
	r.x.tables[t].remove(last, r.slot)
	delete(h.last, name)
	delete(h.again, name)
	r.mu.stats.Blocks -= h.split
}

// removeLocked takes in that copies of blocks were dropped. A block is held until the
// last copy goes.
func (r *rank) removeLocked(b *Batch, e *event) {
	if !r.followedLocked(e) {
		return
	}
	h := &r.mu.held[e.tier]
	left := b.hashesOf(e.copies)
	for i, name := range b.hashesOf(e.hashes) {
		if len(left) > 0 {
			if _, ok := h.last[name]; !ok || left[i] == 0 {
				r.releaseLocked(e.tier, name)
				continue
			}
			if h.again == nil {
				h.again = make(map[uint64]uint32)
			}
			h.again[name] = uint32(min(left[i]-1, 1<<20))
			if left[i] == 1 {
				delete(h.again, name)
			}
			continue
		}
		switch n := h.again[name]; n {
		case 0:
			r.releaseLocked(e.tier, name)
		case 1:
			delete(h.again, name)
		default:
			h.again[name] = n - 1
		}
	}
}
