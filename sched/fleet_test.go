package sched_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// told counts how often a fleet was told.
type told struct{ times atomic.Int64 }

func (f *told) Changed() { f.times.Add(1) }

func newReplica(t testing.TB, ranks int, opts ...sched.Option) (*sched.Scheduler, *told) {
	t.Helper()
	f := &told{}
	s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing)}, append(opts, sched.WithFleet(f))...)
	addWorkers(t, s, ranks)
	return s, f
}

func caused(worker uint64, prefill, blocks, requests int64, version uint64) sched.CausedLoad {
	return sched.CausedLoad{
		Rank: sched.RankID{Worker: worker}, PrefillTokens: prefill, Blocks: blocks, Requests: requests, Version: version,
	}
}

// What is caused here is returned once, with versions that grow, and told once.
func TestOwnLoads(t *testing.T) {
	t.Parallel()
	s, f := newReplica(t, 4)
	loads, mark := s.OwnLoads(nil, 0)
	require.Empty(t, loads)
	pin := sched.RankID{Worker: 2}
	b, err := s.Schedule(context.Background(), &sched.Request{ID: "a", ISL: 64, Blocks: []uint64{1, 2, 3, 4}, Pin: &pin})
	require.NoError(t, err)
	require.EqualValues(t, 1, f.times.Load())
	require.NoError(t, b.AddOutputBlock())
	require.EqualValues(t, 1, f.times.Load(), "told again before it asked")
	loads, mark = s.OwnLoads(nil, mark)
	require.Len(t, loads, 1)
	require.Equal(t, pin, loads[0].Rank)
	require.EqualValues(t, 64, loads[0].PrefillTokens)
	require.EqualValues(t, 5, loads[0].Blocks)
	require.EqualValues(t, 1, loads[0].Requests)
	first := loads[0].Version
	loads, mark = s.OwnLoads(nil, mark)
	require.Empty(t, loads)
	require.NoError(t, b.PrefillDone())
	require.EqualValues(t, 2, f.times.Load())
	s.SetPeerLoads(1, []sched.CausedLoad{caused(2, 10, 10, 1, 1), caused(3, 10, 10, 1, 1)})
	loads, mark = s.OwnLoads(nil, mark)
	require.Len(t, loads, 1, "what peers cause is not one's own")
	require.Greater(t, loads[0].Version, first)
	require.Zero(t, loads[0].PrefillTokens)
	require.EqualValues(t, 5, loads[0].Blocks)
	require.NoError(t, b.Release())
	loads, mark = s.OwnLoads(nil, mark)
	require.Len(t, loads, 1)
	require.Zero(t, loads[0].Blocks|loads[0].Requests)
	all, _ := s.OwnLoads(nil, 0)
	require.Equal(t, loads, all)
	loads, _ = s.OwnLoads(nil, mark)
	require.Empty(t, loads)
}

// A rank that goes is told to be empty, by a version above all before; one that comes
// in its place has greater ones.
func TestOwnLoadsOfRanksThatGo(t *testing.T) {
	t.Parallel()
	s, _ := newReplica(t, 1)
	_, mark := s.OwnLoads(nil, 0)
	_, err := s.Schedule(context.Background(), &sched.Request{ID: "a", ISL: 64})
	require.NoError(t, err)
	loads, mark := s.OwnLoads(nil, mark)
	require.Len(t, loads, 1)
	version := loads[0].Version
	require.NoError(t, s.RemoveWorker(1))
	loads, mark = s.OwnLoads(nil, mark)
	require.Len(t, loads, 1)
	require.Zero(t, loads[0].PrefillTokens|loads[0].Requests)
	require.Greater(t, loads[0].Version, version)
	version = loads[0].Version
	addWorkers(t, s, 1)
	_, err = s.Schedule(context.Background(), &sched.Request{ID: "b", ISL: 32})
	require.NoError(t, err)
	loads, mark = s.OwnLoads(nil, mark)
	last := loads[len(loads)-1]
	require.EqualValues(t, 32, last.PrefillTokens)
	require.Greater(t, last.Version, version)
	for range 2 {
		loads, mark = s.OwnLoads(nil, mark)
	}
	require.Empty(t, loads)
}

// A prefill that decays is returned again and again until it is over.
func TestOwnLoadsThatFade(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(time.Unix(0, 0))
	s, _ := newReplica(t, 1, sched.WithClock(c))
	second := time.Second
	b, err := s.Schedule(context.Background(), &sched.Request{ID: "a", ISL: 1000, ExpectedPrefill: &second})
	require.NoError(t, err)
	var mark, version uint64
	var loads []sched.CausedLoad
	for _, want := range []int64{1000, 900, 800} {
		loads, mark = s.OwnLoads(loads[:0], mark)
		require.Len(t, loads, 1)
		require.Equal(t, want, loads[0].PrefillTokens)
		require.True(t, loads[0].Fades)
		require.Greater(t, loads[0].Version, version)
		version = loads[0].Version
		c.Advance(second / 10)
	}
	require.NoError(t, b.Release())
	loads, mark = s.OwnLoads(loads[:0], mark)
	require.Len(t, loads, 1)
	require.False(t, loads[0].Fades)
	loads, _ = s.OwnLoads(loads[:0], mark)
	require.Empty(t, loads)
}

// What a peer causes counts as load, apart from one's own where loads are shown.
func TestPeerLoadCounts(t *testing.T) {
	t.Parallel()
	for _, ranks := range []int{2, 100} { // without and with groups in the load index
		s, _ := newReplica(t, ranks)
		loads := make([]sched.CausedLoad, ranks)
		for i := range loads {
			loads[i] = caused(uint64(i+1), 100, 7, 2, 5)
		}
		loads[1].PrefillTokens = 0 // rank 2 is not busy
		s.SetPeerLoads(9, loads)
		e, err := s.Explain(&sched.Request{ISL: 10})
		require.NoError(t, err)
		require.EqualValues(t, 2, e.Rank.Worker)
		require.EqualValues(t, 100, e.Ranks[0].PrefillTokens)
		require.EqualValues(t, 100, e.Ranks[0].Peers.PrefillTokens)
		require.True(t, e.Ranks[0].Busy[0].Busy)
		b, err := s.Schedule(context.Background(), &sched.Request{ID: "a", ISL: 10, DoNotQueue: true})
		require.NoError(t, err)
		require.EqualValues(t, 2, b.Placement().Rank.Worker)
		_, err = s.Schedule(context.Background(), &sched.Request{ID: "b", ISL: 10, DoNotQueue: true})
		require.ErrorIs(t, err, sched.ErrWouldQueue)
		of := s.Loads()[1]
		require.EqualValues(t, 10, of.PrefillTokens)
		require.EqualValues(t, 3, of.Requests)
		require.Equal(t, sched.PeerLoad{Blocks: 7, Requests: 2}, of.Peers)
		stats := s.Stats()
		require.EqualValues(t, 1, stats.Live)
		require.Len(t, stats.Peers, 1)
		require.Equal(t, ranks, stats.Peers[0].Ranks)
		require.EqualValues(t, 7*ranks, stats.Peers[0].Blocks)
		require.EqualValues(t, 7, s.Snapshot(0).Ranks[0].Peers.Blocks)

		// Old news is ignored; with newer a request that waits runs.
		done := make(chan error, 1)
		go func() {
			_, err := s.Schedule(withTimeout(t), &sched.Request{ID: "c", ISL: 10})
			done <- err
		}()
		untilQueued(t, s, 1)
		s.SetPeerLoads(9, []sched.CausedLoad{caused(1, 0, 0, 0, 5)})
		require.NoError(t, s.Settle(withTimeout(t)))
		require.EqualValues(t, 1, s.Stats().Waiting)
		s.SetPeerLoads(9, []sched.CausedLoad{caused(1, 0, 0, 0, 6)})
		require.NoError(t, <-done)

		// A second peer adds to it; without peers only what is one's own is left.
		s.SetPeerLoads(10, loads)
		require.EqualValues(t, 14, s.Loads()[1].Peers.Blocks)
		s.DropPeer(9)
		s.DropPeer(9)
		require.EqualValues(t, 7, s.Loads()[1].Peers.Blocks)
		s.DropPeer(10)
		for _, l := range s.Loads() {
			require.Zero(t, l.Peers)
		}
		require.EqualValues(t, 1, s.Loads()[1].Requests)
		require.Empty(t, s.Stats().Peers)
	}
}

// A peer's load decays only when it says so, beside one's own that does.
func TestPeerLoadDoesNotDecay(t *testing.T) {
	t.Parallel()
	c := clock.NewManual(time.Unix(0, 0))
	s, _ := newReplica(t, 1, sched.WithClock(c))
	second := time.Second
	_, err := s.Schedule(context.Background(), &sched.Request{ID: "a", ISL: 1000, ExpectedPrefill: &second})
	require.NoError(t, err)
	s.SetPeerLoads(1, []sched.CausedLoad{caused(1, 50, 0, 1, 1)})
	c.Advance(second / 2)
	require.EqualValues(t, 550, s.Loads()[0].PrefillTokens)
	c.Advance(second)
	require.EqualValues(t, 50, s.Loads()[0].PrefillTokens)
	_, err = s.Schedule(context.Background(), &sched.Request{ID: "b", ISL: 1, DoNotQueue: true})
	require.ErrorIs(t, err, sched.ErrWouldQueue)
	s.DropPeer(1)
	_, err = s.Schedule(context.Background(), &sched.Request{ID: "b", ISL: 1, DoNotQueue: true})
	require.NoError(t, err)
}

// A hostile peer harms its own column only, and ranks may come after their load.
func TestPeerLoadsOutOfRange(t *testing.T) {
	t.Parallel()
	s, _ := newReplica(t, 2)
	s.SetPeerLoads(1, []sched.CausedLoad{
		caused(1, math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxUint64),
		caused(2, math.MinInt64, -1, -1, 1), caused(3, 30, 3, 1, 1),
	})
	loads := s.Loads()
	require.EqualValues(t, 1<<40, loads[0].PrefillTokens)
	require.Zero(t, loads[1].PrefillTokens|loads[1].Blocks|loads[1].Requests)
	addWorkers(t, s, 3)
	require.EqualValues(t, 30, s.Loads()[2].PrefillTokens)
	require.NoError(t, s.RemoveWorker(3))
	addWorkers(t, s, 3)
	require.EqualValues(t, 30, s.Loads()[2].PrefillTokens)
	unknown := make([]sched.CausedLoad, 20_000)
	for i := range unknown {
		unknown[i] = caused(uint64(i+100), 1, 1, 1, 1)
	}
	s.SetPeerLoads(1, unknown)
	require.Less(t, s.Stats().Peers[0].Ranks, 5000)
	s.SetPeerLoads(1, []sched.CausedLoad{caused(2, 5, 0, 0, 2)})
	require.EqualValues(t, 5, s.Loads()[1].PrefillTokens, "a known rank always has room")
	s.DropPeer(1)
	for _, l := range s.Loads() {
		require.Zero(t, l.PrefillTokens|l.Blocks|l.Requests)
	}
	(*sched.Scheduler)(nil).SetPeerLoads(1, unknown)
	(*sched.Scheduler)(nil).DropPeer(1)
}

// Two schedulers that tell each other from goroutines of their own, while callers book
// and release and ranks come and go, end with views of exactly zero; and every view on
// the way is one that adds up: no negative load, no requests without.
func TestPeersConserveLoad(t *testing.T) {
	t.Parallel()
	const rounds = 300
	a, _ := newReplica(t, 5)
	b, _ := newReplica(t, 5)
	var work, tell sync.WaitGroup
	stop := make(chan struct{})
	relay := func(from, to *sched.Scheduler) {
		defer tell.Done()
		var mark uint64
		var loads []sched.CausedLoad
		for last := false; ; {
			loads, mark = from.OwnLoads(loads[:0], mark)
			to.SetPeerLoads(7, loads)
			if last {
				return
			}
			select {
			case <-stop:
				last = true
			default:
			}
		}
	}
	tell.Add(2)
	go relay(a, b)
	go relay(b, a)
	for _, s := range []*sched.Scheduler{a, b} {
		work.Add(3)
		for n := range 2 {
			go func() {
				defer work.Done()
				rnd := rand.New(rand.NewPCG(1, uint64(n)))
				for i := range rounds {
					booking, err := s.Schedule(withTimeout(t), &sched.Request{ID: string(rune('a'+n)) + time.Duration(i).String(), ISL: 1 + rnd.Int64N(99)})
					if err != nil {
						continue
					}
					if rnd.IntN(2) == 0 {
						_ = booking.PrefillDone()
						_ = booking.AddOutputBlock()
					}
					_ = booking.Release()
				}
			}()
		}
		go func() {
			defer work.Done()
			for i := range rounds / 10 {
				if i%2 == 0 {
					_ = s.RemoveWorker(5)
				} else {
					_ = s.UpsertWorker(sched.Worker{ID: 5, Ranks: 1})
				}
				for _, l := range s.Loads() {
					if l.PrefillTokens < l.Peers.PrefillTokens || l.Requests < l.Peers.Requests || l.Peers.Requests < 0 {
						t.Errorf("%+v", l)
					}
				}
			}
		}()
	}
	work.Wait()
	close(stop)
	tell.Wait()
	for _, s := range []*sched.Scheduler{a, b} {
		require.NoError(t, s.Settle(withTimeout(t)))
		require.Zero(t, s.Stats().Live)
		for _, l := range s.Loads() {
			require.Zero(t, l.PrefillTokens|l.Blocks|l.Requests|l.Peers.Requests, l)
		}
	}
}

// Without peers and without a fleet nothing is noted and nothing allocated.
func TestNoFleetNoNews(t *testing.T) {
	t.Parallel()
	s := newScheduler(t, sched.Config{})
	addWorkers(t, s, 1)
	_, err := s.Schedule(context.Background(), &sched.Request{ID: "a", ISL: 1})
	require.NoError(t, err)
	loads, mark := s.OwnLoads(nil, 0)
	require.Empty(t, loads)
	require.Zero(t, mark)
}
