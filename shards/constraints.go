package shards

import (
	"encoding/binary"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Constraints say which ranks may serve a request.
type Constraints struct {
	// Pinned requests look at Pin alone.
	Pinned bool
	Pin    lifecycle.RankID
	// Allowed lists worker ids; nil allows all.
	Allowed []uint64
	// Excluded lists worker ids. The last Tried of them were not excluded by the caller
	// but have been tried before, which matters for words only.
	Excluded []uint64
	Tried    int
	// RequiredTaints must all be on the worker.
	RequiredTaints []string
}

// Check is what became of one rank's eligibility. The checks are made in this
// order, and the first that fails is the answer.
type Check uint8

const (
	// Eligible means: all checks passed.
	Eligible Check = iota
	// NotAllowed means: the worker is not in the allowed set, or is excluded.
	NotAllowed
	// Unavailable means: the worker is not in the available set, or is draining.
	Unavailable
	// Missing means: the rank does not exist.
	Missing
	// Untainted means: the worker lacks a required taint.
	Untainted
	// Overloaded means: the worker is in the overloaded set.
	Overloaded
)

// String names the check that failed.
func (c Check) String() string {
	switch c {
	case Eligible:
		return "eligible"
	case NotAllowed:
		return "not in the allowed set or excluded"
	case Unavailable:
		return "not available"
	case Missing:
		return "the rank does not exist"
	case Untainted:
		return "lacks a required taint"
	case Overloaded:
		return "overloaded"
	default:
		return "unknown"
	}
}

// Allows reports whether the sets of the constraints allow the worker.
func (c *Constraints) Allows(worker uint64) bool {
	return (c.Allowed == nil || slices.Contains(c.Allowed, worker)) && !slices.Contains(c.Excluded, worker)
}

// PinAllowed reports whether the pin, if any, is in the allowed set.
func (c *Constraints) PinAllowed() bool {
	return !c.Pinned || c.Allowed == nil || slices.Contains(c.Allowed, c.Pin.Worker)
}

// Unconstrained reports whether every available rank will do.
func (c *Constraints) Unconstrained() bool {
	return !c.Pinned && c.Allowed == nil && len(c.Excluded) == 0 && len(c.RequiredTaints) == 0
}

// CheckRank says whether a rank may serve the request and, if not, why.
func (t *Table) CheckRank(c *Constraints, rank lifecycle.RankID) Check {
	if !c.Allows(rank.Worker) {
		return NotAllowed
	}
	at := t.Slot(rank)
	if at < 0 {
		if from, to := t.WorkerSlots(rank.Worker); from < to && !t.slots[from].Available {
			return Unavailable
		}
		return Missing
	}
	return t.checkSlot(c, at)
}

// checkSlot goes on where Allows has passed.
func (t *Table) checkSlot(c *Constraints, at int) Check {
	slot := &t.slots[at]
	if !slot.Available {
		return Unavailable
	}
	for _, taint := range c.RequiredTaints {
		if !slot.Worker.HasTaint(taint) {
			return Untainted
		}
	}
	if slot.Overloaded {
		return Overloaded
	}
	return Eligible
}

// CountChecks counts the ranks of the table by what became of their check, and apart
// from these the ranks of workers that nothing but an earlier try excludes. It costs
// O(ranks and what the lists name), which a CheckRank for each rank would not.
// REQUIRES: not pinned.
func (t *Table) CountChecks(c *Constraints) (counts [Overloaded + 1]int, tried int) {
	const allowed, excluded, triedBefore = 1, 2, 4
	marks := make([]uint8, len(t.workers))
	mark := func(ids []uint64, as uint8) {
		for _, id := range ids {
			if i, found := t.find(id); found {
				marks[i] |= as
			}
		}
	}
	asked := len(c.Excluded) - c.Tried
	mark(c.Allowed, allowed)
	mark(c.Excluded[:asked], excluded)
	mark(c.Excluded[asked:], triedBefore)
	for i, as := range marks {
		from, to := t.first[i], t.first[i+1]
		if c.Allowed == nil {
			as |= allowed
		}
		switch as {
		case allowed:
			for at := from; at < to; at++ {
				counts[t.checkSlot(c, at)]++
			}
		case allowed | triedBefore:
			tried += to - from
		default:
			counts[NotAllowed] += to - from
		}
	}
	return counts, tried
}

// Key is equal for constraints that mean the same, whatever the order of their
// lists, and empty for none.
func (c *Constraints) Key() string {
	if c.Unconstrained() {
		return ""
	}
	var key []byte
	if c.Pinned {
		key = append(key, 'p')
		key = binary.BigEndian.AppendUint64(key, c.Pin.Worker)
		key = binary.BigEndian.AppendUint32(key, c.Pin.Rank)
	}
	if c.Allowed != nil {
		key = appendIDs(append(key, 'a'), c.Allowed)
	}
	if len(c.Excluded) > 0 {
		key = appendIDs(append(key, 'x'), c.Excluded)
	}
	if len(c.RequiredTaints) > 0 {
		taints := slices.Clone(c.RequiredTaints)
		slices.Sort(taints)
		key = append(key, 't')
		for _, taint := range slices.Compact(taints) {
			key = binary.AppendUvarint(key, uint64(len(taint)))
			key = append(key, taint...)
		}
	}
	return string(key)
}

func appendIDs(key []byte, ids []uint64) []byte {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	key = binary.AppendUvarint(key, uint64(len(sorted)))
	for _, id := range sorted {
		key = binary.BigEndian.AppendUint64(key, id)
	}
	return key
}
