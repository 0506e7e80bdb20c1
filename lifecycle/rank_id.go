package lifecycle

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// RankID names one data-parallel rank of one worker: the unit that is loaded,
// booked and pinned. It is written worker/rank.
type RankID struct {
	Worker uint64
	Rank   uint32
}

// String returns the rank in the form worker/rank.
func (id RankID) String() string { return fmt.Sprintf("%d/%d", id.Worker, id.Rank) }

// MarshalText returns the rank in the form worker/rank, which JSON then has as a
// string: ids of 64 bits do not survive as the numbers of every reader.
func (id RankID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the form worker/rank.
func (id *RankID) UnmarshalText(text []byte) error {
	worker, rank, ok := strings.Cut(string(text), "/")
	w, workerErr := strconv.ParseUint(worker, 10, 64)
	r, rankErr := strconv.ParseUint(rank, 10, 32)
	if !ok || workerErr != nil || rankErr != nil {
		return fmt.Errorf("rank %q: must be worker/rank, two numbers of 64 and 32 bits", text)
	}
	*id = RankID{Worker: w, Rank: uint32(r)}
	return nil
}

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
