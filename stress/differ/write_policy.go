package differ

import (
	"fmt"
	"strings"
)

// badPolicies are refused whole.
var badPolicies = []string{
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 1, bucket: all}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 1}]",
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 0}]",
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 1, busy_worker_ratio: 0.5}]",
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}, {min_tokens: 9, bucket: big}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 1}]",
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 1}, {name: f, quantum: 1}]",
	"default_policy_family: f\ndefault_policy_family: f",
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 1, choose_from: idle}]",
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 1, max_requests_per_rank: 1, guard_after: 1}]",
	"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes: [{name: c, policy_family: f, cache_bucket: all, quantum: 1, endpoint_wait: 1e10}]",
	"quanta: 1",
}

// sections are of other parts of Dynamo; the router's says what cached blocks are worth.
var sections = []string{
	"router: {host_cache_hit_weight: 0.5, overlap_score_credit: 7}", "router: {disk_cache_hit_weight: 0.5}",
	"worker_selection: {policy: x}", "request_classifier: [x]",
}

// policy writes a policy with one or two families, one or two buckets and some
// explicit classes. Most classes have a threshold that a request or two exceed,
// so that requests come to wait.
func (w *writer) policy() []string {
	w.asks = []string{"", "f", "nobody"}
	buckets := []string{"all"}
	var lines []string
	if w.chance(5) {
		lines = append(lines, pick(w.dice, sections...))
	}
	lines = append(lines, "default_policy_family: f", "uncached_isl_buckets:", "  - {min_tokens: 0, bucket: all}")
	if w.chance(25) {
		buckets = append(buckets, "big")
		lines = append(lines, fmt.Sprintf("  - {min_tokens: %d, bucket: big}", pick(w.dice, 33, 64, 100)))
	}
	lines = append(lines, "policy_classes:")
	families := append([]string{"f"}, some(w.dice, 75, "g")...)
	for _, family := range families {
		for _, bucket := range buckets {
			name := family + "-" + bucket
			lines = append(lines, w.class(name, fmt.Sprintf("policy_family: %s, cache_bucket: %s, ", family, bucket)))
		}
	}
	w.asks = append(w.asks, families[1:]...)
	for _, name := range some(w.dice, 50, "x", "y") {
		lines = append(lines, w.class(name, ""))
		w.asks = append(w.asks, name)
	}
	return lines
}

func (w *writer) class(name, cell string) string {
	keys := []string{fmt.Sprintf("  - {name: %s, %squantum: %d", name, cell, pick(w.dice, 1, 5, 16, 40, 100, 1000))}
	add := func(percent int, key string, values ...any) bool {
		if !w.chance(percent) {
			return false
		}
		keys = append(keys, fmt.Sprintf("%s: %v", key, pick(w.dice, values...)))
		return true
	}
	add(75, "queue_policy", "fcfs", "lcfs", "wspt", "wspt")
	gated := add(85, "prefill_busy_threshold", 0, 0, 0, 10, 32, 64, 100)
	gated = add(25, "prefill_busy_threshold_frac", 0, 0.25, 0.5, 1, 1.5) || gated
	guard := gated
	gated = add(20, "max_requests_per_rank", 1, 2, 2, 3) || gated
	gated = add(15, "kv_busy_threshold_frac", 0, 0.25, 0.5, 1) || gated
	if gated {
		ratio := add(20, "busy_worker_ratio", 0.2, 0.34, 0.5, 0.75, 1)
		add(30, "choose_from", "idle", "idle", "eligible")
		if guard && !ratio {
			add(60, "guard_after", 0.1, 0.5, 0.5, 1, 3)
		}
	}
	add(30, "endpoint_wait", 0, 0.5, 1, 2.5, 6)
	add(35, "max_queue_age", 0.5, 0.5, 1, 2)
	add(25, "request_queue_limit_per_worker", 2, 3, 6, 6, 1, 0)
	add(10, "raw_isl_token_queue_limit_per_worker", 300, 600, 100, 40, 0)
	add(10, "cached_token_queue_limit_per_worker", 16, 16, 48, 0)
	return strings.Join(keys, ", ") + "}"
}
