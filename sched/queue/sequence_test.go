package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// sorted is a sequence beside a slice that is sorted anew for each question.
type sorted struct {
	*testing.T
	sequence[string]
	all      []*Entry[string]
	compared int // how often the sequence compared two entries
	seq      uint64
}

func newSorted(t *testing.T) *sorted {
	s := &sorted{T: t}
	s.sequence = sequence[string]{
		before: func(a, b *key) bool { s.compared++; return orderLess(a, b) },
		place:  func(e *Entry[string]) *int { return &e.orderIndex },
	}
	return s
}

func (s *sorted) add(priority uint32) {
	s.seq++
	e := named("", s.seq, func(e *Entry[string]) { e.Priority = priority })
	e.key, e.orderIndex = keyOf(FCFS, e), -1
	s.push(e)
	s.all = append(s.all, e)
}

func (s *sorted) take(i int) {
	e := s.all[i]
	s.all = slices.Delete(s.all, i, i+1)
	s.remove(e)
	s.remove(e) // a second time changes nothing
}

func (s *sorted) check() {
	s.Helper()
	if s.len() != len(s.all) {
		s.Fatalf("%d are in, want %d", s.len(), len(s.all))
	}
	if len(s.all) == 0 {
		return
	}
	first := slices.MinFunc(s.all, func(a, b *Entry[string]) int {
		if orderLess(&a.key, &b.key) {
			return -1
		}
		return 1
	})
	if s.top() != first {
		s.Fatalf("the first is %d, want %d", s.top().Seq, first.Seq)
	}
}

func TestSequenceAgainstSorting(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 15))
		s := newSorted(t)
		for range 4_000 {
			// Now and then one goes before others; now and then it runs empty.
			switch n := rnd.IntN(100); {
			case n < 52-4*int(seed%2):
				s.add(uint32(rnd.IntN(60) / 59))
			case len(s.all) > 0 && n < 75:
				s.take(0)
			case len(s.all) > 0:
				s.take(rnd.IntN(len(s.all)))
			}
			s.check()
		}
		for len(s.all) > 0 {
			s.take(rnd.IntN(len(s.all)))
			s.check()
		}
	}
}

// Those who come in order are added and taken out with a comparison each, wherever
// they stand; and what many needed is let go.
func TestSequenceInOrderIsAList(t *testing.T) {
	t.Parallel()
	const many = 5_000
	s := newSorted(t)
	for range many {
		s.add(0)
	}
	rnd := rand.New(rand.NewPCG(1, 15))
	for len(s.all) > 1 {
		s.take(rnd.IntN(len(s.all)))
	}
	s.check()
	if s.compared > many {
		t.Fatalf("%d comparisons for %d entries", s.compared, many)
	}
	if cap(s.members) > 256 {
		t.Fatalf("room for %d is kept for one", cap(s.members))
	}
	// A list that moves along keeps no more than it needs.
	for range many {
		s.add(0)
		s.take(0)
		s.check()
	}
	if cap(s.members) > 256 || s.compared > 2*many {
		t.Fatalf("room for %d is kept for one, after %d comparisons", cap(s.members), s.compared)
	}
	for range many {
		s.add(0)
	}
	for range 4 * many {
		s.add(0)
		s.take(0)
	}
	if cap(s.members) > 4*many {
		t.Fatalf("room for %d is kept for %d", cap(s.members), many)
	}
}

// One that came out of order makes no difference once all have gone.
func TestSequenceThatRanEmptyIsAList(t *testing.T) {
	t.Parallel()
	s := newSorted(t)
	s.add(0)
	s.add(1)
	s.take(1)
	s.take(0)
	const many = 1_000
	s.compared = 0
	for range many {
		s.add(0)
	}
	for len(s.all) > 0 {
		s.take(0)
	}
	if s.compared > many {
		t.Fatalf("%d comparisons for %d entries", s.compared, many)
	}
}
