package pool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// TestEveryOrderIsTheQueues: each order that a policy can name is one of the queue,
// and no two are the same.
func TestEveryOrderIsTheQueues(t *testing.T) {
	t.Parallel()
	seen := make(map[queue.Order]policy.Order)
	for order := policy.FCFS; ; order++ {
		if _, err := policy.ParseOrder(order.String()); err != nil {
			break
		}
		class := policy.Class{Name: "c", Family: "f", Bucket: "b", Quantum: 7, Order: order}
		profile, err := policy.New(policy.Config{
			DefaultFamily: "f", Buckets: []policy.Bucket{{Name: "b"}}, Classes: []policy.Class{class},
		})
		require.NoError(t, err)
		specs := pool.ClassSpecs(profile)
		require.Len(t, specs, 1)
		require.NotContains(t, seen, specs[0].Order, order)
		require.Equal(t, int64(7), specs[0].Quantum)
		seen[specs[0].Order] = order
	}
	require.Equal(t, map[queue.Order]policy.Order{
		queue.FCFS: policy.FCFS, queue.LCFS: policy.LCFS, queue.WSPT: policy.WSPT,
	}, seen)
}
