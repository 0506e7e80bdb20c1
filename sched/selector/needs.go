package selector

import "slices"

// Needs says which inputs a selector reads. Its zero value says nothing, and counts
// as [NeedsAll]; one that reads none says [NeedsNothing].
type Needs uint8

// The inputs. Each is looked up only for a selector that needs it.
const (
	// NeedsLoad is the load of each rank: ActivePrefill, ActiveBlocks, Requests and
	// Version of a [Candidate], and Input.LeastPrefill.
	NeedsLoad Needs = 1 << iota
	// NeedsBlocks is Candidate.PotentialBlocks, for which it is looked up which
	// blocks of the prompt are live on which rank.
	NeedsBlocks
	// NeedsCache is what the request says is cached: Device, Host and Disk.
	NeedsCache
	// NeedsTaints is Candidate.TaintWeight.
	NeedsTaints
	// NeedsWorkers is Input.Workers: labels, endpoint and limits.
	NeedsWorkers
	// NeedsRequest is Input.Request.
	NeedsRequest
	// NeedsNothing is for a selector that reads only Candidate.Rank, Input.ISL,
	// TrackPrefill and Params, or none of these.
	NeedsNothing

	// NeedsAll is what a selector gets that does not say.
	NeedsAll = NeedsLoad | NeedsBlocks | NeedsCache | NeedsTaints | NeedsWorkers | NeedsRequest
)

// Declarer is a [Selector] that says what it reads. What it does not need is left
// zero and costs nothing. And one that needs neither load nor blocks is not asked
// again when the load of the chosen rank changes before it is booked.
type Declarer interface {
	// Needs returns always the same, and at once: it is asked under a lock whenever
	// the pool changes.
	Needs() Needs
}

// NeedsOf returns what a selector declares, NeedsAll if it does not.
func NeedsOf(s Selector) Needs {
	switch s := s.(type) {
	case kv:
		return NeedsLoad | NeedsBlocks | NeedsCache | NeedsTaints
	case leastLoaded, powerOfTwo:
		return NeedsLoad
	case random, *roundRobin:
		return NeedsNothing
	case Declarer:
		if needs := s.Needs(); needs != 0 {
			return needs
		}
	}
	return NeedsAll
}

// Has reports whether n includes all of some.
func (n Needs) Has(some Needs) bool { return n&some == some }

// Facts are what a selector can know of the request beside its length.
type Facts struct {
	// ID and Class are as the request gives them; either may be empty.
	ID, Class string
	Priority  uint32
	// ExpectedOSL is the expected output length in tokens, 0 for unknown.
	ExpectedOSL int64
	// Blocks are the hashes of the full prompt blocks. They must not be changed.
	Blocks []uint64
}

// Worker is what a selector can know of a candidate's worker.
type Worker struct {
	// Endpoint is the opaque address, MaxBatchedTokens the engine's limit of tokens
	// per batch, TotalKVBlocks what the worker announced, 0 for unknown.
	Endpoint         string
	MaxBatchedTokens int64
	TotalKVBlocks    int64

	taints []string // in order; shared, so it is not shown
}

// NewWorker returns a worker with labels; it is for tests of selectors.
func NewWorker(taints ...string) Worker {
	taints = slices.Clone(taints)
	slices.Sort(taints)
	return Worker{taints: taints}
}

// WithSortedTaints returns the worker with labels that are in order and will not
// change.
func (w Worker) WithSortedTaints(taints []string) Worker {
	w.taints = taints
	return w
}

// HasTaint reports whether the worker has a label.
func (w *Worker) HasTaint(taint string) bool {
	_, found := slices.BinarySearch(w.taints, taint)
	return found
}

// Taints returns a copy of the labels, in order.
func (w *Worker) Taints() []string { return slices.Clone(w.taints) }
