package sched_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Workers that are announced one by one cost what each adds, not the table anew: four
// times as many workers take about four times the memory, and no sixteen times.
func TestAnnouncedOneByOne(t *testing.T) {
	allocated := func(workers int) float64 {
		s := newScheduler(t, sched.Config{Profile: policyOf(t, queueing)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for id := range uint64(workers) {
			require.NoError(t, s.UpsertWorker(sched.Worker{ID: id + 1, Ranks: 1}))
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	require.Less(t, allocated(4_096)/allocated(1_024), 8.0)
}
