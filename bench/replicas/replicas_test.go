package replicas_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/replicas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	var begun []string
	r, err := replicas.Run(t.Context(), replicas.Settings{
		Replicas: 2, Ranks: 8, Prefill: 5 * time.Millisecond, Each: 200 * time.Millisecond,
		CPU: func() time.Duration { return 0 },
	}, func(what string) { begun = append(begun, what) })
	require.NoError(t, err)
	require.Len(t, begun, 6)
	require.NotEmpty(t, r.Quiet)
	require.NotEmpty(t, r.Busy)
	require.Positive(t, replicas.At(r.Quiet, 0.5))
	require.LessOrEqual(t, replicas.At(r.Quiet, 0.5), replicas.At(r.Quiet, 1))
	require.Positive(t, r.Messages)
	require.Len(t, r.Doubled, 4)
	for _, d := range r.Doubled {
		require.Positive(t, d.Bookings)
		require.LessOrEqual(t, d.Most, int64(2), "as many as there are replicas")
	}
	var text, page strings.Builder
	require.NoError(t, r.WriteText(&text))
	require.Contains(t, text.String(), "visible at a peer")
	require.NoError(t, r.WriteHTML(&page))
	require.Contains(t, page.String(), "<polyline")
	require.NotContains(t, page.String(), "NaN")
}
