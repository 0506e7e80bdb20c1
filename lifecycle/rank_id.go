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
