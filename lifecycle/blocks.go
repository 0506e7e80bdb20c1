package lifecycle

import "math"

// BlockUnit is the weight of one whole block. Weights are multiples of
// 1/65,536 of a block, so that their sums are exact whatever the order.
const BlockUnit = 1 << 16

// DecayWeight returns the weight of a block that counts as the given fraction
// of a whole one, rounded to 1/65,536. It is not ok for a fraction outside
// [0, 1], NaN included.
func DecayWeight(fraction float64) (weight int64, ok bool) {
	if !(fraction >= 0 && fraction <= 1) {
		return 0, false
	}
	return int64(math.Round(fraction * BlockUnit)), true
}

// Block is a live prompt block of one rank. It is identified by its hash and
// its parent, i.e. by its whole path, and counts once however many bookings
// hold it.
//
// A decay changes the weight of all blocks that only one booking holds, and
// may come with every output block. So that it need not walk a prompt of
// thousands of blocks each time, the blocks it has once covered belong to the
// booking, which keeps one weight for all (Booking.tailWeight). A block gets
// its own weight back when another booking comes to share it, on a walk that
// booking makes anyway.
type Block struct {
	// Hash is the block's own hash, as given to Book.
	Hash uint64
	// Tag is the observer's to use. Nothing here reads it.
	Tag uint64

	parent *Block
	// owner is the only holder, if the weight is kept there; else nil.
	owner *Booking
	// refs is the number of bookings that hold the block. It never grows from
	// parent to child.
	refs int64
	// weight is in [0, BlockUnit]; without meaning if there is an owner.
	weight int64
}

// Parent returns the block before b in its prompt, or nil for the first.
func (b *Block) Parent() *Block { return b.parent }

func (b *Block) currentWeight() int64 {
	if b.owner != nil {
		return b.owner.tailWeight
	}
	return b.weight
}

// BlockObserver is told which prompt blocks of a rank are live, for an index
// over many ranks. It is called in the middle of an operation: it must not call
// the rank, and must not keep a block beyond BlockGone.
type BlockObserver interface {
	// BlockLive tells of a block that has become live. Its parent was told of
	// before, so the parent's Tag is set by then.
	BlockLive(b *Block)
	// BlockGone tells of a block that nobody holds any more. Its children are
	// gone by then; its parent is still to be read.
	BlockGone(b *Block)
}

type blockKey struct {
	parent *Block
	hash   uint64
}

// smallMap is the number of blocks up to which a block map is never shrunk.
const smallMap = 256

// blockTree is the prefix tree of a rank's live prompt blocks, kept flat: a
// node's children are found by key, not by a map in each node.
type blockTree struct {
	// nodes is made with the first block, as most ranks may be idle.
	nodes map[blockKey]*Block
	// peak is the most nodes there were since the map was made.
	peak int
	// weight is the sum of the weights of all nodes and of all output blocks.
	weight int64
	// observer may be nil.
	observer BlockObserver
}

// hold makes b a holder of the path of hashes and that path's end its leaf.
func (t *blockTree) hold(b *Booking, hashes []uint64) {
	if len(hashes) == 0 {
		return
	}
	if t.nodes == nil {
		t.nodes = make(map[blockKey]*Block, len(hashes))
	}
	var parent *Block
	known := true // below a new block everything is new
	for _, hash := range hashes {
		key := blockKey{parent, hash}
		var blk *Block
		if known {
			blk, known = t.nodes[key]
		}
		if known {
			if o := blk.owner; o != nil {
				// From here up to the root the blocks are no longer o's alone.
				blk.weight, blk.owner = o.tailWeight, nil
				o.tailLen--
				o.tailAbove = blk
			}
			blk.refs++
		} else {
			blk = &Block{Hash: hash, parent: parent, refs: 1, weight: BlockUnit}
			t.nodes[key] = blk
			t.weight += BlockUnit
			if t.observer != nil {
				t.observer.BlockLive(blk)
			}
		}
		parent = blk
	}
	b.leaf, b.promptBlocks = parent, len(hashes)
	b.tailAbove, b.tailLen, b.tailWeight = parent, 0, 0
	t.peak = max(t.peak, len(t.nodes))
}

// drop ends b's hold on its path.
func (t *blockTree) drop(b *Booking) {
	if b.leaf == nil {
		return
	}
	for blk := b.leaf; blk != nil; {
		parent := blk.parent
		if blk.refs--; blk.refs == 0 {
			t.weight -= blk.currentWeight()
			delete(t.nodes, blockKey{parent, blk.Hash})
			if t.observer != nil {
				t.observer.BlockGone(blk)
			}
		}
		blk = parent
	}
	b.leaf, b.tailAbove = nil, nil
	t.shrink()
}

// shrink gives memory back after a spike: deleting from a Go map never does.
// The copy is paid for by the deletions since the peak.
func (t *blockTree) shrink() {
	if t.peak <= smallMap || len(t.nodes) > t.peak/8 {
		return
	}
	old := t.nodes
	t.nodes, t.peak = nil, len(old)
	if len(old) == 0 {
		return
	}
	t.nodes = make(map[blockKey]*Block, len(old))
	for key, blk := range old {
		t.nodes[key] = blk
	}
}

// setTail gives every prompt block that only b holds the weight w.
func (t *blockTree) setTail(b *Booking, w int64) {
	t.weight += b.tailLen * (w - b.tailWeight)
	b.tailWeight = w
	blk := b.tailAbove
	for ; blk != nil && blk.refs == 1; blk = blk.parent {
		t.weight += w - blk.weight
		blk.owner = b
		b.tailLen++
	}
	b.tailAbove = blk
}

// tailTotal returns the weight of the prompt blocks that only b holds.
func (t *blockTree) tailTotal(b *Booking) int64 {
	sum := b.tailLen * b.tailWeight
	for blk := b.tailAbove; blk != nil && blk.refs == 1; blk = blk.parent {
		sum += blk.weight
	}
	return sum
}

// prefix returns how many leading hashes are live if except, unless nil, held
// nothing.
func (t *blockTree) prefix(hashes []uint64, except *Booking) int {
	var parent *Block
	for i, hash := range hashes {
		blk := t.nodes[blockKey{parent, hash}]
		if blk == nil {
			return i
		}
		if except != nil && blk.refs == 1 {
			if except.holds(blk, i+1) {
				return i
			}
			except = nil // one other booking holds this and all that follows
		}
		parent = blk
	}
	return len(hashes)
}
