package shards_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rank(worker uint64, rank uint32) lifecycle.RankID {
	return lifecycle.RankID{Worker: worker, Rank: rank}
}

// worker returns a worker of two ranks.
func worker(id uint64, taints ...string) shards.Worker {
	return shards.Worker{ID: id, Ranks: 2, Taints: taints}
}

// maker returns a maker of shards, for tables.
func maker(env *shards.Env) func(lifecycle.RankID) *shards.Shard {
	return func(id lifecycle.RankID) *shards.Shard { return shards.NewShard(id, env) }
}

// newEnv returns an environment whose time is at *now.
func newEnv(now *int64) *shards.Env {
	return &shards.Env{Now: func() int64 { return *now }}
}

func timeless() *shards.Env { return newEnv(new(int64)) }

// with adds workers to a table; they must be valid.
func with(t testing.TB, table *shards.Table, env *shards.Env, workers ...shards.Worker) *shards.Table {
	t.Helper()
	next, gone, err := table.With(workers, maker(env))
	if err != nil || len(gone) != 0 {
		t.Fatalf("gone: %v, error: %v", gone, err)
	}
	return next
}

// ranksOf lists the ranks of a table.
func ranksOf(table *shards.Table) string {
	s := ""
	for i := range table.Slots() {
		s += fmt.Sprint(table.Slots()[i].Shard.ID(), " ")
	}
	return s
}

func idsOf(list []*shards.Shard) string {
	s := ""
	for _, shard := range list {
		s += fmt.Sprint(shard.ID(), " ")
	}
	return s
}

// booked books on a shard.
func booked(s *shards.Shard, b *lifecycle.Booking, blocks ...uint64) *lifecycle.Booking {
	s.Lock()
	defer s.Unlock()
	s.BookLocked(b, blocks)
	return b
}

// tokens returns a booking with prefill tokens of no known duration.
func tokens(n int64) *lifecycle.Booking {
	return &lifecycle.Booking{Tokens: n, Tracked: true, Expected: lifecycle.NoDuration}
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 5)) }
