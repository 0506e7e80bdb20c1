package policy

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseRealFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/router-policy.yaml")
	require.NoError(t, err)
	f, err := Parse(text)
	require.NoError(t, err)
	require.Equal(t, []string{
		"line 2: worker_selection (prefill, decode, instances) is not taken over: set Config.Selector; selector.Compose makes one of one's own",
		"line 33: policy_classes[1].stages is not taken over: make a scheduler for each stage, see Config.Role",
		"line 37: policy_classes[4].admission is not taken over: name a class in Request.Class, and bound it by its limits",
		"line 22: policy_classes[0].prefill_busy_threshold_frac" + starves,
		"line 30: policy_classes[1].prefill_busy_threshold" + starves + ", and needs a class without busy_worker_ratio",
		"line 34: policy_classes[2].prefill_busy_threshold_frac" + starves,
		"line 35: policy_classes[3].prefill_busy_threshold_frac" + starves,
	}, f.Warnings)

	want := Config{
		DefaultFamily: "standard",
		Buckets:       []Bucket{{0, "cached"}, {4096, "4096"}},
		Classes: []Class{
			{Name: "standard-cached", Family: "standard", Bucket: "cached", Order: WSPT, Quantum: 8192,
				BusyThresholdFrac: ptr(16.0), Limits: Limits{Requests: ptr[int64](128), RawTokens: ptr[int64](1 << 20)}},
			{Name: "standard-uncached", Family: "standard", Bucket: "4096", Quantum: 2048,
				BusyThreshold: ptr[int64](32768), BusyThresholdFrac: ptr(2.0), BusyWorkerRatio: 0.95},
			{Name: "batch-cached", Family: "batch", Bucket: "cached", Quantum: 1024, BusyThresholdFrac: ptr(0.5)},
			{Name: "batch-uncached", Family: "batch", Bucket: "4096", Quantum: 512, BusyThresholdFrac: ptr(0.5)},
			{Name: "agents", Quantum: 4096, BusyThreshold: ptr[int64](math.MaxInt64)},
			{Name: "canary", Quantum: 1, Limits: Limits{Requests: ptr[int64](0)}},
		},
	}
	require.Equal(t, want, f.Root.Config())
	require.Same(t, f.Root, f.For("other"))
	require.Len(t, f.Models, 2)
	small := f.For("meta-llama/Llama-3.1-8B")
	require.Equal(t, "all", small.Class(0).Name)
	require.Same(t, small, f.For("meta-llama/Llama-3.2-3B"), "an alias is the same profile")
}

func TestParseNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\n", "# nothing\n", "---\n", "---\n...\n", "~", "{}",
		"default_policy_family:\npolicy_classes: ~\n", "models:\n", "models: {}\n",
		"worker_selection: ~\n",
	} {
		f, err := Parse([]byte(text))
		require.NoError(t, err, "%q", text)
		require.Nil(t, f.Root)
		require.Empty(t, f.Models)
		require.Empty(t, f.Warnings)
		require.Equal(t, Default(), f.For("m"))
	}
	require.Equal(t, Default(), (*File)(nil).For(""))
}

func TestParseModelsOnly(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(`models: {m: {` + flow("quantum: 1") + `}}`))
	require.NoError(t, err)
	require.Nil(t, f.Root)
	require.Equal(t, "c", f.For("m").Class(0).Name)
	require.Equal(t, "default", f.For("other").Class(0).Name)
	for model, want := range map[string]bool{"m": true, "other": false, "": false} {
		p, found := f.Find(model)
		require.Equal(t, want, found)
		require.Same(t, f.For(model), p)
	}
	_, found := (*File)(nil).Find("m")
	require.False(t, found)
}

// flow is the inside of a profile with one class in flow style, which has the
// given keys.
func flow(class string) string {
	return `default_policy_family: f, uncached_isl_buckets: [{min_tokens: 0, bucket: all}], ` +
		`policy_classes: [{name: c, policy_family: f, cache_bucket: all, ` + class + `}]`
}

// block is a profile with one class in block style; the given line is line 7.
func block(class string) string {
	return "default_policy_family: f\n" +
		"uncached_isl_buckets: [{min_tokens: 0, bucket: all}]\n" +
		"policy_classes:\n" +
		"  - name: c\n" +
		"    policy_family: f\n" +
		"    cache_bucket: all\n" +
		"    " + class + "\n"
}

func TestParseValues(t *testing.T) {
	t.Parallel()
	q := "quantum: 3\n    "
	base := Class{Name: "c", Family: "f", Bucket: "all", Quantum: 3}
	for text, change := range map[string]func(*Class){
		"quantum: 3":                                              func(*Class) {},
		"quantum: +3":                                             func(*Class) {},
		"quantum: 0x1f":                                           func(c *Class) { c.Quantum = 31 },
		"quantum: 0o17":                                           func(c *Class) { c.Quantum = 15 },
		"quantum: 0b11":                                           func(*Class) {},
		"quantum: !!int \"3\"":                                    func(*Class) {},
		"quantum: 9223372036854775807":                            func(c *Class) { c.Quantum = math.MaxInt64 },
		"quantum: 9223372036854775808":                            func(c *Class) { c.Quantum = math.MaxInt64 },
		"quantum: 18446744073709551615":                           func(c *Class) { c.Quantum = math.MaxInt64 },
		"quantum: 3\n    queue_policy: lcfs":                      func(c *Class) { c.Order = LCFS },
		"quantum: 3\n    queue_policy: 'wspt'":                    func(c *Class) { c.Order = WSPT },
		q + "queue_policy:":                                       func(*Class) {},
		q + "prefill_busy_threshold: 0":                           func(c *Class) { c.BusyThreshold = ptr[int64](0) },
		q + "prefill_busy_threshold: null":                        func(*Class) {},
		q + "prefill_busy_threshold_frac: 16.0":                   func(c *Class) { c.BusyThresholdFrac = ptr(16.0) },
		q + "prefill_busy_threshold_frac: 2":                      func(c *Class) { c.BusyThresholdFrac = ptr(2.0) },
		q + "prefill_busy_threshold_frac: 1e-1":                   func(c *Class) { c.BusyThresholdFrac = ptr(0.1) },
		q + "prefill_busy_threshold_frac: .5":                     func(c *Class) { c.BusyThresholdFrac = ptr(0.5) },
		q + "max_queue_age: 6.5":                                  func(c *Class) { c.MaxQueueAge = 6500 * time.Millisecond },
		q + "max_queue_age: 3":                                    func(c *Class) { c.MaxQueueAge = 3 * time.Second },
		q + "max_queue_age: 1e-30":                                func(c *Class) { c.MaxQueueAge = 1 },
		q + "max_queue_age: 9223372036":                           func(c *Class) { c.MaxQueueAge = 9223372036 * time.Second },
		q + "max_requests_per_rank: 2":                            func(c *Class) { c.MaxRequestsPerRank = 2 },
		q + "max_requests_per_rank: 18446744073709551615":         func(c *Class) { c.MaxRequestsPerRank = math.MaxInt64 },
		q + "max_requests_per_rank: ~":                            func(*Class) {},
		q + "kv_busy_threshold_frac: 0":                           func(c *Class) { c.KVBusyThresholdFrac = ptr(0.0) },
		q + "kv_busy_threshold_frac: 1.5":                         func(c *Class) { c.KVBusyThresholdFrac = ptr(1.5) },
		q + "choose_from: eligible":                               func(*Class) {},
		q + "choose_from: ~":                                      func(*Class) {},
		q + "choose_from: idle\n    max_requests_per_rank: 1":     func(c *Class) { c.ChooseFrom, c.MaxRequestsPerRank = ChooseIdle, 1 },
		q + "choose_from: idle\n    kv_busy_threshold_frac: 1":    func(c *Class) { c.ChooseFrom, c.KVBusyThresholdFrac = ChooseIdle, ptr(1.0) },
		q + "busy_worker_ratio: .5\n    max_requests_per_rank: 1": func(c *Class) { c.BusyWorkerRatio, c.MaxRequestsPerRank = 0.5, 1 },
		q + "guard_after: 2.5\n    prefill_busy_threshold: 0":     func(c *Class) { c.GuardAfter, c.BusyThreshold = 2500*time.Millisecond, ptr[int64](0) },
		q + "guard_after: 1e-12\n    prefill_busy_threshold_frac: 0": func(c *Class) {
			c.GuardAfter, c.BusyThresholdFrac = 1, ptr(0.0)
		},
		q + "endpoint_wait: 10":                                   func(c *Class) { c.EndpointWait = 10 * time.Second },
		q + "endpoint_wait: 0":                                    func(*Class) {},
		q + "endpoint_wait: 4e-10":                                func(*Class) {},
		q + "endpoint_wait: 6e-10":                                func(c *Class) { c.EndpointWait = 1 },
		q + "request_queue_limit_per_worker: 0":                   func(c *Class) { c.Limits.Requests = ptr[int64](0) },
		q + "raw_isl_token_queue_limit_per_worker: 5":             func(c *Class) { c.Limits.RawTokens = ptr[int64](5) },
		q + "cached_token_queue_limit_per_worker: 6":              func(c *Class) { c.Limits.CachedTokens = ptr[int64](6) },
		q + "prefill_busy_threshold: 1, ":                         nil,
		q + "{prefill_busy_threshold: 1}":                         nil,
		q + "busy_worker_ratio: 1\n    prefill_busy_threshold: 1": func(c *Class) { c.BusyWorkerRatio, c.BusyThreshold = 1, ptr[int64](1) },
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(block(text)))
			if change == nil {
				require.ErrorIs(t, err, ErrInvalid)
				return
			}
			require.NoError(t, err)
			want := base
			change(&want)
			require.Equal(t, want, *f.Root.Class(0))
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	ok := block("quantum: 1")
	for name, tc := range map[string]struct {
		text string
		want []string // the error's lines
	}{
		"unknown key":      {block("quantum: 1\n    quantm: 2"), []string{`line 8: policy_classes[0].quantm: unknown key`}},
		"unknown root key": {ok + "queue: 1\n", []string{`line 8: queue: unknown key`}},
		"unknown bucket key": {strings.Replace(ok, "bucket: all}", "bucket: all, max_tokens: 3}", 1),
			[]string{`line 2: uncached_isl_buckets[0].max_tokens: unknown key`}},
		"repeated key":      {block("quantum: 1\n    quantum: 2"), []string{`line 8: policy_classes[0].quantum: repeats the key of line 7`}},
		"repeated root key": {ok + "default_policy_family: f\n", []string{`line 8: default_policy_family: repeats the key of line 1`}},
		"repeated bucket key": {strings.Replace(ok, "bucket: all}", "bucket: all, 'bucket': all}", 1),
			[]string{`line 2: uncached_isl_buckets[0].bucket: repeats the key of line 2`}},
		"repeated model": {"models:\n  m: {" + flow("quantum: 1") + "}\n  m: {" + flow("quantum: 1") + "}\n",
			[]string{`line 3: models["m"]: repeats the key of line 2`}},
		"root is a list":     {"- 1\n", []string{`line 1: must be a mapping, not a list`}},
		"root is a string":   {"\nhello\n", []string{`line 2: "hello": must be a mapping, not a string`}},
		"classes no list":    {"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes: {}\n", []string{`line 3: policy_classes: must be a list, not a mapping`}},
		"classes empty":      {"default_policy_family: f\nuncached_isl_buckets: [{min_tokens: 0, bucket: all}]\npolicy_classes: []\n", []string{`line 3: policy_classes: must not be empty`}},
		"buckets no list":    {strings.Replace(ok, "[{min_tokens: 0, bucket: all}]", "3", 1), []string{`line 2: uncached_isl_buckets: "3": must be a list, not a whole number`}},
		"buckets empty":      {strings.Replace(ok, "[{min_tokens: 0, bucket: all}]", "[]", 1), []string{`line 2: uncached_isl_buckets: must not be empty`}},
		"class no mapping":   {ok + "  - 7\n", []string{`line 8: policy_classes[1]: "7": must be a mapping, not a whole number`}},
		"class null":         {ok + "  -\n", []string{`line 8: policy_classes[1]: must be a mapping, not null`}},
		"bucket no mapping":  {strings.Replace(ok, "[{min_tokens: 0, bucket: all}]", "[all]", 1), []string{`line 2: uncached_isl_buckets[0]: "all": must be a mapping, not a string`}},
		"name is a list":     {strings.Replace(ok, "name: c", "name: [c]", 1), []string{`line 4: policy_classes[0].name: must be a string, not a list`}},
		"name is empty":      {strings.Replace(ok, "name: c", "name: ''", 1), []string{`line 4: policy_classes[0].name: must not be empty`}},
		"name is null":       {strings.Replace(ok, "name: c", "name:", 1), []string{`line 4: policy_classes[0].name: is required`}},
		"name is missing":    {strings.Replace(ok, "name: c\n    ", "", 1), []string{`line 4: policy_classes[0].name: is required`}},
		"name characters":    {strings.Replace(ok, "name: c", "name: c/d", 1), []string{`line 4: policy_classes[0].name: "c/d": must consist of letters, digits, _ . and -`}},
		"family characters":  {strings.Replace(ok, "policy_family: f\n    c", "policy_family: f!\n    c", 1), []string{`line 5: policy_classes[0].policy_family: "f!": must consist of letters, digits, _ . and -`}},
		"family is empty":    {strings.Replace(ok, "policy_family: f\n    c", "policy_family: ''\n    c", 1), []string{`line 5: policy_classes[0].policy_family: must not be empty`}},
		"both are empty":     {strings.Replace(ok, "policy_family: f\n    cache_bucket: all", "policy_family: ''\n    cache_bucket: ''", 1), []string{`line 5: policy_classes[0].policy_family: must not be empty`, `line 6: policy_classes[0].cache_bucket: must not be empty`}},
		"name repeated":      {ok + "  - {name: c, quantum: 1}\n", []string{`line 8: policy_classes[1].name: "c": repeats the name of policy_classes[0]`}},
		"named like family":  {ok + "  - {name: f, quantum: 1}\n", []string{`line 8: policy_classes[1].name: "f": an explicit class must not be named like a family`}},
		"quantum missing":    {block("queue_policy: fcfs"), []string{`line 4: policy_classes[0].quantum: is required`}},
		"quantum null":       {block("quantum: ~"), []string{`line 7: policy_classes[0].quantum: is required`}},
		"quantum 0":          {block("quantum: 0"), []string{`line 7: policy_classes[0].quantum: "0": must be greater than 0`}},
		"quantum negative":   {block("quantum: -5"), []string{`line 7: policy_classes[0].quantum: "-5": must be greater than 0`}},
		"quantum float":      {block("quantum: 1.0"), []string{`line 7: policy_classes[0].quantum: "1.0": must be a whole number`}},
		"quantum exponent":   {block("quantum: 1e3"), []string{`line 7: policy_classes[0].quantum: "1e3": must be a whole number`}},
		"quantum string":     {block("quantum: '1'"), []string{`line 7: policy_classes[0].quantum: "1": must be a whole number, not a string`}},
		"quantum boolean":    {block("quantum: true"), []string{`line 7: policy_classes[0].quantum: "true": must be a whole number, not a boolean`}},
		"quantum list":       {block("quantum: [1]"), []string{`line 7: policy_classes[0].quantum: must be a whole number, not a list`}},
		"quantum octal":      {block("quantum: 010"), []string{`line 7: policy_classes[0].quantum: "010": must be a whole number without leading zeros or underscores`}},
		"quantum underscore": {block("quantum: 1_000"), []string{`line 7: policy_classes[0].quantum: "1_000": must be a whole number without leading zeros or underscores`}},
		"quantum above u64":  {block("quantum: 18446744073709551616"), []string{`line 7: policy_classes[0].quantum: "18446744073709551616": is out of range`}},
		"quantum below i64":  {block("quantum: -9223372036854775809"), []string{`line 7: policy_classes[0].quantum: "-9223372036854775809": is out of range`}},
		"order":              {block("quantum: 1\n    queue_policy: FCFS"), []string{`line 8: policy_classes[0].queue_policy: "FCFS": must be fcfs, lcfs or wspt`}},
		"order list":         {block("quantum: 1\n    queue_policy: [fcfs]"), []string{`line 8: policy_classes[0].queue_policy: must be fcfs, lcfs or wspt`}},
		"threshold negative": {block("quantum: 1\n    prefill_busy_threshold: -1"), []string{`line 8: policy_classes[0].prefill_busy_threshold: "-1": must not be negative`}},
		"frac nan":           {block("quantum: 1\n    prefill_busy_threshold_frac: .nan"), []string{`line 8: policy_classes[0].prefill_busy_threshold_frac: "NaN": must be finite and not negative`}},
		"frac infinite":      {block("quantum: 1\n    prefill_busy_threshold_frac: .inf"), []string{`line 8: policy_classes[0].prefill_busy_threshold_frac: "+Inf": must be finite and not negative`}},
		"frac negative":      {block("quantum: 1\n    prefill_busy_threshold_frac: -1.5"), []string{`line 8: policy_classes[0].prefill_busy_threshold_frac: "-1.5": must be finite and not negative`}},
		"frac string":        {block("quantum: 1\n    prefill_busy_threshold_frac: half"), []string{`line 8: policy_classes[0].prefill_busy_threshold_frac: "half": must be a number, not a string`}},
		"frac too large":     {block("quantum: 1\n    prefill_busy_threshold_frac: 1e999"), []string{`line 8: policy_classes[0].prefill_busy_threshold_frac: "1e999": must be a number, not a string`}},
		"ratio 0":            {block("quantum: 1\n    prefill_busy_threshold: 1\n    busy_worker_ratio: 0.0"), []string{`line 9: policy_classes[0].busy_worker_ratio: "0.0": must be greater than 0 and at most 1`}},
		"ratio above 1":      {block("quantum: 1\n    prefill_busy_threshold: 1\n    busy_worker_ratio: 16.0"), []string{`line 9: policy_classes[0].busy_worker_ratio: "16": must be greater than 0 and at most 1`}},
		"ratio nan":          {block("quantum: 1\n    prefill_busy_threshold: 1\n    busy_worker_ratio: .NaN"), []string{`line 9: policy_classes[0].busy_worker_ratio: "NaN": must be greater than 0 and at most 1`}},
		"ratio alone":        {block("quantum: 1\n    busy_worker_ratio: 0.5"), []string{`line 8: policy_classes[0].busy_worker_ratio: "0.5": ` + ruleThreshold}},
		"ratio beside a bad threshold": {block("quantum: 1\n    busy_worker_ratio: 0.5\n    prefill_busy_threshold: x"),
			[]string{`line 9: policy_classes[0].prefill_busy_threshold: "x": must be a whole number, not a string`}},
		"age 0":          {block("quantum: 1\n    max_queue_age: 0"), []string{`line 8: policy_classes[0].max_queue_age: "0": must be finite and greater than 0`}},
		"age negative":   {block("quantum: 1\n    max_queue_age: -1"), []string{`line 8: policy_classes[0].max_queue_age: "-1": must be finite and greater than 0`}},
		"age infinite":   {block("quantum: 1\n    max_queue_age: .inf"), []string{`line 8: policy_classes[0].max_queue_age: ".inf": must be finite and greater than 0`}},
		"age nan":        {block("quantum: 1\n    max_queue_age: .nan"), []string{`line 8: policy_classes[0].max_queue_age: ".nan": must be finite and greater than 0`}},
		"age too long":   {block("quantum: 1\n    max_queue_age: 9223372037"), []string{`line 8: policy_classes[0].max_queue_age: "9223372037": must be less than 2^63 nanoseconds`}},
		"age duration":   {block("quantum: 1\n    max_queue_age: 5s"), []string{`line 8: policy_classes[0].max_queue_age: "5s": must be a number, not a string`}},
		"guard 0":        {block("quantum: 1\n    prefill_busy_threshold: 1\n    guard_after: 0"), []string{`line 9: policy_classes[0].guard_after: "0": must be finite and greater than 0`}},
		"guard negative": {block("quantum: 1\n    prefill_busy_threshold: 1\n    guard_after: -2"), []string{`line 9: policy_classes[0].guard_after: "-2": must be finite and greater than 0`}},
		"guard too long": {block("quantum: 1\n    prefill_busy_threshold: 1\n    guard_after: 1e30"), []string{`line 9: policy_classes[0].guard_after: "1e30": must be less than 2^63 nanoseconds`}},
		"guard alone":    {block("quantum: 1\n    guard_after: 5"), []string{`line 8: policy_classes[0].guard_after: "5s": needs prefill_busy_threshold or prefill_busy_threshold_frac`}},
		"guard and caps": {block("quantum: 1\n    guard_after: 5\n    max_requests_per_rank: 1"), []string{`line 8: policy_classes[0].guard_after: "5s": needs prefill_busy_threshold or prefill_busy_threshold_frac`}},
		"guard, ratio":   {block("quantum: 1\n    guard_after: 5\n    prefill_busy_threshold: 1\n    busy_worker_ratio: 1"), []string{`line 8: policy_classes[0].guard_after: "5s": must not stand beside busy_worker_ratio`}},
		"guard beside a bad threshold": {block("quantum: 1\n    guard_after: 5\n    prefill_busy_threshold: x"),
			[]string{`line 9: policy_classes[0].prefill_busy_threshold: "x": must be a whole number, not a string`}},
		"endpoint wait negative": {block("quantum: 1\n    endpoint_wait: -1"), []string{`line 8: policy_classes[0].endpoint_wait: "-1": must be finite and not negative`}},
		"endpoint wait infinite": {block("quantum: 1\n    endpoint_wait: .inf"), []string{`line 8: policy_classes[0].endpoint_wait: ".inf": must be finite and not negative`}},
		"endpoint wait too long": {block("quantum: 1\n    endpoint_wait: 9223372036.9"), []string{`line 8: policy_classes[0].endpoint_wait: "9223372036.9": must be less than 2^63 nanoseconds`}},
		"requests 0":             {block("quantum: 1\n    max_requests_per_rank: 0"), []string{`line 8: policy_classes[0].max_requests_per_rank: "0": must be at least 1`}},
		"requests negative":      {block("quantum: 1\n    max_requests_per_rank: -3"), []string{`line 8: policy_classes[0].max_requests_per_rank: "-3": must be at least 1`}},
		"requests fraction":      {block("quantum: 1\n    max_requests_per_rank: 1.5"), []string{`line 8: policy_classes[0].max_requests_per_rank: "1.5": must be a whole number`}},
		"kv negative":            {block("quantum: 1\n    kv_busy_threshold_frac: -0.1"), []string{`line 8: policy_classes[0].kv_busy_threshold_frac: "-0.1": must be finite and not negative`}},
		"kv infinite":            {block("quantum: 1\n    kv_busy_threshold_frac: .inf"), []string{`line 8: policy_classes[0].kv_busy_threshold_frac: "+Inf": must be finite and not negative`}},
		"choose from":            {block("quantum: 1\n    prefill_busy_threshold: 1\n    choose_from: Idle"), []string{`line 9: policy_classes[0].choose_from: "Idle": must be eligible or idle`}},
		"choose from a list":     {block("quantum: 1\n    prefill_busy_threshold: 1\n    choose_from: [idle]"), []string{`line 9: policy_classes[0].choose_from: must be eligible or idle`}},
		"choose from alone":      {block("quantum: 1\n    choose_from: idle"), []string{`line 8: policy_classes[0].choose_from: "idle": ` + ruleThreshold}},
		"choose from beside a bad cap": {block("quantum: 1\n    choose_from: idle\n    max_requests_per_rank: 0"),
			[]string{`line 9: policy_classes[0].max_requests_per_rank: "0": must be at least 1`}},
		"limit negative": {block("quantum: 1\n    request_queue_limit_per_worker: -1"), []string{`line 8: policy_classes[0].request_queue_limit_per_worker: "-1": must not be negative`}},
		"first bucket":   {strings.Replace(ok, "min_tokens: 0", "min_tokens: 1", 1), []string{`line 2: uncached_isl_buckets[0].min_tokens: "1": must be 0 for the first bucket`}},
		"minima": {strings.Replace(ok, "bucket: all}", "bucket: all}, {min_tokens: 0, bucket: b}", 1) + "  - {name: d, policy_family: f, cache_bucket: b, quantum: 1}\n",
			[]string{`line 2: uncached_isl_buckets[1].min_tokens: "0": must be greater than that of the bucket before, 0`}},
		"bucket repeated": {strings.Replace(ok, "bucket: all}", "bucket: all}, {min_tokens: 9, bucket: all}", 1),
			[]string{`line 2: uncached_isl_buckets[1].bucket: "all": repeats the name of uncached_isl_buckets[0]`}},
		"missing cell": {strings.Replace(ok, "bucket: all}", "bucket: all}, {min_tokens: 9, bucket: b}", 1),
			[]string{`line 5: policy_classes[0].policy_family: "f": the family has no class for bucket "b"`}},
		"doubled cell": {ok + "  - {name: d, policy_family: f, cache_bucket: all, quantum: 1}\n",
			[]string{`line 8: policy_classes[1].cache_bucket: "all": family "f" has policy_classes[0] for this bucket already`}},
		"unknown bucket":      {strings.Replace(ok, "cache_bucket: all", "cache_bucket: b", 1), []string{`line 6: policy_classes[0].cache_bucket: "b": is not one of uncached_isl_buckets`}},
		"family only":         {strings.Replace(ok, "cache_bucket: all\n    ", "", 1), []string{`line 4: policy_classes[0].cache_bucket: is required beside policy_family; an explicit class has neither`}},
		"bucket only":         {strings.Replace(ok, "policy_family: f\n    c", "c", 1), []string{`line 4: policy_classes[0].policy_family: is required beside cache_bucket; an explicit class has neither`}},
		"default family":      {strings.Replace(ok, "_family: f\nu", "_family: g\nu", 1), []string{`line 1: default_policy_family: "g": no class has this family`}},
		"root in part":        {"default_policy_family: f\n", []string{`line 1: uncached_isl_buckets: is required`, `line 1: policy_classes: is required`}},
		"models no mapping":   {"models: [m]\n", []string{`line 1: models: must be a mapping, not a list`}},
		"model null":          {"models: {m: }\n", []string{`line 1: models["m"]: ` + ruleProfile}},
		"model empty":         {"models: {m: {}}\n", []string{`line 1: models["m"]: ` + ruleProfile}},
		"model list":          {"models:\n  m: []\n", []string{`line 2: models["m"]: must be a mapping, not a list`}},
		"model without name":  {"models: {'': {" + flow("quantum: 1") + "}}\n", []string{`line 1: models: the name of a model must not be empty`}},
		"model in part":       {"models:\n  m: {default_policy_family: f}\n", []string{`line 2: models["m"].uncached_isl_buckets: is required`, `line 2: models["m"].policy_classes: is required`}},
		"models in models":    {"models:\n  m:\n    {" + flow("quantum: 1") + ", models: {}}\n", []string{`line 3: models["m"].models: belongs at the top of the file, not inside a model`}},
		"selection in model":  {"models:\n  m:\n    {" + flow("quantum: 1") + ", worker_selection: {}}\n", []string{`line 3: models["m"].worker_selection: belongs at the top of the file, not inside a model`}},
		"router in model":     {"models:\n  m:\n    {" + flow("quantum: 1") + ", router: {}}\n", []string{`line 3: models["m"].router: belongs at the top of the file, not inside a model`}},
		"classifier in model": {"models:\n  m:\n    {" + flow("quantum: 1") + ", request_classifier: {}}\n", []string{`line 3: models["m"].request_classifier: belongs at the top of the file, not inside a model`}},
		"model's class":       {"models:\n  m:\n    {" + flow("quantum: 0") + "}\n", []string{`line 3: models["m"].policy_classes[0].quantum: "0": must be greater than 0`}},
		"two documents":       {ok + "---\n" + ok, []string{`line 8: a policy file must be a single YAML document`}},
		"empty second":        {ok + "---\n", []string{`line 8: a policy file must be a single YAML document`}},
		"syntax":              {"a: b\nc: [\n", []string{`line 2: not valid YAML: did not find expected node content`}},
		"unknown alias":       {"models: *m\n", []string{`not valid YAML: unknown anchor 'm' referenced`}},
		"merge key": {"models:\n  a: &a {" + flow("quantum: 1") + "}\n  b: {<<: *a}\n",
			[]string{`line 3: models["b"].<<: merge keys are not supported`, `line 3: models["b"]: ` + ruleProfile}},
		"complex key":     {"? [a]\n: 1\n", []string{`line 1: a key must be a string, not a list`}},
		"null key":        {"~: 1\n", []string{`line 1: ~: a key must be a string, not null`}},
		"alias in a loop": {"models: &m\n  a: *m\n", []string{`line 2: models["a"].a: unknown key`}},
		"too large":       {strings.Repeat("#", maxText+1), []string{`the file is larger than 1048576 bytes`}},
		"all at once": {"default_policy_family: [f]\nuncached_isl_buckets: [{min_tokens: 1, bucket: all}, {min_tokens: x, bucket: b}]\npolicy_classes:\n" +
			"  - {name: c, policy_family: f, cache_bucket: all, quantum: 0, quantum: 1}\n  - {nam: d, policy_family: f, cache_bucket: q, max_queue_age: 0}\n",
			[]string{
				`line 1: default_policy_family: must be a string, not a list`,
				`line 2: uncached_isl_buckets[1].min_tokens: "x": must be a whole number, not a string`,
				`line 2: uncached_isl_buckets[0].min_tokens: "1": must be 0 for the first bucket`,
				`line 4: policy_classes[0].quantum: repeats the key of line 4`,
				`line 4: policy_classes[0].quantum: "0": must be greater than 0`,
				`line 5: policy_classes[1].nam: unknown key`,
				`line 5: policy_classes[1].max_queue_age: "0": must be finite and greater than 0`,
				`line 5: policy_classes[1].name: is required`,
				`line 5: policy_classes[1].quantum: is required`,
				`line 5: policy_classes[1].cache_bucket: "q": is not one of uncached_isl_buckets`,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(tc.text))
			require.Error(t, err)
			require.Nil(t, f)
			require.ErrorIs(t, err, ErrInvalid)
			var one *ConfigError
			require.ErrorAs(t, err, &one)
			got := strings.Split(err.Error(), "\n")
			require.Len(t, got, len(tc.want), "%v", err)
			for i := range got {
				require.Contains(t, got[i], "invalid policy: "+tc.want[i])
			}
		})
	}
}

func TestConfigErrorFields(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(block("quantum: 0")))
	var e *ConfigError
	require.ErrorAs(t, err, &e)
	require.Equal(t, &ConfigError{Line: 7, Path: "policy_classes[0].quantum", Key: "quantum", Value: "0", Rule: "must be greater than 0"}, e)

	_, err = Parse([]byte(block("quantum: " + strings.Repeat("é", 1000))))
	require.ErrorAs(t, err, &e)
	require.Equal(t, strings.Repeat("é", 30)+"…", e.Value)
}

func TestParseAliases(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte("default_policy_family: &f fam\n" +
		"uncached_isl_buckets: &b [{min_tokens: 0, bucket: &all all}]\n" +
		"policy_classes: [{name: c, policy_family: *f, cache_bucket: *all, quantum: &q 5, prefill_busy_threshold: *q}]\n" +
		"models: {m: {default_policy_family: *f, uncached_isl_buckets: *b, policy_classes: [{name: d, policy_family: fam, cache_bucket: all, quantum: *q}]}}\n"))
	require.NoError(t, err)
	require.EqualValues(t, 5, *f.Root.Class(0).BusyThreshold)
	require.EqualValues(t, 5, f.For("m").Class(0).Quantum)
}

// TestParseHostile feeds texts that are made to cost much more than their size.
func TestParseHostile(t *testing.T) {
	t.Parallel()
	n := maxText / 16
	bomb := "worker_selection: &a0 [x, x]\n"
	for i := range 40 {
		bomb += fmt.Sprintf("m%d: &a%d [*a%d, *a%d]\n", i, i+1, i, i)
	}
	var square strings.Builder // 5,000 models times 10,000 classes
	square.WriteString("models:\n  a: {default_policy_family: f, uncached_isl_buckets: [], policy_classes: &c [")
	square.WriteString(strings.Repeat("{},", 10_000))
	square.WriteString("]}\n")
	for i := range 5_000 {
		fmt.Fprintf(&square, "  m%d: {policy_classes: *c}\n", i)
	}
	var sparse strings.Builder // families times buckets, nearly all cells empty
	sparse.WriteString("default_policy_family: f\nuncached_isl_buckets: [")
	for i := range 3_000 {
		fmt.Fprintf(&sparse, "{min_tokens: %d, bucket: b%d},", i, i)
	}
	sparse.WriteString("]\npolicy_classes: [")
	for i := range 3_000 {
		fmt.Fprintf(&sparse, "{name: c%d, policy_family: f%d, cache_bucket: b0, quantum: 1},", i, i)
	}
	sparse.WriteString("]\n")
	for name, text := range map[string]string{
		"bomb":          bomb,
		"square":        square.String(),
		"sparse":        sparse.String(),
		"open lists":    strings.Repeat("[", n),
		"open mappings": strings.Repeat("{a: ", n-1),
		"dashes":        strings.Repeat("- ", n),
		"colons":        strings.Repeat("a: ", n),
		"questions":     strings.Repeat("? ", n),
		"nested":        strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"faults":        "policy_classes: [" + strings.Repeat("1,", n) + "]",
		"keys":          "{" + strings.Repeat("a: 1, ", n/2) + "}",
		"comments":      strings.Repeat("#\n", n),
		"long scalar":   "a: " + strings.Repeat("x", n),
		"anchors":       strings.Repeat("&a ", n),
		"binary":        "\x00\xff\xfe",
		"quotes":        strings.Repeat("'", n+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Less(t, len(text), maxText)
			_, err := Parse([]byte(text))
			if name == "comments" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			require.Less(t, len(err.Error()), 1<<17)
		})
	}
}

// TestAliasesAreBounded: thousands of valid profiles that share one list.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	file := func(models int) string {
		var b strings.Builder
		b.WriteString("default_policy_family: f\nuncached_isl_buckets: &b [{min_tokens: 0, bucket: all}]\npolicy_classes: &c\n")
		b.WriteString("  - {name: c, policy_family: f, cache_bucket: all, quantum: 1}\n")
		for i := range 500 {
			fmt.Fprintf(&b, "  - {name: c%d, quantum: 1}\n", i)
		}
		b.WriteString("models:\n")
		for i := range models {
			fmt.Fprintf(&b, "  m%d: {default_policy_family: f, uncached_isl_buckets: *b, policy_classes: *c}\n", i)
		}
		return b.String()
	}
	f, err := Parse([]byte(file(10)))
	require.NoError(t, err)
	require.Len(t, f.Models, 10)
	_, err = Parse([]byte(file(1000)))
	require.ErrorContains(t, err, "aliases make the file too large")
}

func TestManyFaults(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte("models: [" + strings.Repeat("1,", 3) + "]\n" + manyKeys(300)))
	var all ConfigErrors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, maxFaults+1)
	require.Equal(t, "too many faults: there may be more", all[maxFaults].Rule)
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strconv.Itoa(i) + ": 1\n")
	}
	return b.String()
}
