package explore_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/internal/explore"
)

// counters are two that are each raised to 2, in any order.
type counters [2]int

func raise(s counters) (out []explore.Move[counters]) {
	for i, label := range []string{"left", "right"} {
		if to := s; to[i] < 2 {
			to[i]++
			out = append(out, explore.Move[counters]{Label: label, To: to})
		}
	}
	return out
}

func TestAllVisitsEveryStateOnce(t *testing.T) {
	t.Parallel()
	asked := map[counters]int{}
	states, err := explore.All(counters{}, raise, func(s counters, terminal bool) error {
		asked[s]++
		require.Equal(t, s == counters{2, 2}, terminal, s)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 9, states)
	require.Len(t, asked, states)
	for s, times := range asked {
		require.Equal(t, 1, times, s)
	}
}

func TestAllTellsTheShortestWayToAFault(t *testing.T) {
	t.Parallel()
	fault := errors.New("the right one is at 2")
	_, err := explore.All(counters{}, raise, func(s counters, _ bool) error {
		if s[1] == 2 {
			return fault
		}
		return nil
	})
	require.ErrorIs(t, err, fault)
	require.EqualError(t, err, "the right one is at 2, after 2 steps:\n  right\n  right")
}
