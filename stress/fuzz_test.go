package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// answers runs a script on an engine and returns the output of each command up to
// the first that is malformed.
func answers(t *testing.T, f *script.File, e engines.Engine) (all []string) {
	r := script.New(e.New)
	defer func() { require.NoError(t, r.Close(), e.Name) }()
	for i := range f.Steps {
		output, err := r.Run(&f.Steps[i].Data)
		if err != nil {
			return append(all, "malformed: "+err.Error())
		}
		all = append(all, output)
	}
	return all
}

// requireAgreement runs a script on several engines, which must all give the same
// outputs.
func requireAgreement(t *testing.T, f *script.File, all []engines.Engine) []string {
	outputs := answers(t, f, all[0])
	for _, e := range all[1:] {
		require.Equal(t, outputs, answers(t, f, e), "%s, against %s", e.Name, all[0].Name)
	}
	return outputs
}

// FuzzScript has any text for a script. Whatever it is, it is parsed or refused,
// run alike by every engine; not by the model, which takes a policy's word for it.
func FuzzScript(f *testing.F) {
	under := newSearch().under
	for _, name := range []string{"availability", "buckets", "transfer_wakes", "one_instant", "failure_06_limit_zero"} {
		text, err := os.ReadFile(ownScripts + "/" + name + ".txt")
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			t.Skip("too long")
		}
		parsed, err := script.Parse("fuzz", strings.NewReader(text))
		if err != nil || len(parsed.Steps) > 40 {
			t.Skip("no script, or too long")
		}
		requireAgreement(t, parsed, under)
	})
}

// FuzzOperations reads bytes as operations on a small scheduler: eight ids, at
// most four ranks and the classes of three policies. Every engine must decide as
// the model does, and in the end, when all is cancelled and released, nothing may
// be left.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("\x00"))
	f.Add([]byte("schedule, release and cancel, then transfer and advance a little"))
	f.Add([]byte("\x01\x00\x00\x04\x00\x00\x01\x04\x01\x00\x02\x04\x00\x06\x01\x07\x00\x05\x02\x08\x03"))
	f.Add([]byte("\x02\x00\x00\x03\x11\x00\x01\x03\x22\x00\x02\x03\x33\x00\x03\x03\x44\x09\x01\x0a\x02\x0b\x01\x06\x00\x06\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text := operations(data)
		parsed, err := script.Parse("fuzz", strings.NewReader(text))
		require.NoError(t, err, text)
		outputs := requireAgreement(t, parsed, engines.All())
		last := outputs[len(outputs)-1]
		require.NotContains(t, last, "malformed", text)
		for line := range strings.Lines(last) {
			require.Contains(t, line, "prefill=0 blocks=0 requests=0", text)
		}
	})
}

// decoder reads choices from bytes, the first ones when it has run out.
type decoder struct{ data []byte }

func (d *decoder) next(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b) % n
}

func (d *decoder) of(choices ...string) string { return choices[d.next(len(choices))] }

func (d *decoder) id() string   { return fmt.Sprintf("id=r%d", d.next(8)) }
func (d *decoder) rank() string { return d.of("1/0", "1/1", "2/0", "3/0", "4/7") }

// fuzzPolicies are one class that queues, several with limits and orders, several
// that may never queue, and several with caps, a guard and a wait for an endpoint.
var fuzzPolicies = [...]string{`
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 10, prefill_busy_threshold: 0}
`, `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: short}, {min_tokens: 50, bucket: long}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: short, quantum: 10, prefill_busy_threshold: 0, request_queue_limit_per_worker: 2}
  - {name: long, policy_family: f, cache_bucket: long, quantum: 30, queue_policy: wspt, prefill_busy_threshold: 60, busy_worker_ratio: 0.5}
  - {name: x, quantum: 25, queue_policy: lcfs, prefill_busy_threshold: 15, max_queue_age: 3}
`, `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 7, prefill_busy_threshold: 25, raw_isl_token_queue_limit_per_worker: 50}
  - {name: x, quantum: 1, prefill_busy_threshold: 0, request_queue_limit_per_worker: 0}
  - {name: u, quantum: 3}
`, `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 10, prefill_busy_threshold: 40, kv_busy_threshold_frac: 0.5, endpoint_wait: 1}
  - {name: x, quantum: 20, prefill_busy_threshold: 0, guard_after: 1, choose_from: idle}
  - {name: u, quantum: 5, max_requests_per_rank: 1, choose_from: idle, endpoint_wait: 2.5}
`}

// operations writes bytes as a script.
func operations(data []byte) string {
	d := &decoder{data}
	var b strings.Builder
	do := func(command, input string) {
		fmt.Fprintf(&b, "%s%s\n----\n\n", command, strings.TrimSuffix(input, "\n"))
	}
	policy := func() string { return fuzzPolicies[d.next(len(fuzzPolicies))] }
	do("new block=16"+d.of("", " ttl=8s", " credit-decay=1", " selector=round-robin", " selector=least-loaded", " role=decode"), policy())
	do("workers", "\nid=1 ranks=2 inc=a\nid=2 taints=(a) kv-blocks=4\nid=3 max-batched=100")
	for n := 0; len(d.data) > 0 && n < 60; n++ {
		switch d.next(14) {
		case 0, 1, 2:
			do("schedule "+d.id()+d.request()+d.of("", "", "", " query"), "")
		case 3:
			do("select id=s"+d.request(), "")
		case 4:
			do("cancel "+d.id(), "")
		case 5:
			do(d.of("prefill-done ", "touch ")+d.id()+d.of("", "", " attempt=1", " attempt=2"), "")
		case 6:
			do("release "+d.id()+d.of("", "", " attempt=1"), "")
		case 7:
			do("transfer "+d.id()+d.of(" to="+d.rank(), " to=best", " to=best allow=(1,3)", " to=best allow=()"), "")
		case 8:
			do("advance by="+d.of("0.5s", "1s", "2.5s", "10s"), "")
		case 9:
			do("output-block "+d.id()+" decay="+d.of("1", "0.5", "0", "0.25"), "")
		case 10:
			do(d.of("worker id=1 ranks=2", "worker id=2 taints=(a)", "worker id=3 ranks=2", "remove-worker id=1",
				"remove-worker id=3", "worker id=1 ranks=2 inc=b", "worker id=1 inc=a", "remove-worker id=1 inc=a",
				"set-aside id=1 for=1s", "set-aside id=2 for=2.5s", "set-aside id=1 for=0s", "set-aside id=3 for=1s inc=a", "drain-worker id=1", "drain-worker id=1 off"), "")
		case 11:
			do(d.of("overloaded ids=()", "overloaded ids=(1)", "overloaded ids=(1,2,3)", "available", "available ids=(1,3)", "available ids=()"), "")
		case 12:
			do("profile", policy())
		case 13:
			do(d.of("queue", "loads", "recheck"), "")
		}
	}
	for _, command := range []string{"cancel", "release"} {
		for i := range 8 {
			do(fmt.Sprintf("%s id=r%d", command, i), "")
		}
	}
	do("queue", "")
	do("loads", "")
	return b.String()
}

// request writes what a request asks for.
func (d *decoder) request() string {
	return d.of(" isl=10", " isl=20", " isl=0", " isl=64", " isl=200") +
		d.of("", "", " class=x", " class=u", " class=long") +
		d.of("", "", " pin="+d.rank(), " allow=(1)", " allow=(2,3)", " exclude=(1)", " taints=(a)", " prefer="+d.rank()) +
		d.of("", "", " prio=1", " jump=2", " due=2s", " due=0.5s") +
		d.of("", "", " no-queue", " no-prefill", " expect=3s", " expect=0s") +
		d.of("", "", " blocks=(1,2)", " blocks=(1,3,4)", " overlap=(1/0:1)", " host=(2/0:2)")
}
