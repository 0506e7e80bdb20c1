package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/traffic"
)

// What rule 12, the guard, promises and what it does not, as traffic on every engine.

// onGuardingEngines runs a test on every engine.
func onGuardingEngines(t *testing.T, f func(t *testing.T, run func(traffic.World) map[string]*traffic.Served)) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			f(t, func(w traffic.World) map[string]*traffic.Served {
				served, err := traffic.Run(w, e.New)
				require.NoError(t, err)
				return served
			})
		})
	}
}

// profileWith is a profile of explicit classes beside the default one "loose".
func profileWith(loose string, classes ...string) string {
	text := `
default_policy_family: loose
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: loose, policy_family: loose, cache_bucket: all, quantum: 100` + loose + "}\n"
	for _, c := range classes {
		text += "  - {quantum: 100, " + c + "}\n"
	}
	return text
}

func workers(n int) (all []sched.Worker) {
	for i := range n {
		all = append(all, sched.Worker{ID: uint64(i + 1), Ranks: 1})
	}
	return all
}

// Ranks compute 1000 tokens a second. Loose prompts of 50 tokens come a little faster
// than one rank computes them, so that a rank of a class with a threshold of 100 always
// has 100 tokens or more.
const rate = 1000

func loose(ranks int) traffic.Stream {
	return traffic.Stream{Name: "loose", ISL: 50, Every: 46 * time.Millisecond / time.Duration(ranks)}
}

func strict(class string, every time.Duration) traffic.Stream {
	return traffic.Stream{Name: class, Class: class, ISL: 50, First: time.Second, Every: every, Count: prompts()}
}

// prompts is how many a strict class sends, and span how long the pool is watched: long
// enough for all of them to be served.
func prompts() int {
	if testing.Short() {
		return 6
	}
	return 20
}

func span() time.Duration { return time.Duration(prompts()) * 6 * time.Second }

// age and bound: how long a class waits until it guards, and until it is served then.
const (
	age   = 5 * time.Second
	bound = 7 * time.Second
)

// Without a guard a class with a lower threshold never gets a moment beside steady
// traffic of another; with one it is served within its age and a prompt or two, and
// the other loses hardly anything.
func TestGuardBoundsTheWait(t *testing.T) {
	for name, ranks := range map[string]int{"one rank": 1, "four ranks": 4} {
		t.Run(name, func(t *testing.T) {
			onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
				world := traffic.World{
					Workers: workers(ranks), TokensPerSecond: rate, For: span(),
					Streams: []traffic.Stream{loose(ranks), strict("strict", 5*time.Second)},
				}
				world.Policy = profileWith(", prefill_busy_threshold: 100", "name: strict, prefill_busy_threshold: 0")
				without := run(world)
				require.Zero(t, without["strict"].Granted, "the scenario starves nobody")

				world.Policy = profileWith(", prefill_busy_threshold: 100", "name: strict, prefill_busy_threshold: 0, guard_after: 5")
				with := run(world)
				require.Equal(t, prompts(), with["strict"].Granted)
				require.LessOrEqual(t, with["strict"].Longest, bound)
				require.GreaterOrEqual(t, with["strict"].Longest, age, "served before its age: the guard was not needed")
				require.Greater(t, with["loose"].Tokens, without["loose"].Tokens*97/100)
			})
		})
	}
}

// Three thresholds: each class that is lower than another guards against it.
func TestGuardAmongThreeClasses(t *testing.T) {
	onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
		served := run(traffic.World{
			Policy: profileWith(", prefill_busy_threshold: 200",
				"name: low, prefill_busy_threshold: 0, guard_after: 5", "name: mid, prefill_busy_threshold: 60, guard_after: 5"),
			Workers: workers(1), TokensPerSecond: rate, For: span(),
			Streams: []traffic.Stream{loose(1), strict("low", 5*time.Second), strict("mid", 3*time.Second)},
		})
		for _, class := range []string{"low", "mid"} {
			require.Equal(t, prompts(), served[class].Granted, class)
			require.LessOrEqual(t, served[class].Longest, bound, class)
		}
		require.Positive(t, served["loose"].Granted)
	})
}

// Two classes that both guard, and both flood the pool: each gets its share.
func TestGuardsOfTwoClasses(t *testing.T) {
	onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
		served := run(traffic.World{
			Policy: profileWith(", prefill_busy_threshold: 100, guard_after: 5",
				"name: strict, prefill_busy_threshold: 0, guard_after: 5"),
			Workers: workers(1), TokensPerSecond: rate, For: 60 * time.Second,
			Streams: []traffic.Stream{loose(1), {Name: "strict", Class: "strict", ISL: 50, Every: 46 * time.Millisecond}},
		})
		all := served["loose"].Tokens + served["strict"].Tokens
		require.Greater(t, served["strict"].Tokens, all*2/5)
		require.Greater(t, served["loose"].Tokens, all*2/5)
	})
}

// A waiter that may use one rank guards that one: the others take what they took.
func TestGuardOfAPinnedRequest(t *testing.T) {
	onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
		pinned := strict("strict", 5*time.Second)
		pinned.Pin = &sched.RankID{Worker: 2}
		world := traffic.World{
			Policy:  profileWith(", prefill_busy_threshold: 100", "name: strict, prefill_busy_threshold: 0, guard_after: 5"),
			Workers: workers(2), TokensPerSecond: rate, For: span(),
			Streams: []traffic.Stream{loose(2)},
		}
		alone := run(world)
		world.Streams = append(world.Streams, pinned)
		served := run(world)
		require.Equal(t, prompts(), served["strict"].Granted)
		require.Equal(t, prompts(), served["strict"].On[2])
		require.LessOrEqual(t, served["strict"].Longest, bound)
		require.GreaterOrEqual(t, served["loose"].On[1], alone["loose"].On[1], "rank 1/0 is nobody's to guard")
	})
}

// A prompt whose end nobody ever tells keeps its rank above the threshold for good:
// the guard waits for the others.
func TestGuardBesideALeakedPrefill(t *testing.T) {
	policy := profileWith(", prefill_busy_threshold: 100", "name: strict, prefill_busy_threshold: 0, guard_after: 5")
	leak := traffic.Stream{Name: "leak", ISL: 60, Pin: &sched.RankID{Worker: 1}, Count: 1, Leak: true}
	onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
		world := traffic.World{
			Policy: policy, Workers: workers(2), TokensPerSecond: rate, For: span(),
			Streams: []traffic.Stream{leak, loose(2), strict("strict", 5*time.Second)},
		}
		served := run(world)
		require.Equal(t, prompts(), served["strict"].Granted)
		require.LessOrEqual(t, served["strict"].Longest, bound)
		require.Equal(t, prompts(), served["strict"].On[2])

		// Who insists on that rank waits for ever, and holds up nobody on the other.
		pinned := strict("strict", 5*time.Second)
		pinned.Pin = &sched.RankID{Worker: 1}
		world.Streams = []traffic.Stream{leak, loose(2), pinned}
		served = run(world)
		require.Zero(t, served["strict"].Granted)
		require.Greater(t, served["loose"].On[2], 115*prompts())
	})
}

// Classes that never wait are not bound: a class without a threshold, and one with a
// limit of 0. Beside them nobody's wait is bounded.
func TestGuardDoesNotBindWhoNeverWaits(t *testing.T) {
	for name, free := range map[string]string{
		"without threshold": "", "limit of 0": ", prefill_busy_threshold: 1000, request_queue_limit_per_worker: 0",
	} {
		t.Run(name, func(t *testing.T) {
			onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
				served := run(traffic.World{
					Policy:  profileWith(free, "name: strict, prefill_busy_threshold: 0, guard_after: 5"),
					Workers: workers(1), TokensPerSecond: rate, For: span() / 2,
					Streams: []traffic.Stream{loose(1), strict("strict", 2*time.Second)},
				})
				require.Zero(t, served["strict"].Granted)
				require.Equal(t, served["loose"].Asked, served["loose"].Granted+refused(served["loose"], free))
			})
		})
	}
}

// refused is how many a class with a limit of 0 turned away; the other none.
func refused(s *traffic.Served, keys string) int {
	if keys == "" {
		return 0
	}
	return s.Asked - s.Granted
}

// A new profile applies to who waits: the age counts from the arrival, and a guard
// that is taken away binds nobody any more.
func TestGuardUnderANewProfile(t *testing.T) {
	const plain, guarding = "name: strict, prefill_busy_threshold: 0", "name: strict, prefill_busy_threshold: 0, guard_after: 5"
	onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
		one := strict("strict", time.Second)
		one.Count = 1
		world := traffic.World{
			Policy:  profileWith(", prefill_busy_threshold: 100", plain),
			Workers: workers(1), TokensPerSecond: rate, For: 30 * time.Second,
			Streams: []traffic.Stream{loose(1), one},
			Policies: map[time.Duration]string{
				20 * time.Second: profileWith(", prefill_busy_threshold: 100", guarding),
			},
		}
		served := run(world)
		require.Equal(t, 1, served["strict"].Granted)
		require.InDelta(t, 19, served["strict"].Longest.Seconds(), 0.5)

		world.Policy = profileWith(", prefill_busy_threshold: 100", guarding)
		world.Policies = map[time.Duration]string{5 * time.Second: profileWith(", prefill_busy_threshold: 100", plain)}
		require.Zero(t, run(world)["strict"].Granted)
	})
}

// The policy that docs/tuning.md starts from serves long prompts beside as many short
// ones as the pool can take; without guard_after it served none.
func TestThePolicyOfTheTuningPage(t *testing.T) {
	page, err := os.ReadFile("../docs/tuning.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	require.True(t, found)
	policy, _, _ := strings.Cut(rest, "```")
	unguarded := strings.Replace(policy, "guard_after: 5, ", "", 1)
	require.NotEqual(t, policy, unguarded)

	onGuardingEngines(t, func(t *testing.T, run func(traffic.World) map[string]*traffic.Served) {
		pool := workers(4)
		for i := range pool {
			pool[i].MaxBatchedTokens = 8192
		}
		world := traffic.World{
			Policy: unguarded, Workers: pool, TokensPerSecond: 20_000, For: 30 * time.Second,
			Streams: []traffic.Stream{
				{Name: "short", ISL: 800, Every: 9 * time.Millisecond},
				{Name: "long", ISL: 10_000, First: 8 * time.Second, Every: 3 * time.Second, Count: 3},
			},
		}
		require.Zero(t, run(world)["long"].Granted)
		world.Policy = policy
		served := run(world)
		require.Equal(t, 3, served["long"].Granted)
		require.LessOrEqual(t, served["long"].Longest, bound)
		require.Greater(t, served["short"].Granted, 1500)
	})
}
