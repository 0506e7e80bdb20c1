package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const starves = " is lower than that of another class, whose requests may keep every rank above it, " +
	"so that this class waits without bound: guard_after bounds that"

// Whoever bounds a line that nobody ever stands in is told.
func TestParseWarnsOfWhatNeverApplies(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string][]string{
		"quantum: 1": nil,
		"quantum: 1\n    request_queue_limit_per_worker: 0":                                nil, // never waits, as asked
		"quantum: 1\n    request_queue_limit_per_worker: 9\n    prefill_busy_threshold: 1": nil,
		"quantum: 1\n    request_queue_limit_per_worker: 9\n    max_requests_per_rank: 1":  nil,
		"quantum: 1\n    request_queue_limit_per_worker: 9\n    kv_busy_threshold_frac: 1": nil,
		"quantum: 1\n    max_queue_age: 9\n    endpoint_wait: 1":                           nil,
		"request_queue_limit_per_worker: 9\n    quantum: 1\n    max_queue_age: 2": {
			"line 9: policy_classes[0].max_queue_age " + neverWaits,
			"line 7: policy_classes[0].request_queue_limit_per_worker " + neverWaits,
		},
		"raw_isl_token_queue_limit_per_worker: 9\n    quantum: 1\n    cached_token_queue_limit_per_worker: 1": {
			"line 7: policy_classes[0].raw_isl_token_queue_limit_per_worker " + neverWaits,
			"line 9: policy_classes[0].cached_token_queue_limit_per_worker " + neverWaits,
		},
		"quantum: 1\n    prefill_busy_threshold: 1\n    request_queue_limit_per_worker: 0\n    guard_after: 1\n    endpoint_wait: 1": {
			"line 10: policy_classes[0].guard_after " + neverQueues,
			"line 11: policy_classes[0].endpoint_wait " + neverQueues,
		},
	} {
		f, err := Parse([]byte(block(keys)))
		require.NoError(t, err)
		require.Equal(t, want, f.Warnings, keys)
	}
}

// TestParseWarnsOfSurprises: the shapes of a policy that do what their author rarely
// means. Classes stand on the lines from 4 on.
func TestParseWarnsOfSurprises(t *testing.T) {
	t.Parallel()
	const (
		gate = ".prefill_busy_threshold is a gate and no cap: while another rank is free, a busy one may still be chosen; choose_from: idle makes it one prompt at a time"
		age  = ".max_queue_age orders requests within the class alone: it bounds no wait among classes whose prefill thresholds differ, guard_after does"
		low  = ".prefill_busy_threshold" + starves
		frac = ".prefill_busy_threshold_frac" + starves
	)
	at := func(class int, says string) string {
		return fmt.Sprintf("line %d: policy_classes[%d]%s", 4+class, class, says)
	}
	for name, tc := range map[string]struct {
		classes []string
		want    []string
	}{
		"equal":          {[]string{"prefill_busy_threshold: 9", "prefill_busy_threshold: 9, max_queue_age: 1"}, nil},
		"no class waits": {[]string{"", ""}, nil},
		"zero":           {[]string{"prefill_busy_threshold: 0"}, []string{at(0, gate)}},
		"zero, idle":     {[]string{"prefill_busy_threshold: 0, choose_from: idle"}, nil},
		"zero fraction": {[]string{"prefill_busy_threshold: 5, prefill_busy_threshold_frac: 0"},
			[]string{at(0, strings.Replace(gate, "threshold", "threshold_frac", 1))}},
		"lower":           {[]string{"prefill_busy_threshold: 1", "prefill_busy_threshold: 2"}, []string{at(0, low)}},
		"lower, guarding": {[]string{"prefill_busy_threshold: 1, guard_after: 5", "prefill_busy_threshold: 2"}, nil},
		"beside a cap":    {[]string{"prefill_busy_threshold: 1", "max_requests_per_rank: 2"}, []string{at(0, low)}},
		// Nobody's guard binds these, so no key would help.
		"beside one without threshold": {[]string{"prefill_busy_threshold: 1", ""}, nil},
		"beside one that never queues": {[]string{"prefill_busy_threshold: 1", "prefill_busy_threshold: 2, request_queue_limit_per_worker: 0"}, nil},
		"three":                        {[]string{"prefill_busy_threshold: 2", "prefill_busy_threshold: 3", "prefill_busy_threshold: 1, guard_after: 1"}, []string{at(0, low)}},
		"with a ratio": {[]string{"prefill_busy_threshold: 1, busy_worker_ratio: .5", "prefill_busy_threshold: 2"},
			[]string{at(0, low+", and needs a class without busy_worker_ratio")}},
		"fractions":            {[]string{"prefill_busy_threshold_frac: 1.5", "prefill_busy_threshold_frac: 1"}, []string{at(1, frac)}},
		"fraction and tokens":  {[]string{"prefill_busy_threshold_frac: 1", "prefill_busy_threshold: 8192"}, []string{at(0, frac), at(1, low)}},
		"fraction within both": {[]string{"prefill_busy_threshold_frac: 1", "prefill_busy_threshold: 8192, prefill_busy_threshold_frac: 1"}, []string{at(1, low)}},
		"age of the lower":     {[]string{"prefill_busy_threshold: 1, max_queue_age: 3", "prefill_busy_threshold: 2"}, []string{at(0, low), at(0, age)}},
		"age of the higher":    {[]string{"prefill_busy_threshold: 1", "prefill_busy_threshold: 2, max_queue_age: 3"}, []string{at(0, low), at(1, age)}},
		"age and guard":        {[]string{"prefill_busy_threshold: 1, max_queue_age: 3, guard_after: 5", "prefill_busy_threshold: 2, max_queue_age: 3"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			b.WriteString("default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes:\n")
			for i, keys := range tc.classes {
				cell := ""
				if i == 0 {
					cell = "policy_family: f, cache_bucket: all, "
				}
				fmt.Fprintf(&b, "  - {name: c%d, quantum: 1, %s%s}\n", i, cell, keys)
			}
			f, err := Parse([]byte(b.String()))
			require.NoError(t, err)
			require.Equal(t, tc.want, f.Warnings)
		})
	}
}

// TestParseDynamo16: the sections that a file of Dynamo 1.6 has, alone and beside a
// profile, make no file invalid, whatever is in them.
func TestParseDynamo16(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/router-policy-1.6.yaml")
	require.NoError(t, err)
	f, err := Parse(text)
	require.NoError(t, err)
	require.Nil(t, f.Root)
	require.Equal(t, Default(), f.For("any"))
	require.Equal(t, 0.5, *f.HostCacheHitWeight)
	require.Equal(t, 0.0, *f.DiskCacheHitWeight)
	require.Equal(t, []string{
		"line 3: router.overlap_score_credit is not taken over: set Config.OverlapCredit",
		"line 4: router.router_temperature is not taken over: set Config.Temperature",
		"line 7: router.use_kv_events is not taken over: give the overlap of each request in Request.Overlaps",
		"line 8: router.conditional_disagg_enabled is not taken over: make a scheduler for each stage, see Config.Role, and decide before the call which stages a request takes",
		"line 9: router.brand_new is not taken over: nothing here does what it does there",
		"line 12: request_classifier (type, parameters) is not taken over: name the class in Request.Class before the call",
		"line 16: worker_selection (policy) is not taken over: set Config.Selector; selector.Compose makes one of one's own",
	}, f.Warnings)

	both, err := Parse(append(text, block("quantum: 1")...))
	require.NoError(t, err)
	require.NotNil(t, both.Root)
	require.Equal(t, f.Warnings, both.Warnings)

	for text, want := range map[string]string{
		"router: 3":                                 "line 1: router is not taken over: it is no mapping",
		"router: {host_cache_hit_weight: -1}":       "line 1: router.host_cache_hit_weight is not taken over: it must be finite and not negative",
		"router: {host_cache_hit_weight: .inf}":     "line 1: router.host_cache_hit_weight is not taken over: it must be finite and not negative",
		"router: {disk_cache_hit_weight: much}":     "line 1: router.disk_cache_hit_weight is not taken over: it must be a number, not a string",
		"router: {[a]: 1}":                          "line 1: router. is not taken over: nothing here does what it does there",
		"request_classifier: [1]":                   "line 1: request_classifier is not taken over: name the class in Request.Class before the call",
		"worker_selection: {a: 1, a: 2}":            "line 1: worker_selection (a, a) is not taken over: set Config.Selector; selector.Compose makes one of one's own",
		"router: {}":                                "",
		"router: ~":                                 "",
		"router: {overlap_score_credit: ~}":         "",
		"router: {router_host_cache_hit_weight: 1}": "",
	} {
		f, err := Parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, strings.Join(f.Warnings, "\n"), text)
	}
}
