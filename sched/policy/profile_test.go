package policy

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// matrix is a valid config with two families, three buckets and two explicit
// classes.
func matrix() Config {
	return Config{
		DefaultFamily: "b",
		Buckets:       []Bucket{{0, "short"}, {10, "mid"}, {100, "long"}},
		Classes: []Class{
			{Name: "x", Quantum: 1},
			{Name: "a-long", Family: "a", Bucket: "long", Quantum: 1},
			{Name: "a", Family: "a", Bucket: "short", Quantum: 1},
			{Name: "a-mid", Family: "a", Bucket: "mid", Quantum: 1},
			{Name: "b-mid", Family: "b", Bucket: "mid", Quantum: 1, BusyThreshold: ptr[int64](5)},
			{Name: "b-short", Family: "b", Bucket: "short", Quantum: 1},
			{Name: "b-long", Family: "b", Bucket: "long", Quantum: 1},
			{Name: "y", Quantum: 1},
		},
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	p, err := New(matrix())
	require.NoError(t, err)
	for _, tc := range []struct {
		name     string
		uncached int64
		want     string
	}{
		{"a", 0, "a"}, // the family, though a class has that name too
		{"a", 9, "a"},
		{"a", 10, "a-mid"},
		{"a", 99, "a-mid"},
		{"a", 100, "a-long"},
		{"a", math.MaxInt64, "a-long"},
		{"a", -1, "a"},
		{"b", 50, "b-mid"},
		{"", 0, "b-short"},
		{"", 100, "b-long"},
		{"nobody", 10, "b-mid"},
		{"a-long", 0, "b-short"}, // no way around the buckets
		{"long", 0, "b-short"},
		{"A", 0, "b-short"},
		{"x", 0, "x"},
		{"x", 1000, "x"},
		{"y", 10, "y"},
	} {
		require.Equal(t, tc.want, p.Class(p.Classify(tc.name, tc.uncached)).Name, "%q with %d", tc.name, tc.uncached)
	}
}

// Not parallel: AllocsPerRun counts for the whole process.
func TestClassifyDoesNotAllocate(t *testing.T) {
	p, err := New(matrix())
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.Classify("nobody", 50) }))
}

func TestProfileAccessors(t *testing.T) {
	t.Parallel()
	cfg := matrix()
	p, err := New(cfg)
	require.NoError(t, err)
	require.True(t, p.CanQueue())
	require.Equal(t, len(cfg.Classes), p.Len())
	require.Equal(t, cfg.Classes, p.Classes())
	require.Equal(t, cfg, p.Config())

	*cfg.Classes[4].BusyThreshold = 77
	cfg.Buckets[1].MinTokens = 77
	copied := p.Classes()
	*copied[4].BusyThreshold = 78
	copied[0].Name = "z"
	require.Equal(t, matrix(), p.Config(), "a profile shares no memory with its caller")

	again, err := New(p.Config())
	require.NoError(t, err)
	require.Equal(t, p, again)
}

func TestDefault(t *testing.T) {
	t.Parallel()
	p := Default()
	require.Equal(t, 1, p.Len())
	require.False(t, p.CanQueue())
	require.Equal(t, "default", p.Class(0).Name)
	require.EqualValues(t, 1, p.Class(0).Quantum)
	require.Equal(t, FCFS, p.Class(0).Order)
	for _, name := range []string{"", "default", "x"} {
		require.Zero(t, p.Classify(name, 1<<40))
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Config)
		path   string
		rule   string
	}{
		"no default family":    {func(c *Config) { c.DefaultFamily = "" }, "default_policy_family", "must not be empty"},
		"unknown default":      {func(c *Config) { c.DefaultFamily = "c" }, "default_policy_family", "no class has this family"},
		"explicit default":     {func(c *Config) { c.DefaultFamily = "x" }, "default_policy_family", "no class has this family"},
		"no classes":           {func(c *Config) { c.Classes = nil }, "policy_classes", "must not be empty"},
		"no buckets":           {func(c *Config) { c.Buckets = nil }, "uncached_isl_buckets", "must not be empty"},
		"first bucket":         {func(c *Config) { c.Buckets[0].MinTokens = 1 }, "uncached_isl_buckets[0].min_tokens", "must be 0"},
		"negative bucket":      {func(c *Config) { c.Buckets[0].MinTokens = -1 }, "uncached_isl_buckets[0].min_tokens", "negative"},
		"equal buckets":        {func(c *Config) { c.Buckets[2].MinTokens = 10 }, "uncached_isl_buckets[2].min_tokens", "greater"},
		"falling buckets":      {func(c *Config) { c.Buckets[2].MinTokens = 9 }, "uncached_isl_buckets[2].min_tokens", "greater"},
		"bucket without name":  {func(c *Config) { c.Buckets[1].Name = "" }, "uncached_isl_buckets[1].bucket", "must not be empty"},
		"bucket repeated":      {func(c *Config) { c.Buckets[1].Name = "short" }, "uncached_isl_buckets[1].bucket", "repeats the name of uncached_isl_buckets[0]"},
		"class without name":   {func(c *Config) { c.Classes[1].Name = "" }, "policy_classes[1].name", "must not be empty"},
		"class repeated":       {func(c *Config) { c.Classes[1].Name = "x" }, "policy_classes[1].name", "repeats the name of policy_classes[0]"},
		"class characters":     {func(c *Config) { c.Classes[1].Name = "a b" }, "policy_classes[1].name", "letters, digits"},
		"not ascii":            {func(c *Config) { c.Classes[1].Name = "é" }, "policy_classes[1].name", "letters, digits"},
		"explicit like family": {func(c *Config) { c.Classes[2].Name, c.Classes[0].Name = "q", "a" }, "policy_classes[0].name", "named like a family"},
		"family only":          {func(c *Config) { c.Classes[1].Bucket = "" }, "policy_classes[1].cache_bucket", "is required beside policy_family"},
		"bucket only":          {func(c *Config) { c.Classes[1].Family = "" }, "policy_classes[1].policy_family", "is required beside cache_bucket"},
		"unknown bucket":       {func(c *Config) { c.Classes[1].Bucket = "huge" }, "policy_classes[1].cache_bucket", "is not one of uncached_isl_buckets"},
		"doubled cell":         {func(c *Config) { c.Classes[0].Family, c.Classes[0].Bucket = "a", "short" }, "policy_classes[2].cache_bucket", `family "a" has policy_classes[0]`},
		"missing cell":         {func(c *Config) { c.Classes[1].Family, c.Classes[1].Bucket = "", "" }, "policy_classes[2].policy_family", `no class for bucket "long"`},
		"missing cells":        {func(c *Config) { c.Classes[0].Family, c.Classes[0].Bucket = "n", "mid" }, "policy_classes[0].policy_family", `buckets "short", "long"`},
		"quantum 0":            {func(c *Config) { c.Classes[1].Quantum = 0 }, "policy_classes[1].quantum", "greater than 0"},
		"quantum negative":     {func(c *Config) { c.Classes[1].Quantum = -1 }, "policy_classes[1].quantum", "greater than 0"},
		"order":                {func(c *Config) { c.Classes[1].Order = 3 }, "policy_classes[1].queue_policy", "fcfs, lcfs or wspt"},
		"threshold":            {func(c *Config) { c.Classes[1].BusyThreshold = ptr[int64](-1) }, "policy_classes[1].prefill_busy_threshold", "negative"},
		"frac negative":        {func(c *Config) { c.Classes[1].BusyThresholdFrac = ptr(-0.1) }, "policy_classes[1].prefill_busy_threshold_frac", "finite"},
		"frac nan":             {func(c *Config) { c.Classes[1].BusyThresholdFrac = ptr(math.NaN()) }, "policy_classes[1].prefill_busy_threshold_frac", "finite"},
		"frac infinite":        {func(c *Config) { c.Classes[1].BusyThresholdFrac = ptr(math.Inf(1)) }, "policy_classes[1].prefill_busy_threshold_frac", "finite"},
		"ratio alone":          {func(c *Config) { c.Classes[1].BusyWorkerRatio = 0.5 }, "policy_classes[1].busy_worker_ratio", "needs prefill_busy_threshold"},
		"ratio above 1":        {func(c *Config) { c.Classes[4].BusyWorkerRatio = 1.01 }, "policy_classes[4].busy_worker_ratio", "at most 1"},
		"ratio negative":       {func(c *Config) { c.Classes[4].BusyWorkerRatio = -0.5 }, "policy_classes[4].busy_worker_ratio", "at most 1"},
		"ratio nan":            {func(c *Config) { c.Classes[4].BusyWorkerRatio = math.NaN() }, "policy_classes[4].busy_worker_ratio", "at most 1"},
		"age":                  {func(c *Config) { c.Classes[1].MaxQueueAge = -time.Second }, "policy_classes[1].max_queue_age", "greater than 0"},
		"request limit":        {func(c *Config) { c.Classes[1].Limits.Requests = ptr[int64](-1) }, "policy_classes[1].request_queue_limit_per_worker", "negative"},
		"raw limit":            {func(c *Config) { c.Classes[1].Limits.RawTokens = ptr[int64](-1) }, "policy_classes[1].raw_isl_token_queue_limit_per_worker", "negative"},
		"cached limit":         {func(c *Config) { c.Classes[1].Limits.CachedTokens = ptr[int64](-1) }, "policy_classes[1].cached_token_queue_limit_per_worker", "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := matrix()
			tc.change(&cfg)
			p, err := New(cfg)
			require.Nil(t, p)
			require.ErrorIs(t, err, ErrInvalid)
			var all ConfigErrors
			require.ErrorAs(t, err, &all)
			require.Len(t, all, 1, "one fault must not be reported twice:\n%v", err)
			require.Equal(t, tc.path, all[0].Path)
			require.Contains(t, all[0].Rule, tc.rule)
			require.Zero(t, all[0].Line)
			require.True(t, strings.HasSuffix(all[0].Path, all[0].Key))
		})
	}
}

func TestNewReportsAll(t *testing.T) {
	t.Parallel()
	cfg := matrix()
	cfg.Buckets[1].MinTokens = 0
	cfg.Classes[0].Quantum = 0
	cfg.Classes[0].Name = "?"
	cfg.Classes[3].Limits.Requests = ptr[int64](-1)
	cfg.DefaultFamily = "c"
	_, err := New(cfg)
	var all ConfigErrors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 5, "%v", err)
	var first *ConfigError
	require.True(t, errors.As(err, &first))
	require.Equal(t, all[0], first)
	require.Len(t, strings.Split(err.Error(), "\n"), 5)
}

func TestBoundsAreValid(t *testing.T) {
	t.Parallel()
	cfg := matrix()
	cfg.Buckets[2].MinTokens = math.MaxInt64
	c := &cfg.Classes[4]
	c.Quantum = math.MaxInt64
	c.BusyThreshold = ptr[int64](0)
	c.BusyThresholdFrac = ptr(math.MaxFloat64)
	c.BusyWorkerRatio = 1
	c.MaxQueueAge = 1
	c.Limits = Limits{ptr[int64](0), ptr[int64](math.MaxInt64), ptr[int64](0)}
	c.Name = "azAZ09_.-"
	_, err := New(cfg)
	require.NoError(t, err)
}
