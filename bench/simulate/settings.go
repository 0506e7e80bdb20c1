package simulate

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Setting is one way to set up a scheduler.
type Setting struct {
	// Name is a word; About says in a few what is special.
	Name, About string
	// Config is that of the scheduler, but for what a simulation decides itself:
	// block size and selector.
	Config sched.Config
	// Selector makes the selector, nil for the default: some have a state.
	Selector func() selector.Selector
	// EstimatePrefill has the load of a prefill decay while it runs, as long as it
	// would take alone on its rank.
	EstimatePrefill bool
}

// Selectors are settings that differ in how a rank is chosen. No request queues.
func Selectors() []Setting {
	number := func(x float64) *float64 { return &x }
	return []Setting{
		{Name: "kv", About: "the KV cost with its defaults: a cached block saves its tokens"},
		{Name: "kv-credit-0", About: "the same, cached blocks count for nothing", Config: sched.Config{OverlapCredit: number(0)}},
		{Name: "kv-credit-2", About: "the same, cached blocks count twice", Config: sched.Config{OverlapCredit: number(2)}},
		{Name: "kv-decay-1", About: "the same, cached blocks count less where more prefill waits", Config: sched.Config{CreditDecay: 1}},
		{Name: "kv-prefill-4", About: "the same, prefill work counts four times", Config: sched.Config{PrefillScale: number(4)}},
		{Name: "kv-temperature-0.2", About: "the same, drawn from a softmax over the costs", Config: sched.Config{Temperature: 0.2}},
		{Name: "kv-estimate", About: "the same, prefill load decays as it is computed", EstimatePrefill: true},
		{Name: "least-loaded", About: "the rank with the fewest requests", Selector: selector.LeastLoaded},
		{Name: "round-robin", About: "one rank after the other", Selector: selector.RoundRobin},
		{Name: "random", About: "any rank", Selector: selector.Random},
		{Name: "power-of-two", About: "of two ranks at random that with fewer requests", Selector: selector.PowerOfTwo},
	}
}

// Classes are settings that differ in which requests wait for what; ranks are chosen by the
// KV cost. Requests that bring more than so many tokens that are not cached
// are long.
func Classes(long int64) ([]Setting, error) {
	var out []Setting
	for _, s := range []struct{ name, about, classes string }{
		{"queue-0", "one class, first come, first served; a rank is busy as long as it has prefill to do",
			one("prefill_busy_threshold: 0")},
		{"queue-batch", "one class; a rank is busy with more prefill than one batch holds",
			one("prefill_busy_threshold_frac: 1")},
		{"queue-wspt", "as queue-0, least work first",
			one("prefill_busy_threshold: 0, queue_policy: wspt")},
		{"short-long", fmt.Sprintf("as queue-0, two classes: up to %d uncached tokens, and above; quanta 3 : 1", long), fmt.Sprintf(`default_policy_family: all
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: %d, bucket: long}]
policy_classes:
  - {name: short, policy_family: all, cache_bucket: short, quantum: 3072, prefill_busy_threshold: 0}
  - {name: long, policy_family: all, cache_bucket: long, quantum: 1024, prefill_busy_threshold: 0}
`, long+1)},
	} {
		file, err := policy.Parse([]byte(s.classes))
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", s.name, err)
		}
		out = append(out, Setting{Name: s.name, About: s.about, Config: sched.Config{Policy: file}})
	}
	return out, nil
}

// one is a policy of one class.
func one(rules string) string {
	return `default_policy_family: all
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: all, policy_family: all, cache_bucket: any, quantum: 4096, ` + rules + "}\n"
}
