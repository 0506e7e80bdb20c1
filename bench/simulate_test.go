package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadSimulateFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-simulate -speed 3 -quick":         "-speed: must not be given with -simulate\n-quick: must not be given with -simulate",
		"-settings kv":                      "-settings: must be given with -simulate only",
		"-policy file":                      "-policy: must be given with -simulate only",
		"-simulate -model m":                "-model: must be given with -policy only",
		"-simulate -settings kv,none":       `-settings "none": must be among kv, kv-credit-0, `,
		"-simulate -decode-batch -1":        "-decode-batch -1: must be 0 or above",
		"-simulate -max-batched 0":          "-max-batched 0: must be 1 or above",
		"-simulate -scenario output":        "-scenario: must not be given with -simulate",
		"-simulate -settings queue-0 extra": `"extra": flags only`,
	} {
		_, errs, code := bench(context.Background(), t, false, engines, strings.Fields(args)...)
		require.Equal(t, exitUsage, code, args)
		require.Contains(t, errs, want, args)
	}
	missing := filepath.Join(t.TempDir(), "none.yaml")
	_, errs, code := bench(context.Background(), t, false, engines, "-simulate", "-policy", missing)
	require.Equal(t, exitFault, code)
	require.Contains(t, errs, "no such file")
}

const ownPolicy = `default_policy_family: any
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: batch, policy_family: any, cache_bucket: all, quantum: 4096, prefill_busy_threshold_frac: 0.5}
  - {name: live, quantum: 4096, prefill_busy_threshold: 0, request_queue_limit_per_worker: 0}
models:
  big:
    default_policy_family: any
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes:
      - {name: all, policy_family: any, cache_bucket: all, quantum: 1}
`

// TestSimulate: all settings and one's own policy; what is printed is the same
// each time, byte for byte.
func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "mine.yaml")
	require.NoError(t, os.WriteFile(own, []byte(ownPolicy), 0o600))
	simulate := func(name string, args ...string) [3]string {
		json, html := filepath.Join(dir, name+".jsonl"), filepath.Join(dir, name+".html")
		args = append([]string{"-simulate", "-requests", "400", "-workers", "4", "-policy", own, "-json", json, "-html", html}, args...)
		out, errs, code := bench(context.Background(), t, false, engines, args...)
		require.Zero(t, code, errs)
		require.Empty(t, errs)
		require.NotContains(t, out, "FAULT")
		lines, err := os.ReadFile(json)
		require.NoError(t, err)
		page, err := os.ReadFile(html)
		require.NoError(t, err)
		return [3]string{out, string(lines), string(page)}
	}
	got := simulate("one")
	require.Equal(t, got, simulate("again"))
	require.NotEqual(t, got[1], simulate("other", "-seed", "2")[1])

	require.Contains(t, got[0], "decode 64 slots of 50 tokens/s (half of it each with 64 more)")
	require.Equal(t, 16, strings.Count(got[1], `"requests":400`))
	require.Equal(t, 15, strings.Count(got[1], `"completed":400,"refused":0`))
	require.Equal(t, 16, strings.Count(got[1], `"leftovers":0`))
	require.Regexp(t, `"setting":"mine","requests":400,"completed":\d+,"refused":[1-9]`, got[1], "live requests may not wait")

	few := simulate("few", "-settings", "round-robin", "-model", "big")
	require.Equal(t, 2, strings.Count(few[1], "\n"), "one's own is always among them")
	require.Regexp(t, `"setting":"mine".*"refused":0.*"queued_share":0,`, few[1])

	// Of one name with a setting that is built in, and with what is ignored.
	named := filepath.Join(dir, "kv.yaml")
	require.NoError(t, os.WriteFile(named, []byte("worker_selection: {}\n"+ownPolicy), 0o600))
	few = simulate("named", "-settings", "kv", "-policy", named)
	require.Regexp(t, `(?s)"setting":"kv",.*"setting":"mine",.*"setting":"kv-2",`, few[1])
	require.Contains(t, few[0], "warning   "+named+": ")

	_, errs, code := bench(context.Background(), t, false, engines, "-simulate", "-policy", own, "-model", "none")
	require.Equal(t, exitFault, code)
	require.Contains(t, errs, `no profile of the model "none"`)
}

func TestSimulateInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out, errs, code := bench(ctx, t, true, engines, "-simulate", "-requests", "100")
	require.Equal(t, exitInterrupted, code)
	require.Contains(t, errs, "interrupted")
	require.NotContains(t, out, "FAULT")
}
