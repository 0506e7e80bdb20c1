package selector

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// ranks returns a candidate for each worker/rank.
func ranks(ids ...lifecycle.RankID) []Candidate {
	cs := make([]Candidate, len(ids))
	for i, id := range ids {
		cs[i].Rank = id
	}
	return cs
}

func TestRoundRobin(t *testing.T) {
	t.Parallel()
	var (
		a = lifecycle.RankID{Worker: 1}
		b = lifecycle.RankID{Worker: 2}
		c = lifecycle.RankID{Worker: 2, Rank: 1}
		d = lifecycle.RankID{Worker: 1 << 63}
	)
	all := ranks(a, b, c, d)
	s := RoundRobin()
	tracker := s.(Tracker)
	pick := func(cs []Candidate) (*Input, Pick, lifecycle.RankID) {
		in := &Input{Candidates: cs, Rand: noRand{t}}
		p, err := s.Pick(in)
		require.NoError(t, err)
		return in, p, cs[p.Index].Rank
	}
	book := func(want lifecycle.RankID, cs []Candidate) {
		t.Helper()
		in, p, got := pick(cs)
		require.Equal(t, want, got)
		require.True(t, tracker.Booked(in, p, got, false))
	}
	next := func(want lifecycle.RankID) {
		t.Helper()
		_, _, got := pick(all)
		require.Equal(t, want, got)
	}

	next(a)
	next(a) // a pick moves nothing
	book(a, all)
	book(b, all)
	book(c, all)
	book(d, all)
	book(a, all)

	book(c, ranks(a, c)) // after a, without b
	book(a, ranks(a, b)) // past the end
	book(d, ranks(d))
	book(b, ranks(b, c)) // the last one booked is not there
	book(b, ranks(b))    // again the same
	next(c)

	assert.True(t, tracker.Booked(nil, Pick{}, a, true), "a pin moves it too")
	next(b)
	assert.True(t, tracker.Booked(nil, Pick{}, lifecycle.RankID{Worker: 2, Rank: 7}, true))
	next(d) // after a rank that no longer is
}

func TestRoundRobinLostRace(t *testing.T) {
	t.Parallel()
	s := RoundRobin()
	tracker := s.(Tracker)
	in := &Input{Candidates: idle(3)}
	first, _ := s.Pick(in)
	second, _ := s.Pick(in)
	require.Equal(t, first.Index, second.Index)
	assert.True(t, tracker.Booked(in, first, in.Candidates[0].Rank, false))
	assert.False(t, tracker.Booked(in, second, in.Candidates[0].Rank, false), "moved meanwhile")
	again, _ := s.Pick(in)
	assert.Equal(t, 1, again.Index, "the loser changed nothing")

	// There and back: what was picked is still next.
	tracker.Booked(in, Pick{}, in.Candidates[2].Rank, true)
	tracker.Booked(in, Pick{}, in.Candidates[0].Rank, true)
	assert.True(t, tracker.Booked(in, again, in.Candidates[1].Rank, false))
}

// However callers race, those who succeed take turns: equal shares, to the one.
func TestRoundRobinConcurrent(t *testing.T) {
	t.Parallel()
	const (
		callers  = 8
		bookings = 30_000
		n        = 6
	)
	s := RoundRobin()
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := make([]int, n)
	for range callers {
		wg.Go(func() {
			in := &Input{Candidates: idle(n)}
			var own [n]int
			for done := 0; done < bookings; {
				p, err := s.Pick(in)
				if err != nil {
					t.Error(err)
					return
				}
				if s.(Tracker).Booked(in, p, in.Candidates[p.Index].Rank, false) {
					own[p.Index]++
					done++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for i, k := range own {
				total[i] += k
			}
		})
	}
	wg.Wait()
	for i, got := range total {
		assert.Equal(t, callers*bookings/n, got, "candidate %d", i)
	}
}

// Pins and picks race: each pick that is booked follows what was before it.
func TestRoundRobinConcurrentForce(t *testing.T) {
	t.Parallel()
	s := RoundRobin()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			in := &Input{Candidates: idle(5)}
			for i := range 2000 {
				p, err := s.Pick(in)
				if err != nil || p.Index < 0 || p.Index >= 5 {
					t.Errorf("pick %+v: %v", p, err)
					return
				}
				force := worker == 0 && i%3 == 0
				if ok := s.(Tracker).Booked(in, p, in.Candidates[p.Index].Rank, force); force && !ok {
					t.Error("a forced booking was refused")
				}
			}
		})
	}
	wg.Wait()
}
