package queue

// Standing is a place in the order of a class at one instant. Two of them say which goes
// first, without a queue: two waiters, or a waiter and a request that has not come yet.
type Standing struct {
	key  key
	aged bool
}

// StandingOf returns the place of an entry in a class at the instant now. The
// entry need not be queued; of its fields, those the order compares are read.
func StandingOf[T any](spec ClassSpec, e *Entry[T], now int64) Standing {
	return Standing{key: keyOf(spec.Order, e), aged: spec.MaxAge > 0 && now-e.Arrival >= spec.MaxAge}
}

// Before reports whether s goes before other, which stands in the same class at
// the same instant, if both can run.
func (s Standing) Before(other Standing) bool {
	switch {
	case s.key.priority != other.key.priority:
		return s.key.priority > other.key.priority
	case s.aged != other.aged:
		return s.aged
	case s.aged:
		return ageLess(&s.key, &other.key)
	default:
		return orderLess(&s.key, &other.key)
	}
}
