package main

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/bench/workload"
)

// mode is one of the ways in which queueing is tried. Requests name a class in
// each; what becomes of that is the policy's affair.
type mode struct {
	name string
	// policy makes the profile from a busy threshold in tokens; nil is none.
	policy func(threshold int64) string
}

var modes = []mode{
	{name: "off"},
	{name: "on", policy: func(threshold int64) string {
		return fmt.Sprintf(`default_policy_family: all
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: all, policy_family: all, cache_bucket: any, quantum: 4096, prefill_busy_threshold: %d}
`, threshold)
	}},
	{name: "mixed", policy: func(threshold int64) string {
		// The live class has no threshold, so that it never has to wait, and a
		// limit of 0, so that it never may.
		return fmt.Sprintf(`default_policy_family: %[2]s
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: %[2]s, policy_family: %[2]s, cache_bucket: any, quantum: 4096, prefill_busy_threshold: %[1]d}
  - {name: %[3]s, quantum: 4096, request_queue_limit_per_worker: 0}
`, threshold, workload.ClassBatch, workload.ClassLive)
	}},
}
