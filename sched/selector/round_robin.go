package selector

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// RoundRobin returns a new selector that takes the candidate after the rank that
// was booked last, in the order of worker, then rank, and the first after the
// end. The rank booked last need not be among the candidates, or exist.
//
// It is a [Tracker]: only Booked moves it. It is a [Confirmer] that says yes:
// the load of a rank is nothing to it. However many callers race, the bookings
// that succeed follow each other in turn, because Booked is a compare-and-swap
// against what Pick saw.
//
// A rank is 96 bits, more than an atomic word, so the state is a pointer to a
// value that never changes. Two atomics under a sequence number would spare the
// allocation, but cannot be compared and swapped as one. Pick costs O(log
// candidates); Booked at most one allocation of 16 bytes, none if the rank stays
// or the race is lost.
func RoundRobin() Selector { return new(roundRobin) }

type roundRobin struct {
	// last is the rank booked last, nil before the first. Written by Booked, read
	// by Pick.
	last atomic.Pointer[lifecycle.RankID]
}

func (s *roundRobin) Pick(in *Input) (Pick, error) {
	n := len(in.Candidates)
	if n == 0 {
		return Pick{}, ErrNoCandidates
	}
	p := Pick{seen: s.last.Load(), RunnerUp: math.Inf(1)}
	if n > 1 {
		p.RunnerUp = 0
	}
	if p.seen != nil {
		i, found := slices.BinarySearchFunc(in.Candidates, *p.seen,
			func(c Candidate, last lifecycle.RankID) int { return c.Rank.Compare(last) })
		if found {
			i++
		}
		p.Index = i % n
	}
	return p, nil
}

// After returns the rank after which s takes the next in turn, nil for the first of
// all, and what it would answer if the candidate at place 0 were that one. It is not ok
// if s is not [RoundRobin]. It is for callers that know the order of the candidates and
// need not list them.
func After(s Selector) (last *RankID, next Pick, ok bool) {
	turn, ok := s.(*roundRobin)
	if !ok {
		return nil, Pick{}, false
	}
	seen := turn.last.Load()
	return seen, Pick{seen: seen, RunnerUp: 0}, true
}

func (s *roundRobin) Confirm(*Input, Pick, Candidate) bool { return true }

func (s *roundRobin) Booked(_ *Input, p Pick, rank lifecycle.RankID, force bool) bool {
	for {
		last := s.last.Load()
		// By value: if the state went elsewhere and came back, the pick is as good
		// as new.
		if !force && last != p.seen && (last == nil || p.seen == nil || *last != *p.seen) {
			return false
		}
		if last != nil && *last == rank {
			return true
		}
		next := new(lifecycle.RankID) // the parameter itself would be allocated always
		*next = rank
		if force {
			s.last.Store(next)
			return true
		}
		if s.last.CompareAndSwap(last, next) {
			return true
		}
	}
}
