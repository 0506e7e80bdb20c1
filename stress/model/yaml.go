package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// file is a policy file as it is written. What another part of Dynamo reads is
// accepted, whatever it is.
type file struct {
	profile    `yaml:",inline"`
	Models     map[string]profile `yaml:"models"`
	Selection  yaml.Node          `yaml:"worker_selection"`
	Router     yaml.Node          `yaml:"router"`
	Classifier yaml.Node          `yaml:"request_classifier"`
}

// count is a whole number; what no int64 holds counts as the largest, up to 2^64-1.
type count int64

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *count) UnmarshalYAML(n *yaml.Node) error {
	var large uint64
	if n.ShortTag() != "!!int" {
		return fmt.Errorf("%q is no whole number", n.Value)
	}
	if n.Decode((*int64)(c)) == nil {
		return nil
	}
	if err := n.Decode(&large); err != nil {
		return err
	}
	*c = math.MaxInt64
	return nil
}

type bucket struct {
	Name string `yaml:"bucket"`
	Min  *count `yaml:"min_tokens"`
}

type profile struct {
	DefaultFamily *string  `yaml:"default_policy_family"`
	Buckets       []bucket `yaml:"uncached_isl_buckets"`
	Classes       []class  `yaml:"policy_classes"`
}

type class struct {
	Name      string   `yaml:"name"`
	Family    *string  `yaml:"policy_family"`
	Bucket    *string  `yaml:"cache_bucket"`
	Order     *string  `yaml:"queue_policy"`
	Quantum   *count   `yaml:"quantum"`
	Threshold *count   `yaml:"prefill_busy_threshold"`
	Fraction  *float64 `yaml:"prefill_busy_threshold_frac"`
	Ratio     *float64 `yaml:"busy_worker_ratio"`
	MaxAge    *float64 `yaml:"max_queue_age"`
	Requests  *count   `yaml:"request_queue_limit_per_worker"`
	Raw       *count   `yaml:"raw_isl_token_queue_limit_per_worker"`
	Cached    *count   `yaml:"cached_token_queue_limit_per_worker"`
	PerRank   *count   `yaml:"max_requests_per_rank"`
	KV        *float64 `yaml:"kv_busy_threshold_frac"`
	From      *string  `yaml:"choose_from"`
	Guard     *float64 `yaml:"guard_after"`
	Endpoint  *float64 `yaml:"endpoint_wait"`
	Stages    any      `yaml:"stages"`
	Admission any      `yaml:"admission"`
}

// ParseProfile reads a policy file and returns its root profile.
func ParseProfile(text []byte) (*Profile, error) {
	f, err := readFile(text)
	if err != nil {
		return nil, err
	}
	for name, m := range f.Models {
		if _, err := m.check(); err != nil {
			return nil, fmt.Errorf("model %s: %w", name, err)
		}
	}
	if f.DefaultFamily == nil && f.Buckets == nil && f.Classes == nil {
		return OneClass(), nil
	}
	return f.check()
}

func readFile(text []byte) (*file, error) {
	f := &file{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return f, nil
}

// ParseTiers reads from a policy file what cached blocks are worth.
func ParseTiers(text []byte) (Tiers, error) {
	t := Tiers{Host: 0.75, Disk: 0.25}
	f, err := readFile(text)
	if err != nil || f.Router.Kind != yaml.MappingNode {
		return t, err
	}
	for i := 0; i < len(f.Router.Content); i += 2 {
		var weight float64
		if f.Router.Content[i+1].Decode(&weight) != nil || !(weight >= 0 && weight <= math.MaxFloat64) {
			continue
		}
		switch f.Router.Content[i].Value {
		case "host_cache_hit_weight":
			t.Host = weight
		case "disk_cache_hit_weight":
			t.Disk = weight
		}
	}
	return t, nil
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (p *profile) check() (*Profile, error) {
	out := &Profile{}
	if p.DefaultFamily == nil || len(p.Buckets) == 0 || len(p.Classes) == 0 {
		return nil, errors.New("family, buckets and classes are required")
	}
	out.DefaultFamily = *p.DefaultFamily
	buckets := map[string]bool{}
	for i, b := range p.Buckets {
		switch {
		case b.Min == nil, i == 0 && *b.Min != 0, i > 0 && *b.Min <= *p.Buckets[i-1].Min:
			return nil, errors.New("minima must start at 0 and increase")
		case !nameRule.MatchString(b.Name), buckets[b.Name]:
			return nil, fmt.Errorf("bucket name %q is empty or repeated", b.Name)
		}
		buckets[b.Name] = true
		out.Buckets = append(out.Buckets, Bucket{b.Name, (*int64)(b.Min)})
	}
	families, names, cells := map[string]int{}, map[string]bool{}, map[[2]string]bool{}
	for i := range p.Classes {
		c, err := p.Classes[i].check()
		if err != nil {
			return nil, fmt.Errorf("class %d: %w", i, err)
		}
		cell := [2]string{c.Family, c.Bucket}
		switch {
		case names[c.Name]:
			return nil, fmt.Errorf("class name %q is repeated", c.Name)
		case c.Family != "" && (!buckets[c.Bucket] || cells[cell]):
			return nil, fmt.Errorf("cell %v is doubled or has no bucket", cell)
		case c.Family != "":
			families[c.Family]++
		}
		names[c.Name], cells[cell] = true, true
		out.Classes = append(out.Classes, *c)
	}
	for _, c := range out.Classes {
		if families[c.Name] > 0 && c.Family == "" {
			return nil, fmt.Errorf("explicit class %q is named like a family", c.Name)
		}
	}
	for family, n := range families {
		if n < len(buckets) {
			return nil, fmt.Errorf("family %q lacks a bucket", family)
		}
	}
	if families[out.DefaultFamily] == 0 {
		return nil, fmt.Errorf("default family %q has no classes", out.DefaultFamily)
	}
	return out, nil
}

func (c *class) check() (*Class, error) {
	out := &Class{
		Name: c.Name, Order: "fcfs", Threshold: (*int64)(c.Threshold), Fraction: c.Fraction, KVFraction: c.KV, Ratio: 1,
		Limits: [3]*int64{(*int64)(c.Requests), (*int64)(c.Raw), (*int64)(c.Cached)},
	}
	if !nameRule.MatchString(c.Name) {
		return nil, errors.New("bad name")
	}
	if (c.Family == nil) != (c.Bucket == nil) {
		return nil, errors.New("family and bucket come together")
	}
	if c.Family != nil {
		out.Family, out.Bucket = *c.Family, *c.Bucket
		if !nameRule.MatchString(out.Family) || !nameRule.MatchString(out.Bucket) {
			return nil, errors.New("bad family or bucket")
		}
	}
	if c.Order != nil {
		out.Order = *c.Order
		if out.Order != "fcfs" && out.Order != "lcfs" && out.Order != "wspt" {
			return nil, errors.New("bad order")
		}
	}
	if c.Quantum == nil || *c.Quantum <= 0 {
		return nil, errors.New("quantum must be above 0")
	}
	out.Quantum = int64(*c.Quantum)
	for _, n := range []*count{c.Threshold, c.Requests, c.Raw, c.Cached} {
		if n != nil && *n < 0 {
			return nil, errors.New("negative threshold or limit")
		}
	}
	for _, f := range []*float64{c.Fraction, c.KV} {
		if f != nil && !(*f >= 0 && *f <= math.MaxFloat64) {
			return nil, errors.New("fraction must be finite")
		}
	}
	if c.PerRank != nil {
		if out.MaxRequests = int64(*c.PerRank); out.MaxRequests < 1 {
			return nil, errors.New("requests per rank must be at least 1")
		}
	}
	if r := c.Ratio; r != nil {
		if !(*r > 0 && *r <= 1) || !out.CanQueue() {
			return nil, errors.New("ratio must be in (0,1] and needs a threshold")
		}
		out.Ratio = *r
	}
	if c.From != nil {
		out.Idle = *c.From == "idle"
		if !out.Idle && *c.From != "eligible" || out.Idle && !out.CanQueue() {
			return nil, errors.New("choose_from must be eligible or idle, and idle needs a threshold")
		}
	}
	if c.Guard != nil && (c.Ratio != nil || c.Threshold == nil && c.Fraction == nil) {
		return nil, errors.New("a guard needs a prefill threshold and no ratio")
	}
	var err error
	if out.MaxAge, err = nanoseconds(c.MaxAge, 1); err != nil {
		return nil, err
	}
	if out.Guard, err = nanoseconds(c.Guard, 1); err != nil {
		return nil, err
	}
	if out.EndpointWait, err = nanoseconds(c.Endpoint, 0); err != nil {
		return nil, err
	}
	return out, nil
}

// nanoseconds rounds seconds, which must be above 0 if the least is.
func nanoseconds(seconds *float64, least int64) (int64, error) {
	switch {
	case seconds == nil:
		return 0, nil
	case !(*seconds >= 0) || least > 0 && *seconds == 0 || math.Round(*seconds*1e9) >= 1<<63:
		return 0, fmt.Errorf("%v seconds are out of range", *seconds)
	}
	return max(least, int64(math.Round(*seconds*1e9))), nil
}
