package workload

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var config = Config{Requests: 5000, Seed: 7, Block: 64, Rate: 60}

func TestGenerateIsDecidedByTheSeed(t *testing.T) {
	a, b := Generate(config), Generate(config)
	require.Equal(t, a, b)
	other := config
	other.Seed++
	require.NotEqual(t, a, Generate(other))
}

func TestGenerateShape(t *testing.T) {
	requests := Generate(config)
	require.Len(t, requests, config.Requests)
	require.True(t, slices.IsSortedFunc(requests, func(a, b Request) int { return int(a.At - b.At) }))
	require.Zero(t, requests[0].At)

	sum := Summarize(requests, config.Block)
	rate := float64(sum.Requests) / sum.Span.Seconds()
	require.InDelta(t, config.Rate, rate, 0.25*config.Rate)

	classes := map[string]int{}
	turns := map[int64][]Request{}
	for _, r := range requests {
		require.Positive(t, r.ISL)
		require.Positive(t, r.OSL)
		require.LessOrEqual(t, r.ISL, int64(maxContext))
		require.Len(t, r.Blocks, int(r.ISL/config.Block))
		classes[r.Class]++
		turns[r.Conversation] = append(turns[r.Conversation], r)
	}
	require.Len(t, classes, 2)
	require.InDelta(t, 0.25, float64(classes[ClassLive])/float64(len(requests)), 0.06)
	require.Greater(t, float64(len(requests))/float64(len(turns)), 2.0, "several turns per conversation")

	for _, conversation := range turns {
		for i := 1; i < len(conversation); i++ {
			before, after := conversation[i-1], conversation[i]
			require.Equal(t, before.Blocks, after.Blocks[:len(before.Blocks)], "a turn repeats what was said")
			require.GreaterOrEqual(t, after.ISL, before.ISL+before.OSL)
			require.Equal(t, before.Class, after.Class)
		}
	}

	// The system prompt is shared between conversations.
	firsts := map[uint64]int{}
	for _, conversation := range turns {
		firsts[conversation[0].Blocks[0]]++
	}
	require.LessOrEqual(t, len(firsts), systemPrompts)
	require.Less(t, sum.Uncached, sum.Input/2)
}

func TestGenerateIsBursty(t *testing.T) {
	perSecond := map[time.Duration]int{}
	requests := Generate(config)
	for _, r := range requests {
		perSecond[r.At/time.Second]++
	}
	most := 0
	for _, n := range perSecond {
		most = max(most, n)
	}
	require.Greater(t, float64(most), 1.8*config.Rate)
}

func TestGenerateSmall(t *testing.T) {
	for n := 1; n < 30; n++ {
		require.Len(t, Generate(Config{Requests: n, Seed: uint64(n), Block: 512, Rate: 5}), n)
	}
}

func TestSummarize(t *testing.T) {
	require.Equal(t, Summary{}, Summarize(nil, 10))
	requests := []Request{
		{At: time.Second, ISL: 25, OSL: 1, Blocks: []uint64{1, 2, 3}},
		{At: 2 * time.Second, ISL: 35, OSL: 3, Blocks: []uint64{1, 2, 3}},
		{At: 4 * time.Second, ISL: 30, OSL: 5, Blocks: []uint64{1, 2, 3}},
	}
	sum := Summarize(requests, 10)
	require.Equal(t, Summary{
		Requests: 3, Span: 3 * time.Second, Input: 90, Output: 9, LongestOutput: 5,
		BlockRefs: 9, DistinctBlocks: 3,
		// 25 new; block 3 was not full, so 15 new; then all three are cached.
		Uncached: 40,
	}, sum)
	require.Equal(t, 30.0, sum.MeanInput())
	require.Equal(t, 3.0, sum.MeanOutput())
	require.InDelta(t, 13.33, sum.MeanUncached(), 0.01)
}

func TestAssignClasses(t *testing.T) {
	requests := make([]Request, 4000)
	requests[0].Class = "own"
	AssignClasses(requests, 3)
	require.Equal(t, "own", requests[0].Class)
	live := 0
	for _, r := range requests {
		if r.Class == ClassLive {
			live++
		}
	}
	require.InDelta(t, 1000, live, 150)
}
