package sched_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// The texts stand in testdata/explain; UPDATE=1 writes them anew, to be looked at.
func TestExplanationAsText(t *testing.T) {
	t.Parallel()
	d := &decisions{}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, explained), RequestWeight: 1, Ties: selector.TiesLowest},
		sched.WithDecisionHook(d.hook), sched.WithClock(clock.NewManual(time.Unix(0, 0))))
	require.NoError(t, s.SetWorkers([]sched.Worker{
		{ID: 1, Ranks: 2}, {ID: 2, Ranks: 1, Taints: []string{"fp8"}}, {ID: 3, Ranks: 1}, {ID: 4, Ranks: 1},
	}))
	require.NoError(t, s.SetOverloaded([]uint64{3}))
	require.NoError(t, s.DrainWorker(4))
	schedule(t, s, sched.Request{ID: "a", ISL: 320, Pin: &sched.RankID{Worker: 1}, Blocks: []uint64{1, 2, 3}})
	schedule(t, s, sched.Request{ID: "b", ISL: 900, Pin: &sched.RankID{Worker: 2}})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.Schedule(ctx, &sched.Request{ID: "w", ISL: 10, Pin: &sched.RankID{Worker: 2}})
		left <- err
	}()
	<-d.of("w")

	requireText := func(file string, r *sched.Request) {
		e, err := s.Explain(r)
		require.NoError(t, err)
		path := filepath.Join("testdata", "explain", file)
		if os.Getenv("UPDATE") != "" {
			require.NoError(t, os.WriteFile(path, []byte(e.String()), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), e.String())
	}
	requireText("admitted.txt", &sched.Request{
		ID: "c", ISL: 400, Blocks: []uint64{1, 2, 4}, PreferredTaints: map[string]float64{"fp8": 0.5},
		Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 1}, Device: 4, Host: 8}},
	})
	requireText("queued.txt", &sched.Request{ISL: 100, Allowed: []uint64{2, 3}, Class: "chaat"})
	require.NoError(t, s.SetSelector(fewestBlocks{}))
	requireText("refused.txt", &sched.Request{ID: "d", ISL: 100, RequiredTaints: []string{"fp8"}, DoNotQueue: true})
	leave()
	require.ErrorIs(t, <-left, sched.ErrCanceled)
}

// A large pool is cut to those that matter.
func TestExplanationOfALargePool(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 300)
	schedule(t, s, sched.Request{ID: "busy", ISL: 5, Pin: &sched.RankID{Worker: 1}})
	e, err := s.Explain(&sched.Request{ISL: 10, Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: 222}, Device: 1}}})
	require.NoError(t, err)
	require.Equal(t, sched.RankID{Worker: 222}, *e.Rank)
	require.Len(t, e.Ranks, 300)
	text := e.String()
	require.Contains(t, text, ">  222/0")
	require.Contains(t, text, "  and 260 more\n")
	require.NotContains(t, text, " 1/0") // dearer than the others
}

func TestExplanationAsJSON(t *testing.T) {
	t.Parallel()
	huge := math.MaxFloat64
	s := newScheduler(t, sched.Config{}, sched.WithClock(clock.NewManual(time.Unix(0, 0).UTC())))
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: math.MaxUint64, Ranks: 1, Endpoint: "<a>"}))
	e, err := s.Explain(&sched.Request{ID: "j", ISL: 1000, PrefillScale: &huge, Pin: &sched.RankID{Worker: math.MaxUint64}})
	require.NoError(t, err)
	data, err := json.MarshalIndent(e, "", " ")
	require.NoError(t, err) // though a cost is infinite
	require.JSONEq(t, jsonPinned, string(data))
	var back sched.Explanation
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, e.Rank, back.Rank)

	for _, r := range []*sched.Request{nil, {ISL: -1}, {Jump: math.NaN()}} {
		_, err := s.Explain(r)
		require.ErrorIs(t, err, sched.ErrInvalid)
	}
	e, err = s.Explain(&sched.Request{ISL: 1000, PrefillScale: &huge})
	require.NoError(t, err)
	require.Equal(t, "invalid", e.Code)
}

const jsonPinned = `{
 "request": "j", "at": "1970-01-01T00:00:00Z", "outcome": "admitted", "rank": "18446744073709551615/0",
 "why": "the request is pinned to this rank", "selector": "kv", "isl": 1000, "blocks": 0,
 "line": {"class": "default", "lane": "rank 18446744073709551615/0", "must_wait": false,
  "why": "the class has no busy threshold", "cost": 1000, "cached_tokens": 0, "ahead": 0, "ahead_in_lane": 0},
 "ranks": [{"rank": "18446744073709551615/0", "endpoint": "<a>", "prefill_tokens": 0, "blocks": 0, "requests": 0,
  "eligible": true, "chosen": true, "chance": 1, "chance_known": true, "cached_tokens": 0}],
 "classes": [{"name": "default", "order": "fcfs", "quantum": 1, "pending": 0, "tokens": 0, "cached_tokens": 0, "deficit": 0,
  "can_queue": false, "oldest_ns": 0}]
}`
