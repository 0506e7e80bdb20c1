package shards

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	// MaxRanks is the most ranks a worker may have.
	MaxRanks = 1024
	// DefaultMaxBatchedTokens stands in for a worker that does not say.
	DefaultMaxBatchedTokens = 10_000_000
)

// Worker describes one inference-engine process, which holds the ranks
// StartRank to StartRank+Ranks−1.
type Worker struct {
	ID               uint64
	StartRank        uint32
	Ranks            uint32
	MaxBatchedTokens int64
	TotalKVBlocks    int64
	Taints           []string
	Endpoint         string
	// Incarnation says which process this is; empty if that is not known.
	Incarnation string
}

// Another reports whether the worker is known to be another process than that of
// the incarnation given: incarnations are compared only when both are known.
func (w *Worker) Another(incarnation string) bool {
	return w.Incarnation != "" && incarnation != "" && w.Incarnation != incarnation
}

// equal reports whether all is the same of two workers of tables.
func (w *Worker) equal(other *Worker) bool {
	return w.ID == other.ID && w.StartRank == other.StartRank && w.Ranks == other.Ranks &&
		w.kind() == other.kind() && w.Endpoint == other.Endpoint && w.Incarnation == other.Incarnation &&
		slices.Equal(w.Taints, other.Taints)
}

func (w *Worker) kind() Kind { return Kind{w.MaxBatchedTokens, w.TotalKVBlocks} }

// WorkerError says which rules a worker breaks: every one of them, not the first only.
type WorkerError struct {
	ID   uint64
	Rule string
}

// Error names the worker and the rules.
func (e *WorkerError) Error() string { return fmt.Sprintf("worker %d: %s", e.ID, e.Rule) }

// normalize fills in what the worker does not say; its error names every fault.
func (w Worker) normalize() (Worker, error) {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if w.Ranks < 1 || w.Ranks > MaxRanks {
		fault("%d ranks: must be 1 to %d", w.Ranks, MaxRanks)
	} else if w.StartRank > math.MaxUint32-w.Ranks {
		fault("start rank %d with %d ranks: their sum must fit in 32 bits", w.StartRank, w.Ranks)
	}
	if w.MaxBatchedTokens < 0 {
		fault("max batched tokens %d: must not be negative", w.MaxBatchedTokens)
	}
	if w.TotalKVBlocks < 0 {
		fault("total KV blocks %d: must not be negative", w.TotalKVBlocks)
	}
	if len(faults) > 0 {
		return Worker{}, &WorkerError{ID: w.ID, Rule: strings.Join(faults, "; ")}
	}
	if w.MaxBatchedTokens == 0 {
		w.MaxBatchedTokens = DefaultMaxBatchedTokens
	}
	w.Taints = slices.Clone(w.Taints)
	slices.Sort(w.Taints)
	w.Taints = slices.Compact(w.Taints)
	return w, nil
}

// HasTaint reports whether the worker has the taint. REQUIRES: the worker comes
// from a Table.
func (w *Worker) HasTaint(taint string) bool {
	_, found := slices.BinarySearch(w.Taints, taint)
	return found
}

// HasTaints reports whether the worker has all the taints. REQUIRES: as HasTaint.
func (w *Worker) HasTaints(taints []string) bool {
	for _, taint := range taints {
		if !w.HasTaint(taint) {
			return false
		}
	}
	return true
}
