package shards

import (
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
)

// Prefixes says which ranks hold which prompt blocks, and how deep, over all
// ranks of a pool. A block is identified by its path, so this is a prefix tree,
// path-compressed: an edge is a run of blocks that the same ranks hold.
//
// Guarantee: a walk takes no lock and writes nothing. What it says of a rank that
// does not change meanwhile is exact; a booking looks again under the rank's lock
// if the rank's version has moved since it was read.
//
// How: edges are found by the tag of the place where they begin and their first hash,
// in one concurrent map. An edge's hashes never change. A rank that holds a part of an
// edge holds all of it: where a path parts from an edge or ends halfway, the edge is
// split first. So the holders of an edge are a set of ranks without depths (see
// holders), of which a rank enters and leaves its own part under its own lock, from the
// root down. The set and the edge's place in the map are written under the edge's lock,
// a leaf below the rank's, of which no goroutine holds two.
//
// A split makes two edges with a copy of the holders each. The lower keeps the tag of
// its end, so that what hangs below stays where it is, and is stored before the upper
// takes the place of the whole. An edge that was split, or dropped with its last
// holder, is marked as gone under its lock: a writer looks in the map again, and a
// reader finds the holders it had last. Edges are not joined again: there are never
// more of them along a path than places where live or lately live paths have parted
// from it or ended.
//
// A rank that holds an edge holds all those above it. So an edge is dropped with
// its last holder, and nothing below it can be left; and a rank's depth is found by
// halving the levels along a prompt.
//
// Cost: of a prompt of n blocks with k parting points on its way, a walk makes k steps
// and compares n hashes; a booking makes as many, and enters k sets in constant time
// each, however many ranks they have. Other clients can raise k up to n, with prompts
// that part from this one everywhere, but not beyond, and the number of ranks is no
// factor. A split copies a bit for each rank. The tags are the one shared word that
// each booking would write, so a rank takes them in lots; ranks that come to share an
// edge, or cease to, write that edge.
//
// Tried before: a node for each block, which cost a map insert, a delete and three
// allocations for every block of every prompt. A list of holders with depths, copied on
// write under the lock of the edge's bucket: where 2,048 ranks share a prompt of 1,024
// blocks, one that came and left copied 74 KB and took 55 µs, or 76 MB and 55 ms if
// paths part from it after each block (408 B and 0.5 µs, 19 KB and 0.09 ms now). The
// bitmap of this version, but copied whenever a rank enters or leaves, so that a reader
// has the holders of one moment: 1.6 µs and 0.6 ms; no caller needs that moment, since
// each rank's part is checked under its own lock.
type Prefixes struct {
	edges *xsync.MapOf[edgeKey, *edge]
	// tags numbers the places where edges begin; 0 is the root.
	tags  atomic.Uint64
	seats seats
}

// edgeKey is the place where an edge begins and its first block.
type edgeKey struct {
	parent uint64
	first  uint64
}

// edge is a run of blocks.
type edge struct {
	// tag is the place at its end.
	tag    uint64
	hashes []uint64
	// array is the length of the array of which the hashes are a part.
	array int
	// holders is written under mu and read by all; so is what it points to.
	holders atomic.Pointer[holders]
	mu      struct {
		sync.Mutex
		// gone: the edge is no longer in the map, and nothing about it changes.
		gone bool
	}
	// first has room for the holders, as most edges have few ever.
	first holders
	// room holds the hash of an edge of one block.
	room [1]uint64
}

// newEdge returns an edge without holders. The hashes are kept, but for a single
// one, which may be a part of a rank's own records.
func newEdge(tag uint64, hashes []uint64, array int) *edge {
	e := &edge{tag: tag}
	if len(hashes) == 1 {
		e.room[0] = hashes[0]
		e.hashes, e.array = e.room[:], 1
	} else {
		e.hashes, e.array = own(hashes, array)
	}
	e.holders.Store(&e.first)
	return e
}

func newPrefixes() *Prefixes {
	return &Prefixes{edges: xsync.NewMapOf[edgeKey, *edge]()}
}

// Len returns the number of edges.
func (p *Prefixes) Len() int { return p.edges.Size() }

// hold notes that a rank holds the whole path, of which it held the first from
// blocks before. kept is a copy of the others, to be kept. REQUIRES: the rank's
// lock.
func (p *Prefixes) hold(path []uint64, from int, kept []uint64, s *Shard) {
	seat := p.seats.of(s)
	place := uint64(0)
	for at := 0; at < len(path); {
		key := edgeKey{place, path[at]}
		e, found := p.edges.Load(key)
		if !found {
			// Not before from: what the rank holds is there.
			made := newEdge(p.tag(s), kept[at-from:], len(kept))
			made.first.enter(seat)
			if e, found = p.edges.LoadOrStore(key, made); !found {
				return
			}
		}
		if at+len(e.hashes) > from {
			// Not one that the rank holds already.
			if matched := commonPrefix(e.hashes, path[at:]); matched < len(e.hashes) {
				p.split(key, e, matched, s)
				continue
			}
			perturb.Point()
			if !e.enter(seat) {
				continue
			}
		}
		at += len(e.hashes)
		place = e.tag
	}
}

// drop notes that a rank holds only the first to blocks of a path that it held
// whole. REQUIRES: the rank's lock.
func (p *Prefixes) drop(path []uint64, to int, s *Shard) {
	place := uint64(0)
	for at := 0; at < len(path); {
		key := edgeKey{place, path[at]}
		e, found := p.edges.Load(key)
		if !found {
			return
		}
		switch {
		case at+len(e.hashes) <= to:
		case at < to:
			// The rest is held by others, or goes in the next step.
			p.split(key, e, to-at, s)
			continue
		case !p.leave(key, e, s):
			continue
		}
		at += len(e.hashes)
		place = e.tag
	}
}

// enter makes a rank a holder; it reports whether the edge is still in the map.
func (e *edge) enter(seat int32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.gone {
		return false
	}
	if h := e.holders.Load(); !h.enter(seat) {
		e.holders.Store(h.wider(seat))
	}
	return true
}

// leave ends a rank's hold on an edge, and drops the edge with the last; it
// reports whether the edge was still in the map.
func (p *Prefixes) leave(key edgeKey, e *edge, s *Shard) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.gone {
		return false
	}
	h := e.holders.Load()
	switch left := h.leave(s.seat.load()); {
	case left == 0:
		e.mu.gone = true
		p.edges.Delete(key)
	case left <= fewAgain && h.words != nil:
		e.holders.Store(h.narrower())
	}
	return true
}

// split parts an edge after its first at blocks, unless it has gone. s is the rank
// whose lock the caller holds.
func (p *Prefixes) split(key edgeKey, e *edge, at int, s *Shard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.gone {
		return
	}
	upper := newEdge(p.tag(s), e.hashes[:at:at], e.array)
	lower := newEdge(e.tag, e.hashes[at:], e.array)
	h := e.holders.Load()
	upper.copyHolders(h)
	lower.copyHolders(h)
	p.edges.Store(edgeKey{upper.tag, lower.hashes[0]}, lower)
	perturb.Point()
	p.edges.Store(key, upper)
	e.mu.gone = true
}

// copyHolders gives an edge that is not published yet the holders of another.
func (e *edge) copyHolders(h *holders) {
	if h.words == nil {
		e.first.copy(h)
		return
	}
	e.holders.Store(h.wider(0))
}

// tagLot is how many tags a rank takes at a time.
const tagLot = 1 << 10

// tags are those that a rank has taken: next to last−1.
type tags struct{ next, last uint64 }

// tag returns a new tag. REQUIRES: the rank's lock.
func (p *Prefixes) tag(s *Shard) uint64 {
	t := &s.mu.tags
	if t.next == t.last {
		t.last = p.tags.Add(tagLot) + 1
		t.next = t.last - tagLot
	}
	t.next++
	return t.next - 1
}

// slack is how many hashes more than four times its own an edge may keep.
const slack = 32

// own returns hashes that are part of an array of so many, or a copy if they are
// few of them, and the length of the array that they are part of.
func own(hashes []uint64, array int) ([]uint64, int) {
	if array > 4*len(hashes)+slack {
		return append(make([]uint64, 0, len(hashes)), hashes...), len(hashes)
	}
	return hashes, array
}

func commonPrefix(a, b []uint64) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// pathObserver keeps the index in step with a rank's blocks, under its lock.
type pathObserver Shard

// PathLive implements lifecycle.PathObserver.
func (o *pathObserver) PathLive(path []uint64, from int, kept []uint64) {
	s := (*Shard)(o)
	s.env.prefixes.Load().hold(path, from, kept, s)
}

// PathGone implements lifecycle.PathObserver.
func (o *pathObserver) PathGone(path []uint64, to int) {
	s := (*Shard)(o)
	s.env.prefixes.Load().drop(path, to, s)
}
