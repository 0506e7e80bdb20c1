package shards

import (
	"slices"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"
)

// Prefixes says which ranks hold which prompt blocks, over all ranks of a pool.
// A block is identified by its path, so a node is found by the node before it
// and its own hash.
//
// Guarantee: a walk costs steps that follow the matched depth, not the number of
// ranks, takes no lock and writes nothing. It may be a moment behind; a booking
// looks again under the rank's lock if the rank has changed since.
//
// How: the rank that is first to hold a path makes its nodes, each under the
// lock of its bucket; the sets of holders are copied on write and nest along a
// path, so that only where they change a rank drops out.
type Prefixes struct {
	nodes *xsync.MapOf[prefixKey, *prefixNode]
}

// prefixKey names a node by its parent's tag (0 for none) and its hash.
type prefixKey struct {
	parent uint64
	hash   uint64
}

type prefixNode struct {
	// tag is unique among all nodes there ever were.
	tag uint64
	// holders is written under the lock of the node's bucket and read by all.
	holders atomic.Pointer[[]*Shard]
}

func newPrefixes() *Prefixes {
	return &Prefixes{nodes: xsync.NewMapOf[prefixKey, *prefixNode]()}
}

// Holders yields, from the deepest to the first, the sets of ranks that hold
// the leading blocks of a prompt, with the depth up to which they do. A rank is
// in the sets of all lesser depths too. scratch is used and returned.
func (p *Prefixes) Holders(blocks []uint64, scratch []PrefixLevel) []PrefixLevel {
	levels := scratch[:0]
	parent := uint64(0)
	for i, hash := range blocks {
		node, found := p.nodes.Load(prefixKey{parent, hash})
		if !found {
			break
		}
		holders := node.holders.Load()
		if holders == nil || len(*holders) == 0 {
			break
		}
		parent = node.tag
		if last := len(levels) - 1; last >= 0 && slices.Equal(levels[last].Holders, *holders) {
			levels[last] = PrefixLevel{Depth: i + 1, Holders: *holders}
			continue
		}
		levels = append(levels, PrefixLevel{Depth: i + 1, Holders: *holders})
	}
	return levels
}

// PrefixLevel is a set of ranks that hold a prompt up to a depth.
type PrefixLevel struct {
	Depth   int
	Holders []*Shard
}

// Len returns the number of distinct blocks live in the pool.
func (p *Prefixes) Len() int { return p.nodes.Size() }

func (p *Prefixes) hold(parent, hash uint64, s *Shard, tag uint64) uint64 {
	node, _ := p.nodes.Compute(prefixKey{parent, hash}, func(node *prefixNode, found bool) (*prefixNode, bool) {
		if !found {
			node = &prefixNode{tag: tag}
			node.holders.Store(&[]*Shard{s})
			return node, false
		}
		old := *node.holders.Load()
		holders := append(make([]*Shard, 0, len(old)+1), old...)
		holders = append(holders, s)
		node.holders.Store(&holders)
		return node, false
	})
	return node.tag
}

func (p *Prefixes) drop(parent, hash uint64, s *Shard) {
	p.nodes.Compute(prefixKey{parent, hash}, func(node *prefixNode, found bool) (*prefixNode, bool) {
		if !found {
			return nil, true
		}
		old := *node.holders.Load()
		holders := make([]*Shard, 0, len(old))
		for _, h := range old {
			if h != s {
				holders = append(holders, h)
			}
		}
		node.holders.Store(&holders)
		return node, len(holders) == 0
	})
}

// blockObserver keeps the index in step with a rank's blocks, under its lock.
type blockObserver Shard

// PathLive implements lifecycle.PathObserver.
func (o *blockObserver) PathLive(path []uint64, from int) {
	s := (*Shard)(o)
	p := s.env.prefixes.Load()
	tag := uint64(0)
	for _, hash := range path[:from] {
		tag = p.tag(tag, hash)
	}
	for _, hash := range path[from:] {
		s.mu.tags++
		tag = p.hold(tag, hash, s, s.ordinal<<tagBits|s.mu.tags)
	}
}

// PathGone implements lifecycle.PathObserver.
func (o *blockObserver) PathGone(path []uint64, to int) {
	s := (*Shard)(o)
	p := s.env.prefixes.Load()
	var room [64]uint64
	parents := append(room[:0], 0)
	for _, hash := range path[:len(path)-1] {
		parents = append(parents, p.tag(parents[len(parents)-1], hash))
	}
	// The deepest first, so that the sets of holders nest at every moment.
	for i := len(path) - 1; i >= to; i-- {
		p.drop(parents[i], path[i], s)
	}
}

// tag returns the tag of a node that the caller's rank holds.
func (p *Prefixes) tag(parent, hash uint64) uint64 {
	node, _ := p.nodes.Load(prefixKey{parent, hash})
	return node.tag
}

// tagBits leaves room for 2^40 blocks a shard and 2^24 shards a pool.
const tagBits = 40
