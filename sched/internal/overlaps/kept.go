// Package overlaps keeps what a request said about the caches of the ranks as long
// as its booking lives, in little room: a transfer needs it again.
//
// A rank takes some 4 bytes, where an Overlap has 40. The ranks are packed in the
// order in which they were listed, each as
//
//	worker − the one before (zigzag varint)
//	rank<<3 | which tiers are not 0 (varint)
//	of each of these tiers, blocks<<1 (varint) if they are whole, else a byte 1 and
//	the bits of the number (8 bytes)
package overlaps

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Kept is the overlaps of a booking. The zero value is that of a request that has
// none. It is changed by SetRank only.
type Kept struct {
	packed string
	// here is where in packed the tiers of the rank stand that was set, 0 if it is not
	// listed there: before the first tiers stands a worker.
	here uint32
}

// buffers are what lists are packed in, of *[]byte.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// fraction stands before a number of blocks that is not whole. Whole ones are even
// there.
const fraction = 1

// longest is the most that one rank takes.
const longest = binary.MaxVarintLen64 + binary.MaxVarintLen32 + 1 + 3*9

// most is the largest whole number of blocks that is packed as such.
const most = 1 << 53

// Keep packs a list of overlaps and sets a rank.
func Keep(list []lifecycle.Overlap, rank lifecycle.RankID) Kept {
	if len(list) == 0 {
		return Kept{}
	}
	if len(list) <= few {
		var buffer [few * longest]byte
		return pack(list, rank, buffer[:])
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	if cap(*buffer) < len(list)*longest {
		*buffer = make([]byte, len(list)*longest)
	}
	return pack(list, rank, (*buffer)[:cap(*buffer)])
}

// few is how many ranks are packed on the stack.
const few = 4

// pack packs a list in a buffer that is long enough.
func pack(list []lifecycle.Overlap, rank lifecycle.RankID, packed []byte) Kept {
	kept, before, at := Kept{}, uint64(0), 0
	for i := range list {
		o := &list[i]
		delta := int64(o.Rank.Worker - before)
		before = o.Rank.Worker
		at = put(packed, at, uint64(delta<<1^delta>>63))
		if o.Rank == rank {
			kept.here = uint32(at)
		}
		head := uint64(o.Rank.Rank) << 3
		if o.Device != 0 {
			head |= 1
		}
		if o.Host != 0 {
			head |= 2
		}
		if o.Disk != 0 {
			head |= 4
		}
		at = put(packed, at, head)
		if o.Device != 0 {
			at = putBlocks(packed, at, o.Device)
		}
		if o.Host != 0 {
			at = putBlocks(packed, at, o.Host)
		}
		if o.Disk != 0 {
			at = putBlocks(packed, at, o.Disk)
		}
	}
	kept.packed = string(packed[:at])
	return kept
}

// put writes a varint and returns where it ends.
func put(packed []byte, at int, n uint64) int {
	if n < 0x80 {
		packed[at] = byte(n)
		return at + 1
	}
	return at + binary.PutUvarint(packed[at:], n)
}

func putBlocks(packed []byte, at int, blocks float64) int {
	if whole := uint64(min(blocks, most)); float64(whole) == blocks {
		return put(packed, at, whole<<1)
	}
	packed[at] = fraction
	binary.LittleEndian.PutUint64(packed[at+1:], math.Float64bits(blocks))
	return at + 9
}

// SetRank sets another rank. It takes time in proportion to the list.
func (k *Kept) SetRank(rank lifecycle.RankID) {
	k.here = 0
	r := reader{packed: k.packed}
	for worker := uint64(0); r.at < len(r.packed); {
		worker += uint64(r.varint())
		here := r.at
		if o := r.overlap(); worker == rank.Worker && o.Rank.Rank == rank.Rank {
			k.here = uint32(here)
			return
		}
	}
}

// Overlap returns the overlap on the rank that was set, which the caller names
// again.
func (k *Kept) Overlap(rank lifecycle.RankID) lifecycle.Overlap {
	if k.here == 0 {
		return lifecycle.Overlap{Rank: rank}
	}
	r := reader{k.packed, int(k.here)}
	o := r.overlap()
	o.Rank.Worker = rank.Worker
	return o
}

// List returns the overlaps as they were listed.
func (k *Kept) List() (list []lifecycle.Overlap) {
	r := reader{packed: k.packed}
	for worker := uint64(0); r.at < len(r.packed); {
		worker += uint64(r.varint())
		o := r.overlap()
		o.Rank.Worker = worker
		list = append(list, o)
	}
	return list
}

// Bytes returns how much room the list takes.
func (k *Kept) Bytes() int { return len(k.packed) }

// reader reads what Keep packed.
type reader struct {
	packed string
	at     int
}

func (r *reader) uvarint() (n uint64) {
	for shift := 0; ; shift += 7 {
		b := r.packed[r.at]
		r.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}

func (r *reader) varint() int64 {
	n := r.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// overlap reads an overlap but for its worker.
func (r *reader) overlap() (o lifecycle.Overlap) {
	head := r.uvarint()
	o.Rank.Rank = uint32(head >> 3)
	for tier, blocks := range [...]*float64{&o.Device, &o.Host, &o.Disk} {
		if head&(1<<tier) != 0 {
			*blocks = r.blocks()
		}
	}
	return o
}

func (r *reader) blocks() float64 {
	n := r.uvarint()
	if n != fraction {
		return float64(n >> 1)
	}
	bits := uint64(0)
	for i := range 8 {
		bits |= uint64(r.packed[r.at+i]) << (8 * i)
	}
	r.at += 8
	return math.Float64frombits(bits)
}
