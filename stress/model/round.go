package model

import "slices"

// Round is deficit round robin over the classes: rule 8 of admission.
type Round struct {
	Visiting []int // class indexes in visiting order
	Deficit  []int64
	OnVisit  []bool
}

// NewRound returns a round over n classes.
func NewRound(n int) *Round {
	r := &Round{Deficit: make([]int64, n), OnVisit: make([]bool, n)}
	for c := range n {
		r.Visiting = append(r.Visiting, c)
	}
	return r
}

// Clone returns a copy that shares nothing.
func (r *Round) Clone() *Round {
	return &Round{slices.Clone(r.Visiting), slices.Clone(r.Deficit), slices.Clone(r.OnVisit)}
}

// Nobody is the cost of a class that has no candidate.
const Nobody = 0

// Turn says which class is served, and charges it. costs holds the cost of each
// class's candidate or Nobody, waiting how many wait in it. by names the part of
// the rule that decided. REQUIRES: somebody is a candidate.
func (r *Round) Turn(classes []Class, costs []int64, waiting []int) (class int, by string) {
	class, by = r.turn(classes, costs, waiting)
	r.serve(class, costs, waiting)
	return class, by
}

func (r *Round) turn(classes []Class, costs []int64, waiting []int) (int, string) {
	affordable := func(c int) bool { return costs[c] <= r.Deficit[c] }
	for _, c := range slices.Clone(r.Visiting) {
		switch {
		case !r.OnVisit[c] || costs[c] == Nobody:
		case affordable(c):
			return c, "8a on its visit"
		default:
			r.OnVisit[c] = false
			i := slices.Index(r.Visiting, c)
			r.Visiting = append(slices.Delete(r.Visiting, i, i+1), c)
		}
	}
	for _, c := range r.Visiting {
		switch {
		case waiting[c] == 0:
			r.Deficit[c] = 0
		case costs[c] == Nobody:
		case affordable(c):
			return c, "8b with what it had"
		default:
			r.Deficit[c] += classes[c].Quantum
			if affordable(c) {
				return c, "8b with a quantum"
			}
		}
	}
	rounds := int64(-1)
	for c, cost := range costs {
		if cost != Nobody {
			q := classes[c].Quantum
			n := (cost - r.Deficit[c] + q - 1) / q
			if rounds < 0 || n < rounds {
				rounds = n
			}
		}
	}
	for c, cost := range costs {
		if cost != Nobody {
			r.Deficit[c] += rounds * classes[c].Quantum
		}
	}
	for _, c := range r.Visiting {
		if costs[c] != Nobody && affordable(c) {
			return c, "8c after several rounds"
		}
	}
	panic("nobody is a candidate")
}

// serve charges the class and puts those that stood before it, but for the
// blocked ones, behind those that stood after it.
func (r *Round) serve(class int, costs []int64, waiting []int) {
	r.Deficit[class] = max(0, r.Deficit[class]-costs[class])
	if waiting[class] == 1 {
		r.Deficit[class] = 0
	}
	r.OnVisit[class] = r.Deficit[class] > 0

	at := slices.Index(r.Visiting, class)
	var front, passed []int
	for _, c := range r.Visiting[:at] {
		if waiting[c] > 0 && costs[c] == Nobody {
			front = append(front, c)
		} else {
			passed = append(passed, c)
		}
	}
	after := slices.Clone(r.Visiting[at+1:])
	if r.OnVisit[class] {
		r.Visiting = slices.Concat(front, []int{class}, after, passed)
	} else {
		r.Visiting = slices.Concat(front, after, passed, []int{class})
	}
}

// Empty notes that the last of a class has left.
func (r *Round) Empty(class int) { r.Deficit[class], r.OnVisit[class] = 0, false }
