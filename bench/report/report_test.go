package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestTable(t *testing.T) {
	table := NewTable([]string{"off", "on"}, []string{"turnstile", "actor", "actor-direct"})
	table.Cells[0][0] = Cell{
		Ran: true, Requests: 6000, Completed: 6000,
		Wall: 3 * time.Second, CPU: 150 * time.Millisecond,
		Schedule:   Percentiles{P50: 1500, P99: 20_450, Max: 3_000_000},
		FirstToken: Percentiles{P95: 12_345_678 * time.Microsecond},
		MaxWaiting: 12, HitShare: 0.4567, Balance: 1.0449,
	}
	table.Cells[0][1] = Cell{
		Ran: true, Requests: 6000, Completed: 5990, Unscheduled: 10, Leftovers: 3,
		Wall: 60 * time.Second, Schedule: Percentiles{P50: 999_949, P99: 1_500_000, Max: 2_000_000_000},
		FirstToken: Percentiles{P95: 400 * time.Microsecond}, Balance: 16,
	}
	table.Cells[0][2] = Cell{Ran: true, Requests: 6000, CutShort: 6000, Wall: time.Second}
	table.Cells[1][0] = Cell{Ran: true, Requests: 6000, Completed: 7, CutShort: 5993, Wall: time.Second}

	var got bytes.Buffer
	require.NoError(t, table.Write(&got))
	golden := filepath.Join("testdata", "table.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestPercentiles(t *testing.T) {
	require.Equal(t, Percentiles{}, PercentilesOf(nil))
	require.Equal(t, Percentiles{5, 5, 5, 5}, PercentilesOf([]time.Duration{5}))
	var samples []time.Duration
	for i := range 200 {
		samples = append(samples, time.Duration(200-i))
	}
	require.Equal(t, Percentiles{P50: 100, P95: 190, P99: 198, Max: 200}, PercentilesOf(samples))
}

func TestNumbers(t *testing.T) {
	require.Equal(t, "0", grouped(0))
	require.Equal(t, "999", grouped(999))
	require.Equal(t, "-1,000", grouped(-1000))
	require.Equal(t, "-100", grouped(-100))
	require.Equal(t, "12,345,678", grouped(12_345_678))
	require.Equal(t, "9.99", rate(9.99))
	require.Equal(t, "99.9", rate(99.94))
	require.Equal(t, "1,234", rate(1234.4))
}
