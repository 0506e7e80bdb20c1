package queue_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

func TestJump(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]int64{
		0: 0, -1: 0, 1.5: 1_500_000_000, 1e-9: 1, 0.4e-9: 0, 0.6e-9: 1, 1e30: 1 << 62, math.MaxFloat64: 1 << 62,
	} {
		require.Equal(t, want, queue.Jump(seconds), seconds)
	}
}
