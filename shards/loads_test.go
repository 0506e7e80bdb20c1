package shards

import (
	"testing"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// A rank that is hidden while its load decays does not keep the index from use.
func TestHiddenRankDoesNotDisableTheIndex(t *testing.T) {
	t.Parallel()
	env := &Env{Now: func() int64 { return 0 }}
	table, _, err := NewTable().With([]Worker{{ID: 1, Ranks: 128}, {ID: 2, Ranks: 1}}, func(id lifecycle.RankID) *Shard { return NewShard(id, env) })
	if err != nil {
		t.Fatal(err)
	}
	index := table.Reindex(nil, Weights{1, 16, 0})
	table.Shown(index)
	s := table.Slots()[128].Shard
	b := &lifecycle.Booking{ID: "x", Tokens: 10, ISL: 10, Tracked: true, Expected: time.Second}
	s.Lock()
	s.BookLocked(b, nil)
	s.Unlock()
	table, _ = table.WithDraining(2, true)
	index = table.Reindex(index, Weights{1, 16, 0})
	table.Shown(index)
	s.Lock()
	s.ReleaseLocked(b)
	s.Unlock()
	if _, ok := index.Begin(); !ok {
		t.Errorf("nothing decays, but the index is unusable: decaying %d", index.decaying.Load())
	}
}
