package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func sampleSimulation() *Simulation {
	of := func(ms ...int64) Percentiles {
		out := make([]time.Duration, len(ms))
		for i := range ms {
			out[i] = time.Duration(ms[i]) * time.Millisecond
		}
		return PercentilesOf(out)
	}
	return &Simulation{
		Workload: "some <chat>", Ranks: "2 x 1",
		Settings: []Simulated{
			{
				Name: "kv", About: "by cost & cache", Requests: 4, Completed: 4, FirstToken: of(100, 200, 300, 4000),
				Short: of(100, 200), Long: of(300, 4000), PerToken: of(20, 21), HitShare: 0.655, Balance: 1.07,
			},
			{
				Name: "queue", About: "one class", Requests: 4, Completed: 3, Refused: 1, FirstToken: of(90, 110, 900),
				Short: of(90), Long: of(110, 900), HitShare: 0.654, Balance: 1.5, Queued: 0.5, Waited: of(500, 1500),
			},
			{Name: "refuses", About: "all", Requests: 4, Refused: 4, Leftovers: 2},
		},
	}
}

func TestSimulation(t *testing.T) {
	s := sampleSimulation()
	var text, lines, page bytes.Buffer
	require.NoError(t, s.WriteText(&text))
	golden(t, "simulation.txt", text.Bytes())
	require.NoError(t, s.WriteJSON(&lines))
	golden(t, "simulation.jsonl", lines.Bytes())
	require.NoError(t, s.WriteHTML(&page))
	golden(t, "simulation.html", page.Bytes())
	require.NotContains(t, page.String(), "<chat>")
	for _, outside := range []string{"http://", "https://", "<script", "<link", "src="} {
		require.NotContains(t, page.String(), outside, "needs nothing from elsewhere")
	}
}

func TestAnEmptySimulation(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, new(Simulation).WriteHTML(&page))
	require.NotContains(t, page.String(), "<h2>One by one")
	require.True(t, strings.HasSuffix(page.String(), "</html>\n"))
}
