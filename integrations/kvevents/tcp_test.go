package kvevents_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents/publish"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestManyRanksOverTCP: eight engines on real connections, cut while
// they publish and while requests look up (seldom, as three gaps make for a rest); once they rest, the index knows what they hold.
func TestManyRanksOverTCP(t *testing.T) {
	t.Parallel()
	x := newIndex(t, kvevents.Config{Audit: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var running, looking sync.WaitGroup
	prompt := tokens(0, 256)
	engines := make([]*engine, 8)
	for i := range engines {
		p := publish.New(100_000)
		t.Cleanup(p.Close)
		events, replay, err := p.Listen("127.0.0.1:0", "127.0.0.1:0")
		require.NoError(t, err)
		e := newEngine(uint64(i), 4, i, 40)
		engines[i] = e
		running.Go(func() {
			require.NoError(t, x.Follow(ctx, kvevents.Source{Rank: sched.RankID{Worker: uint64(i)}, Events: events, Replay: replay}))
		})
		looking.Go(func() {
			for n := range 400 {
				send := p.Publish
				if n == 107 {
					send = p.Lose
				}
				send(encode(t, array{float64(n), append(array{}, e.run(prompt[:4+n%253])...), 0}))
				if n == 250 {
					p.Cut()
				}
				if n%20 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for range 2 {
		looking.Go(func() {
			blocks := x.Hashes(nil, kvevents.Namespace{}, prompt)
			var dst []sched.Overlap
			for range 2000 {
				dst = x.Overlaps(dst[:0], blocks)
			}
		})
	}
	looking.Wait()
	require.Eventually(t, func() bool {
		for i, e := range engines {
			if 4*held(x, sched.RankID{Worker: uint64(i)}, kvevents.Namespace{}, prompt) != e.overlap(prompt) {
				return false
			}
		}
		for _, s := range x.Stats() {
			if s.State != kvevents.Live || s.LastSequence != 399 {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
	cancel()
	running.Wait()
	require.Empty(t, x.Stats())
	require.Zero(t, x.Entries())
}
