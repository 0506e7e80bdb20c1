package sched_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Tied ranks have much the same chance, whatever gaps there are between their
// places in the load index: free ones and those of hidden ranks.
func TestTiedRanksHaveTheSameChance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ranks, drained int
		overlaps       []sched.Overlap
	}{
		"7, scanned":              {ranks: 7},
		"8":                       {ranks: 8},
		"16":                      {ranks: 16},
		"40, 32 of them draining": {ranks: 40, drained: 32},
		"130":                     {ranks: 130},
		"8, nothing cached on 4":  {ranks: 8, overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 4}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScheduler(t, sched.Config{}, sched.WithRand(rand.New(rand.NewPCG(1, 2))))
			addWorkers(t, s, test.ranks)
			for i := range test.drained {
				require.NoError(t, s.DrainWorker(uint64(test.ranks-i)))
			}
			n := test.ranks - test.drained
			const each = 1000
			got := make(map[uint64]int)
			for range n * each {
				p, err := s.Select(t.Context(), &sched.Request{ISL: 100, Overlaps: test.overlaps})
				require.NoError(t, err)
				got[p.Rank.Worker]++
			}
			most, least := 0, n*each
			for w := range uint64(n) {
				most, least = max(most, got[w+1]), min(least, got[w+1])
			}
			if most > each*2 || least < each/2 {
				t.Errorf("of %d tied ranks, one gets %.2f of its share and another %.2f: %v",
					n, float64(most)/each, float64(least)/each, got)
			}
		})
	}
}
