package sched_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// line is a scheduler of one busy rank on which many wait.
func waitingLine(t *testing.T, n int) (s *sched.Scheduler, now *clock.Manual, leave []context.CancelFunc) {
	now = clock.NewManual(time.Unix(0, 0))
	d := &decisions{}
	s = newScheduler(t, sched.Config{Profile: policyOf(t, queueing)}, sched.WithClock(now), sched.WithDecisionHook(d.hook))
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 7, Ranks: 1, Endpoint: "gpu", Taints: []string{"b", "a"}, TotalKVBlocks: 99}))
	schedule(t, s, sched.Request{ID: "busy", ISL: 64, Blocks: []uint64{1, 2}})
	var waiting sync.WaitGroup
	for i := range n {
		ctx, cancel := context.WithCancel(context.Background())
		leave = append(leave, cancel)
		r := &sched.Request{ID: fmt.Sprint("w", i), ISL: int64(10 + i), Priority: uint32(i % 2)}
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			_, err := s.Schedule(ctx, r)
			assert.Error(t, err)
		}()
		require.Equal(t, sched.DecisionQueued, (<-d.of(r.ID)).Kind)
		now.Advance(time.Second)
	}
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		waiting.Wait()
	})
	return s, now, leave
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	s, _, _ := waitingLine(t, 4)
	require.NoError(t, s.SetOverloaded([]uint64{7}))
	snapshot := s.Snapshot(3)
	require.Equal(t, time.Unix(4, 0), snapshot.At)
	require.Equal(t, "kv", snapshot.Selector)
	require.Equal(t, []sched.RankState{{
		RankLoad: sched.RankLoad{Rank: sched.RankID{Worker: 7}, PrefillTokens: 64, Blocks: 2, Requests: 1, TotalKVBlocks: 99},
		Endpoint: "gpu", Taints: []string{"a", "b"}, Overloaded: true,
		Busy: []sched.ClassBusy{{Class: "f", Above: 0, Busy: true}},
	}}, snapshot.Ranks)
	require.EqualValues(t, 4, snapshot.Stats.Waiting)
	require.Len(t, snapshot.Classes, 1)
	c := snapshot.Classes[0]
	require.Equal(t, "f", c.Name)
	require.EqualValues(t, 4, c.Pending)
	require.EqualValues(t, 10+11+12+13, c.Tokens)
	require.Equal(t, 4*time.Second, c.Oldest)
	require.Equal(t, []sched.Waiter{
		{Request: "w1", Waited: 3 * time.Second, Priority: 1, ISL: 11, Cost: 11, Lane: "any rank"},
		{Request: "w3", Waited: time.Second, Priority: 1, ISL: 13, Cost: 13, Lane: "any rank"},
		{Request: "w0", Waited: 4 * time.Second, ISL: 10, Cost: 10, Lane: "any rank"},
	}, c.Heads)

	data, err := json.Marshal(snapshot)
	require.NoError(t, err)
	var back sched.Snapshot
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, snapshot.Ranks, back.Ranks)
	require.Equal(t, snapshot.Classes, back.Classes)

	require.Empty(t, s.Snapshot(0).Classes[0].Heads)
	require.NoError(t, s.DrainWorker(7)) // with no eligible rank no request waits
	snapshot = s.Snapshot(3)
	require.True(t, snapshot.Ranks[0].Draining)
	require.False(t, snapshot.Ranks[0].Unavailable)
	require.NoError(t, s.UndrainWorker(7))
	require.NoError(t, s.SetAvailable([]uint64{}))
	require.NoError(t, s.Settle(withTimeout(t))) // a helper may answer the last of them
	snapshot = s.Snapshot(3)
	require.True(t, snapshot.Ranks[0].Unavailable)
	require.False(t, snapshot.Ranks[0].Draining)
	require.Empty(t, snapshot.Classes[0].Heads)
	require.NoError(t, s.Close())
	require.True(t, s.Snapshot(1).Closed)
}

// A long line is gone through in pieces, while people leave it: who stays is seen
// once.
func TestSnapshotOfALongLine(t *testing.T) {
	t.Parallel()
	const n = 700
	s, _, leave := waitingLine(t, n)
	var leaving sync.WaitGroup
	leaving.Add(1)
	go func() {
		defer leaving.Done()
		for i := range n {
			if i%3 == 0 {
				leave[i]()
			}
		}
	}()
	for range 20 {
		seen := map[string]int{}
		for _, waiter := range s.Snapshot(math.MaxInt).Classes[0].Heads {
			seen[waiter.Request]++
		}
		for i := range n {
			id := fmt.Sprint("w", i)
			if i%3 != 0 {
				require.Equal(t, 1, seen[id], id)
			} else {
				require.LessOrEqual(t, seen[id], 1, id)
			}
		}
	}
	leaving.Wait()
	require.Eventually(t, func() bool { return s.Stats().Waiting == n-(n+2)/3 }, time.Minute, time.Millisecond)
	require.Equal(t, n-(n+2)/3, len(s.Snapshot(math.MaxInt).Classes[0].Heads))
	require.NoError(t, s.SetProfile(policyOf(t, queueing))) // all are classed anew
	require.NoError(t, s.Settle(withTimeout(t)))
	require.Equal(t, n-(n+2)/3, len(s.Snapshot(math.MaxInt).Classes[0].Heads))
}
