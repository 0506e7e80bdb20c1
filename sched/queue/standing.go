package queue

import "cmp"

// Standing is a place in the order of a class at one instant. It says who goes
// before whom without a queue: of those who wait, and of one who has not come yet.
type Standing struct {
	priority     uint32
	aged         bool
	due, arrival int64
	score        score
	seq          uint64
}

// StandingOf returns the place of an entry in a class at the instant now. The
// entry need not be queued; of its fields, those the order goes by are read.
func StandingOf[T any](spec ClassSpec, e *Entry[T], now int64) Standing {
	return Standing{
		priority: e.Priority,
		aged:     spec.MaxAge > 0 && now-e.Arrival >= spec.MaxAge,
		due:      e.Due, arrival: e.Arrival,
		score: scoreOf(spec.Order, e.Arrival, e.Jump, max(e.Cost, 1)),
		seq:   e.Seq,
	}
}

// Before reports whether s goes before other, which stands in the same class at
// the same instant, if both can run.
func (s Standing) Before(other Standing) bool {
	switch {
	case s.priority != other.priority:
		return s.priority > other.priority
	case s.aged != other.aged:
		return s.aged
	case s.aged:
		return cmp.Or(cmp.Compare(s.arrival, other.arrival), cmp.Compare(s.seq, other.seq)) < 0
	default:
		return cmp.Or(
			cmp.Compare(s.due, other.due),
			cmp.Compare(other.score.whole, s.score.whole),
			cmp.Compare(other.score.ratio, s.score.ratio),
			cmp.Compare(s.seq, other.seq),
		) < 0
	}
}
