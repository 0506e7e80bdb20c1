package model

import "math"

// Entry is what the order within a class looks at.
type Entry struct {
	Seq      int // arrival order
	Priority uint32
	Due      int64 // ns, NoDue for none
	Arrival  int64 // ns
	Jump     int64 // ns, at least 0
	Cost     int64 // scheduling cost in tokens, at least 1
}

// NoDue is later than every due time.
const NoDue = math.MaxInt64

// Before reports whether a goes before b, both of class c: rule 6 of admission.
func (c *Class) Before(a, b *Entry, now int64) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	switch agedA, agedB := c.aged(a, now), c.aged(b, now); {
	case agedA != agedB:
		return agedA
	case agedA:
		return older(a, b)
	}
	if a.Due != b.Due {
		return a.Due < b.Due
	}
	switch c.Order {
	case "wspt":
		if x, y := perToken(a), perToken(b); x != y {
			return x > y
		}
	case "lcfs":
		if x, y := a.Jump+a.Arrival, b.Jump+b.Arrival; x != y {
			return x > y
		}
	default:
		if x, y := a.Jump-a.Arrival, b.Jump-b.Arrival; x != y {
			return x > y
		}
	}
	return a.Seq < b.Seq
}

func (c *Class) aged(e *Entry, now int64) bool { return c.MaxAge > 0 && now-e.Arrival >= c.MaxAge }

func older(a, b *Entry) bool {
	if a.Arrival != b.Arrival {
		return a.Arrival < b.Arrival
	}
	return a.Seq < b.Seq
}

func perToken(e *Entry) float64 { return float64(1_000_000_000+e.Jump) / float64(e.Cost) }
