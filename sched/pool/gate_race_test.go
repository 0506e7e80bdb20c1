package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Load moves from the rank that was read to the one that was not, where the clock
// is read for a load that decays: both look busy though never both were.
func TestExactGateSeesLoadThatMoves(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		f := newFleet(t, shards.Worker{ID: 1, Ranks: 1}, shards.Worker{ID: 2, Ranks: 1})
		b := f.book(rank(1, 0), 1000, time.Hour)
		moved := false
		at := Lazily(func() int64 {
			if !moved {
				moved = true
				from, to := f.shard(rank(1, 0)), f.shard(rank(2, 0))
				shards.LockBoth(from, to)
				from.TransferLocked(b, to, 1000)
				shards.UnlockBoth(from, to)
			}
			return 0
		})
		r := &Request{ISL: 8, Tracked: true, Params: params(), Expected: lifecycle.NoDuration}
		gate := (&Look{}).Gate(f.world, r, classOf(t, f.world, "f-short"), at, exact)
		require.True(t, moved)
		require.Equal(t, !exact, gate.MustWait)
	}
}
