package queue

import (
	"cmp"
	"math"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Order is how the requests of a class follow each other.
type Order uint8

// The orders. A higher score goes first.
const (
	// FCFS, first come first served: the score is jump − arrival.
	FCFS Order = iota
	// LCFS, last come first served: the score is jump + arrival.
	LCFS
	// WSPT, weighted shortest processing time (Smith 1956): the score is
	// (1 s + jump)/cost.
	WSPT
)

// NoDue is the due time of an entry that has none.
const NoDue int64 = math.MaxInt64

// Scope says which ranks an entry's constraints name, so that a freed rank is
// offered only to the lanes that it can concern.
type Scope struct {
	// Pinned: only Rank can serve the entry.
	Pinned bool
	Rank   lifecycle.RankID
	// Workers lists the workers that may serve it; nil means any.
	Workers []uint64
}

// Entry is one request in the queue. The exported fields are the caller's and
// stay as they are while the entry is queued. Times are in nanoseconds.
type Entry[T any] struct {
	Value T
	// Seq is the arrival order, unique.
	Seq     uint64
	Arrival int64
	// Came is when the entry came to stand in line, which may be later than its
	// arrival.
	Came     int64
	Due      int64 // NoDue for none
	Priority uint32
	Jump     int64 // at least 0
	Cost     int64 // scheduling cost in tokens, at least 1
	Raw      int64 // input tokens
	Cached   int64 // cached tokens on the best rank
	// Lane is equal for entries with equal constraints, and Scope follows from
	// it.
	Lane  string
	Scope Scope

	class int
	lane  *Lane[T]
	key   key
	// Neighbours in the order of arrival.
	earlier, later *Entry[T]
	// Neighbours among those of the lane, as they came.
	cameBefore, cameAfter *Entry[T]
	// Places in the lane's sequences, in the heap of due times and in that of entries
	// that have not come of guard age; -1 when not in them.
	orderIndex, ageIndex, dueIndex, youngIndex int
	// aged: it has come of guard age.
	aged bool
	// joined is one more than the entry's index among the arrivals of a line that
	// may not remain, 0 if it is not among them.
	joined int
}

// Queued reports whether the entry is in a queue.
func (e *Entry[T]) Queued() bool { return e.lane != nil }

// Class returns the class in which the entry is queued.
func (e *Entry[T]) Class() int { return e.class }

// key is all that the orders compare.
type key struct {
	priority     uint32
	due, arrival int64
	score        score
	seq          uint64
}

func keyOf[T any](order Order, e *Entry[T]) key {
	return key{
		priority: e.Priority, due: e.Due, arrival: e.Arrival,
		score: scoreOf(order, e.Arrival, e.Jump, max(e.Cost, 1)), seq: e.Seq,
	}
}

// score is compared as whole nanoseconds or as a float, never mixed.
type score struct {
	whole int64
	ratio float64
}

func scoreOf(order Order, arrival, jump, cost int64) score {
	switch order {
	case LCFS:
		return score{whole: addSaturating(jump, arrival)}
	case WSPT:
		return score{ratio: float64(addSaturating(1e9, jump)) / float64(cost)}
	default:
		return score{whole: addSaturating(jump, -arrival)}
	}
}

// orderLess is the order within a class among waiters below the class's maximum age.
func orderLess(a, b *key) bool {
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.due != b.due:
		return a.due < b.due
	case a.score.whole != b.score.whole:
		return a.score.whole > b.score.whole
	case a.score.ratio != b.score.ratio:
		return a.score.ratio > b.score.ratio
	default:
		return a.seq < b.seq
	}
}

// ageLess is the order among those at or above it.
func ageLess(a, b *key) bool {
	switch {
	case a.priority != b.priority:
		return a.priority > b.priority
	case a.arrival != b.arrival:
		return a.arrival < b.arrival
	default:
		return a.seq < b.seq
	}
}

func (e *Entry[T]) dueBefore(other *Entry[T]) bool {
	return cmp.Or(cmp.Compare(e.Due, other.Due), cmp.Compare(e.Seq, other.Seq)) < 0
}

func addSaturating(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

func mulSaturating(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
