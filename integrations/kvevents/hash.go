package kvevents

import (
	"encoding/binary"

	"github.com/dchest/siphash"
)

// Namespace is what a cached block depends on besides the tokens up to its end. Blocks
// of different namespaces never match.
type Namespace struct {
	// LoRA is the adapter's name, empty for the base model. Engines that number adapters
	// and do not name them are taken to name them by their number.
	LoRA string
	// Salt is the cache salt of the request, empty for none.
	Salt string
}

// hasher makes content hashes: of a block, by that of the block before and its tokens.
// They are SipHash-2-4 under a key, so that nobody who does not know the key can craft
// two prompts that share them.
type hasher struct {
	k0, k1 uint64
	size   int // tokens of a block
}

func newHasher(seed uint64, size int) hasher {
	return hasher{k0: seed, k1: seed ^ 0x7475726e7374696c, size: size}
}

// root returns what the first block of a chain follows.
func (h hasher) root(space Namespace) uint64 {
	if space == (Namespace{}) {
		return siphash.Hash(h.k0, h.k1, nil)
	}
	text := binary.LittleEndian.AppendUint64(nil, uint64(len(space.LoRA)))
	text = append(text, space.LoRA...)
	return siphash.Hash(h.k0, h.k1, append(text, space.Salt...))
}

// chunk is how many tokens are hashed at a time, on the stack.
const chunk = 64

// next returns the hash of the block with these tokens that follows another.
func (h hasher) next(parent uint64, tokens []uint32) uint64 {
	var text [8 + 4*chunk]byte
	for len(tokens) > 0 {
		n := min(len(tokens), chunk)
		binary.LittleEndian.PutUint64(text[:], parent)
		for i, token := range tokens[:n] {
			binary.LittleEndian.PutUint32(text[8+4*i:], token)
		}
		parent = siphash.Hash(h.k0, h.k1, text[:8+4*n])
		tokens = tokens[n:]
	}
	return parent
}

// Hashes appends to dst the hash of each full block of a prompt: what Request.Blocks
// takes and Overlaps looks up. They are comparable among indexes of one seed and block
// size only.
func (x *Index) Hashes(dst []uint64, space Namespace, tokens []uint32) []uint64 {
	at := x.hash.root(space)
	for size := x.hash.size; len(tokens) >= size; tokens = tokens[size:] {
		at = x.hash.next(at, tokens[:size])
		dst = append(dst, at)
	}
	return dst
}
