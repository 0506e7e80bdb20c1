package kvevents

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// State says how far what is known of a rank can be trusted.
type State int

const (
	// Live means that its engine is heard and nothing is missing.
	Live State = iota
	// CatchingUp means that what was missed is being read. What is known counts.
	CatchingUp
	// Lost means that its engine cannot be heard. What is known counts for Config.Grace.
	Lost
)

func (s State) String() string {
	switch s {
	case Live:
		return "live"
	case CatchingUp:
		return "catching up"
	case Lost:
		return "lost"
	default:
		return "unknown"
	}
}

// RankStats tells how it stands with one rank. What is counted is counted since the rank
// was first named.
type RankStats struct {
	Rank  sched.RankID
	State State
	// Counts: it takes part in overlaps.
	Counts bool
	// Blocks is how many it holds, in blocks of the index, over all tiers that count.
	Blocks int
	// LastSequence is the number of the last batch applied, Batches how many were.
	LastSequence, Batches uint64
	// Age is how long ago the last message came; 0 before the first.
	Age time.Duration
	// Gaps counts holes in the sequence, Replays answers to what was missed, Resets how
	// often all was forgotten because the engine is another or not known to be the same,
	// Losses lost connections.
	Gaps, Replays, Resets, Losses uint64
	// Orphans counts blocks that follow one that is not known, Keyed blocks that depend on
	// more than tokens and namespace, such as an image. Both are not indexed.
	Orphans, Keyed uint64
	// Bad counts events that could not be read, Unknown those of unknown kinds.
	Bad, Unknown uint64
	// Overflows counts how often the rank had more blocks than it can hold: then all was
	// forgotten.
	Overflows uint64
	// Bytes counts what was received.
	Bytes uint64
	// Error is what went wrong last, nil if nothing has since the rank was live.
	Error error
}

// Stats tells how it stands with each rank, in the order of their ids.
func (x *Index) Stats() []RankStats {
	x.mu.Lock()
	ranks := make([]*rank, 0, len(x.mu.byID))
	for _, r := range x.mu.byID {
		ranks = append(ranks, r)
	}
	x.mu.Unlock()
	slices.SortFunc(ranks, func(a, b *rank) int {
		return cmp.Or(cmp.Compare(a.id.Worker, b.id.Worker), cmp.Compare(a.id.Rank, b.id.Rank))
	})
	all := make([]RankStats, 0, len(ranks))
	for _, r := range ranks {
		all = append(all, r.statsNow())
	}
	return all
}

func (r *rank) statsNow() RankStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.stats
	if !r.mu.heard.IsZero() {
		s.Age = time.Since(r.mu.heard)
	}
	s.Counts = r.word.Load()&scores != 0
	return s
}
