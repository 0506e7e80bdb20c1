package simrank

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHolders(t *testing.T) {
	x := NewHolders(70)
	for rank, blocks := range map[int]int{0: 3, 1: 1, 65: 2, 69: 3} {
		for b := range blocks {
			x.add(rank, uint64(b))
		}
	}
	prompt := []uint64{0, 1, 2, 3}
	require.Equal(t, []Holding{{1, 1}, {65, 2}, {0, 3}, {69, 3}}, x.Best(prompt, 8, 0))
	require.Equal(t, []Holding{{1, 1}, {65, 2}, {69, 3}, {0, 3}}, x.Best(prompt, 8, 1))
	require.Equal(t, []Holding{{0, 3}}, x.Best(prompt, 1, 1))
	require.Equal(t, []Holding{{1, 1}, {65, 1}, {69, 1}, {0, 1}}, x.Best(prompt[:1], 4, 1))
	require.Empty(t, x.Best([]uint64{9}, 8, 0))
	require.Empty(t, x.Best([]uint64{3, 0}, 8, 0), "a prefix begins at the beginning")
	x.remove(0, 1)
	require.Equal(t, []Holding{{0, 1}, {1, 1}, {65, 2}, {69, 3}}, x.Best(prompt, 8, 0))
	for _, rank := range []int{65, 69} {
		x.remove(rank, 1)
	}
	require.NotContains(t, x.mu.holders, uint64(1))
}
