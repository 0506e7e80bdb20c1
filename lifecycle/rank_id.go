package lifecycle

import (
	"cmp"
	"fmt"
)

// RankID names one data-parallel rank of one worker: the unit that is loaded,
// booked and pinned. It is written worker/rank.
type RankID struct {
	Worker uint64
	Rank   uint32
}

// String returns the rank in the form worker/rank.
func (id RankID) String() string { return fmt.Sprintf("%d/%d", id.Worker, id.Rank) }

// Compare orders ranks by worker, then by rank.
func (id RankID) Compare(other RankID) int {
	return cmp.Or(cmp.Compare(id.Worker, other.Worker), cmp.Compare(id.Rank, other.Rank))
}

// Overlap says how many leading blocks of a prompt one rank already holds in
// each cache tier. Counts are in blocks, may be fractional, and must be finite
// and not negative.
type Overlap struct {
	Rank   RankID
	Device float64
	Host   float64
	Disk   float64
}
