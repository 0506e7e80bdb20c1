package simulate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/simrank"
	"github.com/seed-3c5df8a4/turnstile/bench/workload"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chat is a synthetic workload under which 4 ranks have queues now and then.
func chat(requests int) Config {
	list := workload.Generate(workload.Config{Requests: requests, Seed: 3, Block: 64, Rate: 20})
	uncached := workload.Uncached(list, 64)
	cfg := Config{
		Requests: list, Long: make([]bool, requests), Workers: 2, Ranks: 2, MaxBatchedTokens: 2048, MaxOverlaps: 4, Seed: 1,
		Rank: simrank.Config{PrefillRate: 8000, DecodeRate: 50, DecodeSlots: 32, KVBlocks: 2048, Block: 64},
	}
	for i, n := range uncached {
		cfg.Long[i] = n > 500
	}
	return cfg
}

func settings(t *testing.T) []Setting {
	classes, err := Classes(500)
	require.NoError(t, err)
	return append(Selectors(), classes...)
}

// TestTheSameSeedGivesTheSameAnswer, whatever else goes on in the process: the
// runs compared go on at once.
func TestTheSameSeedGivesTheSameAnswer(t *testing.T) {
	t.Parallel()
	for _, setting := range settings(t) {
		t.Run(setting.Name, func(t *testing.T) {
			t.Parallel()
			cfg := chat(600)
			other := make(chan *Result, 1)
			go func() {
				r, _ := Run(context.Background(), &setting, cfg)
				other <- r
			}()
			got, err := Run(context.Background(), &setting, cfg)
			require.NoError(t, err)
			require.Equal(t, got, <-other)

			require.Equal(t, 600, got.Completed)
			require.Zero(t, got.Left)
			require.NoError(t, got.Refusal)
			require.Len(t, got.FirstToken, 600)
			require.Len(t, append(got.Short, got.Long...), 600)
			require.NotEmpty(t, got.Long)
			require.GreaterOrEqual(t, got.Balance, 1.0)
			if strings.Contains(setting.Name, "queue") || setting.Name == "short-long" {
				require.NotEmpty(t, got.Waited)
			} else {
				require.Empty(t, got.Waited)
			}
			for _, d := range got.FirstToken {
				require.Positive(t, d)
			}
			for _, d := range got.PerToken {
				require.GreaterOrEqual(t, d, 19*time.Millisecond, "no faster than a slot decodes")
			}
		})
	}
}

func TestAnotherSeedGivesAnotherAnswer(t *testing.T) {
	t.Parallel()
	random := Selectors()[9]
	require.Equal(t, "random", random.Name)
	cfg := chat(100)
	one, err := Run(context.Background(), &random, cfg)
	require.NoError(t, err)
	cfg.Seed++
	other, err := Run(context.Background(), &random, cfg)
	require.NoError(t, err)
	require.NotEqual(t, one.FirstToken, other.FirstToken)
}

func ofYAML(t *testing.T, rules string) Setting {
	file, err := policy.Parse([]byte(one(rules)))
	require.NoError(t, err)
	return Setting{Name: "own", Config: sched.Config{Policy: file}}
}

// TestByHand: one rank, three requests, each figure worked out on paper.
func TestByHand(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Requests: []workload.Request{
			{At: 0, ISL: 1000, OSL: 11, Blocks: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
			{At: 100 * time.Millisecond, ISL: 1000, OSL: 1, Blocks: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 20}},
			{At: 200 * time.Millisecond, ISL: 500, OSL: 0, Blocks: []uint64{31, 32, 33, 34, 35}},
		},
		Long: []bool{true}, Workers: 1, Ranks: 1, MaxOverlaps: 1,
		Rank: simrank.Config{PrefillRate: 1000, DecodeRate: 10, DecodeSlots: 8, KVBlocks: 100, Block: 100},
	}
	// The first is computed from 0 to 1 s and decoded until 2 s. The second has 900
	// of its tokens in the cache by then, and takes 0.1 s, the third 0.5 s.
	ms := func(of ...int64) []time.Duration {
		out := make([]time.Duration, len(of))
		for i := range of {
			out[i] = time.Duration(of[i]) * time.Millisecond
		}
		return out
	}
	want := &Result{
		Requests: 3, Completed: 3,
		FirstToken: ms(1000, 1000, 1400), Long: ms(1000), Short: ms(1000, 1400), PerToken: ms(100),
		Prompt: 2500, Cached: 900, Balance: 1, End: 2 * time.Second,
	}
	kv := Selectors()[0]
	got, err := Run(context.Background(), &kv, cfg)
	require.NoError(t, err)
	require.Equal(t, want, got)

	// In line they come to the rank at the same times, but what of it is known.
	queue := ofYAML(t, "prefill_busy_threshold: 0")
	got, err = Run(context.Background(), &queue, cfg)
	require.NoError(t, err)
	want.Waited = ms(900, 900)
	require.Equal(t, want, got)

	// Least work first: the scheduler did not know of any cached block when they
	// came, so the third goes before the second.
	shortest := ofYAML(t, "prefill_busy_threshold: 0, queue_policy: wspt")
	got, err = Run(context.Background(), &shortest, cfg)
	require.NoError(t, err)
	require.Equal(t, ms(1000, 1500, 1300), got.FirstToken)

	// With room for one in line the third is refused.
	full := ofYAML(t, "prefill_busy_threshold: 0, request_queue_limit_per_worker: 1")
	got, err = Run(context.Background(), &full, cfg)
	require.NoError(t, err)
	require.Equal(t, 1, got.Refused)
	require.Equal(t, 2, got.Completed)
	require.ErrorIs(t, got.Refusal, sched.ErrQueueFull)
}

// TestTimers: where prefill load is taken to decay, the scheduler's own timer opens
// the gate before the rank says that it is done.
func TestTimers(t *testing.T) {
	t.Parallel()
	cfg := Config{
		Requests: []workload.Request{{ISL: 1000, OSL: 1}, {At: 100 * time.Millisecond, ISL: 1000, OSL: 1}},
		Workers:  1, Ranks: 1,
		Rank: simrank.Config{PrefillRate: 1000, DecodeRate: 10, DecodeSlots: 8, KVBlocks: 100, Block: 100},
	}
	setting := ofYAML(t, "prefill_busy_threshold: 400")
	setting.EstimatePrefill = true
	got, err := Run(context.Background(), &setting, cfg)
	require.NoError(t, err)
	require.Equal(t, []time.Duration{500 * time.Millisecond}, got.Waited, "600 of 1000 tokens take 0.6 s")
}

func TestNothingToSimulate(t *testing.T) {
	t.Parallel()
	kv := Selectors()[0]
	cfg := chat(1)
	cfg.Requests = nil
	got, err := Run(context.Background(), &kv, cfg)
	require.NoError(t, err)
	require.Equal(t, &Result{}, got)
	kv.Config.Temperature = -1
	_, err = Run(context.Background(), &kv, cfg)
	require.ErrorIs(t, err, sched.ErrInvalid)
}

// TestCutShort: whoever waits is sent away, and no goroutine stays.
func TestCutShort(t *testing.T) {
	t.Parallel()
	queue := ofYAML(t, "prefill_busy_threshold: 0")
	ctx, cancel := context.WithCancel(context.Background())
	cfg := chat(600)
	looks := 0
	cfg.Progress = func(int) {
		if looks++; looks == 2 {
			cancel()
		}
	}
	got, err := Run(ctx, &queue, cfg)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, got.Completed, 600)
	require.Zero(t, got.Left)
}

func ExampleRun() {
	cfg := Config{
		Requests: workload.Generate(workload.Config{Requests: 2000, Seed: 1, Block: 64, Rate: 20}),
		Workers:  4, Ranks: 1, MaxOverlaps: 4,
		Rank: simrank.Config{PrefillRate: 6000, DecodeRate: 50, DecodeSlots: 64, KVBlocks: 4096, Block: 64},
	}
	for _, setting := range Selectors() {
		if setting.Name != "kv" && setting.Name != "round-robin" {
			continue
		}
		r, err := Run(context.Background(), &setting, cfg)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %.0f %% of the prompt tokens were in the cache\n", setting.Name, 100*float64(r.Cached)/float64(r.Prompt))
	}
	// Output:
	// kv: 67 % of the prompt tokens were in the cache
	// round-robin: 56 % of the prompt tokens were in the cache
}
