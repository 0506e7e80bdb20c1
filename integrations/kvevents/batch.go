package kvevents

import "math"

// Batch is one message of an engine: the changes of one rank's cache since the
// message before. Decode fills it; its memory is used again by the next Decode.
type Batch struct {
	// Time is when the engine wrote it, in seconds since 1970.
	Time float64
	// Rank is the data-parallel rank that the engine says it is, -1 if it does not say.
	Rank int64
	// Bad counts events that were left out because they could not be read or
	// contradict themselves; Unknown those of kinds that this package does not know.
	Bad, Unknown int

	events []event
	hashes []uint64
	tokens []uint32
	spaces []Namespace
	reader reader
}

type kind uint8

const (
	unknownKind kind = iota
	stored
	removed
	cleared
)

// tier is where a block lies. The zero value is the device: engines that know of no
// other tier do not name it.
type tier uint8

const (
	device tier = iota
	host
	disk
	elsewhere // a medium that is not known, or not this rank's
	tiers     = int(elsewhere)
)

// event is one change. Its lists are stretches of the batch's, so that a batch of
// many events costs no more memory than its bytes suggest.
type event struct {
	kind  kind
	tier  tier
	root  bool // stored: starts a chain
	pairs bool // stored: the tokens came as pairs, each with its successor
	// other says that prefixes do not go by the cache group that speaks.
	other bool
	// size is the tokens of a block, group the number of the cache group, or noGroup.
	size, group uint32
	// keyed is the first block that depends on more than tokens and namespace; blocks
	// from there on are not indexed.
	keyed  uint32
	parent uint64
	hashes stretch
	tokens stretch
	copies stretch // of hashes: how many copies of each are left, if it was said
	space  uint32  // of the batch's namespaces
}

// noGroup is the group of an event that names none.
const noGroup = math.MaxUint32

type stretch struct{ from, n uint32 }

func (b *Batch) reset() {
	*b = Batch{Rank: -1, events: b.events[:0], hashes: b.hashes[:0], tokens: b.tokens[:0], spaces: append(b.spaces[:0], Namespace{}), reader: b.reader}
}

func (b *Batch) hashesOf(s stretch) []uint64 { return b.hashes[s.from : s.from+s.n] }

func (b *Batch) tokensOf(s stretch) []uint32 { return b.tokens[s.from : s.from+s.n] }
