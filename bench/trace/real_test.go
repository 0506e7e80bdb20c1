package trace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/bench/workload"
)

// loadReal reads a published trace, or skips the test: traces are not part of
// the repository.
func loadReal(t *testing.T, name string) *Trace {
	path := filepath.Join("..", "..", "..", "shared", "data", name)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no trace at %s", path)
	}
	require.NoError(t, err)
	defer file.Close()
	got, err := Load(file, name, Options{})
	require.NoError(t, err)
	require.Zero(t, got.Bad)
	return got
}

func TestRealMooncake(t *testing.T) {
	got := loadReal(t, "mooncake_conversation.jsonl")
	require.Equal(t, Mooncake, got.Kind)
	sum := workload.Summarize(got.Requests, MooncakeBlock)
	require.Equal(t, 12_031, sum.Requests)
	require.InDelta(t, 12_035, sum.MeanInput(), 0.5)
	require.InDelta(t, 343, sum.MeanOutput(), 0.5)
	require.Equal(t, int64(288_500), sum.BlockRefs)
	require.Equal(t, int64(182_790), sum.DistinctBlocks)
	require.Equal(t, 3_536_999*time.Millisecond, sum.Span)
}

func TestRealAzure(t *testing.T) {
	got := loadReal(t, "azure_llm_conv_2023.csv")
	require.Equal(t, Azure, got.Kind)
	sum := workload.Summarize(got.Requests, MooncakeBlock)
	require.Equal(t, 19_366, sum.Requests)
	day := time.Date(2023, 11, 16, 0, 0, 0, 0, time.UTC)
	require.Equal(t, "18:15:46.68", got.Start.Format("15:04:05.00"))
	require.Equal(t, "19:14:08.40", got.Start.Add(sum.Span).Format("15:04:05.00"))
	require.Equal(t, day, got.Start.Truncate(24*time.Hour))
}
