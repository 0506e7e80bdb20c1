package policy

import (
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: no text makes Parse panic, and what it accepts classifies whatever
// it is asked, with every cell of the matrix reachable.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/router-policy.yaml")
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(block("quantum: 0x1")))
	f.Add([]byte("models: {m: &m {" + flow("quantum: 1, busy_worker_ratio: 0.5, prefill_busy_threshold: 0") + "}, n: *m}"))
	f.Add([]byte(block("quantum: !!int '3'\n    max_queue_age: 1e-9\n    prefill_busy_threshold_frac: .5")))
	f.Add([]byte("models: {m: {" + flow("quantum: 1, guard_after: 2, endpoint_wait: 3, choose_from: idle, prefill_busy_threshold: 0, max_requests_per_rank: 4, kv_busy_threshold_frac: 1") + "}}"))
	f.Add([]byte("router: {host_cache_hit_weight: .5, [x]: {}}\nrequest_classifier: {a: b}\nworker_selection: [1]\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a\n? [x]\n: ~\n---\n...\n"))
	f.Add([]byte("# only\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			require.NotEmpty(t, err.Error())
			require.Nil(t, file)
			return
		}
		requireWhole(t, file.For(""))
		for model, p := range file.Models {
			require.NotEmpty(t, model)
			require.Same(t, p, file.For(model))
			requireWhole(t, p)
		}
	})
}

func requireWhole(t *testing.T, p *Profile) {
	t.Helper()
	require.NotNil(t, p)
	cfg := p.Config()
	reached := make([]bool, p.Len())
	families := map[string]bool{"": true, "no such family": true}
	for i, c := range cfg.Classes {
		if c.Family == "" {
			require.Equal(t, i, p.Classify(c.Name, 0))
			reached[i] = true
		} else {
			families[c.Family] = true
		}
		tokens, ok := p.Class(i).BusyAbove(4096)
		require.Equal(t, c.BusyThreshold != nil || c.BusyThresholdFrac != nil, ok)
		require.True(t, c.CanQueue() || !ok)
		blocks, ok := p.Class(i).BlocksAbove(4096)
		require.Equal(t, c.KVBusyThresholdFrac != nil, ok)
		require.False(t, ok && blocks < 0)
		require.False(t, c.GuardAfter > 0 && c.BusyWorkerRatio != 0)
		require.False(t, tokens < 0)
	}
	for name := range families {
		for _, b := range cfg.Buckets {
			i := p.Classify(name, b.MinTokens)
			reached[i] = true
			require.Equal(t, b.Name, cfg.Classes[i].Bucket)
		}
		require.Equal(t, cfg.Buckets[0].Name, cfg.Classes[p.Classify(name, -1)].Bucket)
		require.Equal(t, cfg.Buckets[len(cfg.Buckets)-1].Name, cfg.Classes[p.Classify(name, math.MaxInt64)].Bucket)
	}
	require.NotContains(t, reached, false)
	again, err := New(cfg)
	require.NoError(t, err)
	require.Equal(t, p, again)
}
