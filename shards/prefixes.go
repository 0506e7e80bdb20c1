package shards

import (
	"slices"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"
)

// Prefixes says which ranks hold which prompt blocks, and how deep, over all
// ranks of a pool. A block is identified by its path, so this is a prefix tree,
// path-compressed: an edge is a run of blocks at whose end paths part.
//
// Guarantee: a walk costs steps that follow the matched edges and their holders,
// takes no lock and writes nothing. What it says of a rank that does not change
// meanwhile is exact; a booking looks again under the rank's lock if the rank's
// version has moved since it was read, which is before the walk.
//
// How: edges are found by the tag of the place where they begin and their first
// hash, in one concurrent map. An edge's hashes never change. Its set of holders
// is copied on write, under the lock of the edge's bucket (xsync's Compute); a
// holder's depth is how many blocks of the edge it holds. Ranks make and drop
// their own part, under their own lock, from the root down. Where a path parts
// from an edge halfway, the edge is split: the lower part keeps the tag of its
// end, so that what hangs below stays where it is, and is stored before the upper
// part takes the edge's place; if the holders have changed meanwhile the split is
// tried anew. An edge of which only a short beginning is held any more is replaced,
// under the same lock, by one of just that, with the same tag: nothing hangs below
// it, as whoever holds more below holds it whole; a split that was under way finds
// another edge and is tried anew. Edges are not joined again: there are never more of them along a
// path than places where live or lately live paths have parted from it.
//
// A rank that holds an edge holds all those above it. So an edge is dropped with
// its last holder, and nothing below it can be left.
//
// Tried before: a node for each block, which cost a map insert, a delete and
// three allocations for every block of every prompt.
type Prefixes struct {
	edges *xsync.MapOf[edgeKey, *edge]
	// tags numbers the places where edges begin; 0 is the root.
	tags atomic.Uint64
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
	// holders is written under the lock of the edge's bucket and read by all. An
	// edge that was split is no longer in the map and keeps the holders it had.
	holders atomic.Pointer[holderSet]
	// first and only have room for the first set, as most edges have one holder
	// ever; written before the edge is published.
	first holderSet
	only  [1]PrefixHolder
	// room holds the hash of an edge of one block.
	room [1]uint64
}

// newEdge returns an edge that one rank holds whole. The hashes are kept, but for
// a single one, which may be a part of a rank's own records.
func newEdge(tag uint64, hashes []uint64, s *Shard) *edge {
	e := &edge{tag: tag, hashes: hashes}
	if len(hashes) == 1 {
		e.room[0] = hashes[0]
		e.hashes = e.room[:]
	}
	e.only[0] = PrefixHolder{s, len(hashes)}
	e.first = holderSet{e.only[:], 1}
	e.holders.Store(&e.first)
	return e
}

// holderSet is one state of an edge's holders.
type holderSet struct {
	list []PrefixHolder
	// whole counts those that hold the edge to its end.
	whole int
}

// noHolders is the last state of an edge.
var noHolders holderSet

// PrefixHolder is a rank that holds the first Depth blocks of an edge.
type PrefixHolder struct {
	Shard *Shard
	Depth int
}

// PrefixLevel is one edge along a prompt.
type PrefixLevel struct {
	// Above is the number of blocks before the edge, Matched how many of the
	// prompt's blocks lie on it.
	Above, Matched int
	Holders        []PrefixHolder
	whole          int
}

// HeldByAll reports whether so many ranks hold all that is matched: with the
// number of ranks in the pool, whether all do. While ranks come and go it may err.
func (l *PrefixLevel) HeldByAll(ranks int) bool { return l.whole == ranks }

// Depth returns how many leading blocks of the prompt a holder has, if no deeper
// level lists it.
func (l *PrefixLevel) Depth(h PrefixHolder) int { return l.Above + min(h.Depth, l.Matched) }

func newPrefixes() *Prefixes {
	return &Prefixes{edges: xsync.NewMapOf[edgeKey, *edge]()}
}

// Find returns the edges along a prompt, from the first to the deepest that
// anybody holds. A rank is in the levels above its deepest too. scratch is used
// for the result.
func (p *Prefixes) Find(blocks []uint64, scratch []PrefixLevel) []PrefixLevel {
	levels := scratch[:0]
	place := uint64(0)
	for at := 0; at < len(blocks); {
		e, found := p.edges.Load(edgeKey{place, blocks[at]})
		if !found {
			break
		}
		matched := commonPrefix(e.hashes, blocks[at:])
		set := e.holders.Load()
		levels = append(levels, PrefixLevel{Above: at, Matched: matched, Holders: set.list, whole: set.whole})
		if matched < len(e.hashes) {
			break
		}
		at += matched
		place = e.tag
	}
	return levels
}

// Len returns the number of edges.
func (p *Prefixes) Len() int { return p.edges.Size() }

// hold notes that a rank holds the whole path, of which it held the first from
// blocks before. kept is a copy of the others, to be kept. REQUIRES: the rank's
// lock.
func (p *Prefixes) hold(path []uint64, from int, kept []uint64, s *Shard) {
	place := uint64(0)
	for at := 0; at < len(path); {
		key := edgeKey{place, path[at]}
		if at < from {
			// An edge that is held to its end already needs no change.
			if e, found := p.edges.Load(key); found && at+len(e.hashes) <= from {
				at += len(e.hashes)
				place = e.tag
				continue
			}
		}
		rest := path[at:]
		var parted *edge
		e, _ := p.edges.Compute(key, func(e *edge, found bool) (*edge, bool) {
			if !found {
				var hashes []uint64
				if at >= from {
					hashes = own(kept[at-from:], len(kept))
				} else {
					hashes = slices.Clone(rest)
				}
				return newEdge(p.tags.Add(1), hashes, s), false
			}
			matched := commonPrefix(e.hashes, rest)
			if matched < len(e.hashes) && matched < len(rest) {
				parted = e
				return e, false
			}
			e.setDepth(s, matched)
			return e, false
		})
		if parted != nil {
			p.split(key, parted, commonPrefix(parted.hashes, rest))
			continue
		}
		at += min(len(e.hashes), len(rest))
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
		if at+len(e.hashes) > to {
			// The edge may have been split since it was loaded: then the upper part
			// is dealt with here and the lower on the next turn.
			p.edges.Compute(key, func(now *edge, found bool) (*edge, bool) {
				if !found {
					return nil, true
				}
				e = now
				if now.setDepth(s, min(max(0, to-at), len(now.hashes))) == 0 {
					return now, true
				}
				return now.tightened(), false
			})
		}
		at += len(e.hashes)
		place = e.tag
	}
}

// split parts an edge after its first at blocks, unless it has changed since.
func (p *Prefixes) split(key edgeKey, e *edge, at int) {
	seen := e.holders.Load()
	upper := &edge{tag: p.tags.Add(1), hashes: own(e.hashes[:at:at], len(e.hashes))}
	lower := &edge{tag: e.tag, hashes: own(e.hashes[at:], len(e.hashes))}
	var above, below holderSet
	above.list = make([]PrefixHolder, 0, len(seen.list))
	for _, h := range seen.list {
		above.add(PrefixHolder{h.Shard, min(h.Depth, at)}, at)
		if h.Depth > at {
			below.add(PrefixHolder{h.Shard, h.Depth - at}, len(lower.hashes))
		}
	}
	upper.holders.Store(&above)
	lower.holders.Store(&below)
	lowerKey := edgeKey{upper.tag, lower.hashes[0]}
	if len(below.list) > 0 {
		p.edges.Store(lowerKey, lower)
	}
	done := false
	p.edges.Compute(key, func(now *edge, found bool) (*edge, bool) {
		if now == e && e.holders.Load() == seen {
			done = true
			return upper, false
		}
		return now, !found
	})
	if !done {
		p.edges.Delete(lowerKey)
	}
}

// setDepth notes how many blocks of the edge a rank holds, 0 for none, and
// returns how many ranks hold any. REQUIRES: the lock of the edge's bucket.
func (e *edge) setDepth(s *Shard, depth int) (holders int) {
	old := e.holders.Load().list
	at := slices.IndexFunc(old, func(h PrefixHolder) bool { return h.Shard == s })
	if at >= 0 && old[at].Depth == depth || at < 0 && depth == 0 {
		return len(old)
	}
	if depth == 0 && len(old) == 1 {
		e.holders.Store(&noHolders)
		return 0
	}
	next := holderSet{list: make([]PrefixHolder, 0, len(old)+1)}
	for i, h := range old {
		if i != at {
			next.add(h, len(e.hashes))
		}
	}
	if depth > 0 {
		next.add(PrefixHolder{s, depth}, len(e.hashes))
	}
	e.holders.Store(&next)
	return len(next.list)
}

// slack is how many hashes more than four times its own an edge may keep.
const slack = 32

// own returns hashes that are part of so many, or a copy if they are few of them.
func own(hashes []uint64, of int) []uint64 {
	if of > 4*len(hashes)+slack {
		return slices.Clone(hashes)
	}
	return hashes
}

// tightened returns the edge, or one in its place without the hashes that nobody
// holds any more, if these are most of them. Below an edge that nobody holds whole
// nothing hangs. REQUIRES: the lock of the edge's bucket; the edge has holders.
func (e *edge) tightened() *edge {
	old, deepest := e.holders.Load(), 0
	for _, h := range old.list {
		deepest = max(deepest, h.Depth)
	}
	if len(e.hashes) <= 4*deepest+slack {
		return e
	}
	next := &edge{tag: e.tag, hashes: slices.Clone(e.hashes[:deepest])}
	set := holderSet{list: make([]PrefixHolder, 0, len(old.list))}
	for _, h := range old.list {
		set.add(h, deepest)
	}
	next.holders.Store(&set)
	return next
}

func (set *holderSet) add(h PrefixHolder, length int) {
	set.list = append(set.list, h)
	if h.Depth == length {
		set.whole++
	}
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
