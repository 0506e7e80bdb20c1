package actor

import (
	"context"
	"maps"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
)

// Loads implements engine.Engine. In the direct form the caller reads the
// published loads itself.
func (e *Engine) Loads() []sched.RankLoad {
	if e.config.Direct {
		return e.loads()
	}
	var loads []sched.RankLoad
	_ = e.do(context.Background(), func(*core) { loads = e.loads() })
	return loads
}

func (e *Engine) loads() []sched.RankLoad {
	slots := e.world.Load().Table.Slots()
	loads := make([]sched.RankLoad, len(slots))
	at := pool.Lazily(e.env.Now)
	for i := range slots {
		view := slots[i].Shard.View()
		loads[i] = sched.RankLoad{
			Rank: slots[i].Shard.ID(), PrefillTokens: at.Active(&view.Prefill), Blocks: view.Blocks,
			Requests: view.Requests, TotalKVBlocks: slots[i].Worker.TotalKVBlocks,
		}
	}
	return loads
}

// InLine counts the arrivals that the actor has taken in and that wait.
func (e *Engine) InLine() int64 { return e.waiting.Load() }

// Stats implements engine.Engine. Epochs are the times that the actor came to
// rest.
func (e *Engine) Stats() sched.Stats {
	var s sched.Stats
	_ = e.do(context.Background(), func(c *core) { s = c.stats() })
	return s
}

func (c *core) stats() sched.Stats {
	e := c.e
	w := e.world.Load()
	s := sched.Stats{
		Classes: make([]sched.ClassStats, w.Profile.Len()), Waiting: e.waiting.Load(),
		Admitted: e.admitted.Load(), Queries: e.queries.Load(), Rejected: maps.Clone(c.rejected),
		Expired: c.expired, Dropped: c.dropped, Epochs: c.rests, Retries: c.retries,
	}
	for i := range s.Classes {
		u := c.usage[i]
		s.Classes[i] = sched.ClassStats{
			Name: w.Profile.Class(i).Name, Pending: u.Requests, Tokens: u.Raw, Cached: u.Cached,
			Deficit: c.line.Queue().Deficit(i),
		}
	}
	for shard := range w.Table.Shards {
		s.Live += shard.View().Requests
	}
	if ring := e.env.Hints(); ring != nil {
		s.HintOverflows = ring.Overflows()
	}
	return s
}
