package kvevents_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents"
	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents/publish"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// pool is eight simulated engines with a scheduler before them.
type pool struct {
	t       *testing.T
	s       *sched.Scheduler
	x       *kvevents.Index
	engines [8]*engine
	net     network
	pubs    [8]*publish.Publisher
	sent    [8]map[uint64]bool // what one would guess: all that was ever sent there
}

// overlapsOf are the ways to know what is cached.
var overlapsOf = map[string]func(p *pool, prompt []uint32, blocks []uint64) []sched.Overlap{
	"events": func(p *pool, _ []uint32, blocks []uint64) []sched.Overlap { return p.x.Overlaps(nil, blocks) },
	"oracle": func(p *pool, prompt []uint32, _ []uint64) (all []sched.Overlap) {
		for i, e := range p.engines {
			all = append(all, sched.Overlap{Rank: sched.RankID{Worker: uint64(i)}, Device: float64(e.overlap(prompt) / 4)})
		}
		return all
	},
	"guess": func(p *pool, _ []uint32, blocks []uint64) (all []sched.Overlap) {
		for i, sent := range p.sent {
			n := 0
			for n < len(blocks) && sent[blocks[n]] {
				n++
			}
			all = append(all, sched.Overlap{Rank: sched.RankID{Worker: uint64(i)}, Device: float64(n)})
		}
		return all
	},
	"none": func(*pool, []uint32, []uint64) []sched.Overlap { return nil },
}

// hits routes requests whose prompts share beginnings and returns which part of their
// blocks the engine had. Each runs on while the next eight come; events are a few
// requests late. With cut, no engine is heard any more from the first request on.
func hits(t *testing.T, how string, cut bool) (rate float64) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{t: t, x: newIndex(t, kvevents.Config{})}
		p.x.DialWith(p.net.dial)
		var err error
		p.s, err = sched.New(sched.Config{BlockSize: 4}, sched.WithRand(rand.New(rand.NewPCG(9, 9))))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var following sync.WaitGroup
		for i := range p.engines {
			require.NoError(t, p.s.UpsertWorker(sched.Worker{ID: uint64(i), Ranks: 1}))
			p.engines[i] = newEngine(uint64(i), 4, i, 200)
			p.engines[i].lru = true
			p.pubs[i] = publish.New(10_000)
			p.sent[i] = make(map[uint64]bool)
			at := fmt.Sprintf("e%d", i)
			p.net.set(at, p.pubs[i])
			following.Go(func() {
				err := p.x.Follow(ctx, kvevents.Source{
					Rank: sched.RankID{Worker: uint64(i)}, Events: "tcp://" + at + ":1", Replay: "tcp://" + at + ":2",
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if cut {
			for _, pub := range p.pubs {
				pub.Close()
			}
			time.Sleep(seconds(6))
		}
		r := rand.New(rand.NewPCG(5, 5))
		var running []*sched.Booking
		cached, asked := 0, 0
		for n := range 1200 {
			prompt := append(tokens(1000*r.IntN(40), 64), tokens(r.IntN(60_000), 32)...)
			blocks := p.x.Hashes(nil, kvevents.Namespace{}, prompt)
			b, err := p.s.Schedule(ctx, &sched.Request{
				ID: fmt.Sprint(n), ISL: int64(len(prompt)), Blocks: blocks, Overlaps: overlapsOf[how](p, prompt, blocks),
			})
			require.NoError(t, err)
			require.NoError(t, b.PrefillDone())
			if running = append(running, b); len(running) > 8 {
				require.NoError(t, running[0].Release())
				running = running[1:]
			}
			to := b.Placement().Rank.Worker
			cached += p.engines[to].overlap(prompt) / 4
			asked += len(blocks)
			events := p.engines[to].run(prompt)
			p.pubs[to].Publish(encode(t, array{float64(n), append(array{}, events...), 0}))
			for _, block := range blocks {
				p.sent[to][block] = true
			}
			if n%2 == 0 {
				synctest.Wait()
			}
		}
		for _, b := range running {
			require.NoError(t, b.Release())
		}
		cancel()
		following.Wait()
		for _, pub := range p.pubs {
			pub.Close()
		}
		require.NoError(t, p.s.Close())
		rate = float64(cached) / float64(asked)
	})
	return rate
}

// TestRoutingByEvents: with events requests find nearly what they would if the scheduler
// read the engines' caches, and more than with guesses. When no event comes any more they
// fare as without.
func TestRoutingByEvents(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it looks at rates, not at what is concurrent")
	}
	oracle, events, guess, none := hits(t, "oracle", false), hits(t, "events", false), hits(t, "guess", false), hits(t, "none", false)
	cut := hits(t, "events", true)
	t.Logf("blocks found: oracle %.3f, events %.3f, guess %.3f, none %.3f, events that were cut %.3f", oracle, events, guess, none, cut)
	require.GreaterOrEqual(t, events, 0.97*oracle)
	require.GreaterOrEqual(t, events, guess)
	require.Greater(t, events, none)
	require.InDelta(t, none, cut, 1e-9)
}
