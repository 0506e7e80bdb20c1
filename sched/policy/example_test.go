package policy_test

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

func ExampleParse() {
	file, err := policy.Parse([]byte(`
default_policy_family: interactive
uncached_isl_buckets:
  - {min_tokens: 0, bucket: short}
  - {min_tokens: 4096, bucket: long}
policy_classes:
  - {name: short, policy_family: interactive, cache_bucket: short, quantum: 4096}
  - {name: long, policy_family: interactive, cache_bucket: long, quantum: 1024, prefill_busy_threshold_frac: 1.5}
  - {name: probe, quantum: 1}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := file.For("some/model")
	for _, asked := range []string{"", "probe"} {
		c := p.Class(p.Classify(asked, 5000))
		above, ok := c.BusyAbove(8192)
		fmt.Println(c.Name, above, ok)
	}
	// Output:
	// long 12288 true
	// probe 0 false
}

func ExampleConfigErrors() {
	_, err := policy.Parse([]byte(`
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - name: f
    policy_family: f
    cache_bucket: all
    quantum: 0
    busy_worker_ratio: 95
`))
	fmt.Println(err)
	// Output:
	// invalid policy: line 8: policy_classes[0].quantum: "0": must be greater than 0
	// invalid policy: line 9: policy_classes[0].busy_worker_ratio: "95": must be greater than 0 and at most 1
}

func ExampleNew() {
	threshold := int64(8192)
	p, err := policy.New(policy.Config{
		DefaultFamily: "all",
		Buckets:       []policy.Bucket{{MinTokens: 0, Name: "any"}},
		Classes: []policy.Class{{
			Name: "all", Family: "all", Bucket: "any",
			Order: policy.WSPT, Quantum: 1, BusyThreshold: &threshold,
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Len(), p.CanQueue(), p.Class(0).MustWait(2, 3), p.Class(0).MustWait(3, 3))
	// Output: 1 true false true
}
