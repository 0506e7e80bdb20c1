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

// file is a policy file as it is written. Values that another part of Dynamo
// reads are accepted and ignored.
type file struct {
	profile   `yaml:",inline"`
	Models    map[string]profile `yaml:"models"`
	Selection any                `yaml:"worker_selection"`
}

type profile struct {
	DefaultFamily *string  `yaml:"default_policy_family"`
	Buckets       []Bucket `yaml:"uncached_isl_buckets"`
	Classes       []class  `yaml:"policy_classes"`
}

type class struct {
	Name      string   `yaml:"name"`
	Family    *string  `yaml:"policy_family"`
	Bucket    *string  `yaml:"cache_bucket"`
	Order     *string  `yaml:"queue_policy"`
	Quantum   *int64   `yaml:"quantum"`
	Threshold *int64   `yaml:"prefill_busy_threshold"`
	Fraction  *float64 `yaml:"prefill_busy_threshold_frac"`
	Ratio     *float64 `yaml:"busy_worker_ratio"`
	MaxAge    *float64 `yaml:"max_queue_age"`
	Requests  *int64   `yaml:"request_queue_limit_per_worker"`
	Raw       *int64   `yaml:"raw_isl_token_queue_limit_per_worker"`
	Cached    *int64   `yaml:"cached_token_queue_limit_per_worker"`
	Stages    any      `yaml:"stages"`
	Admission any      `yaml:"admission"`
}

// ParseProfile reads a policy file and returns its root profile.
func ParseProfile(text []byte) (*Profile, error) {
	var f file
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
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

var nameRule = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (p *profile) check() (*Profile, error) {
	out := &Profile{Buckets: p.Buckets}
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
		Name: c.Name, Order: "fcfs", Threshold: c.Threshold, Fraction: c.Fraction, Ratio: 1,
		Limits: [3]*int64{c.Requests, c.Raw, c.Cached},
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
	out.Quantum = *c.Quantum
	for _, n := range []*int64{c.Threshold, c.Requests, c.Raw, c.Cached} {
		if n != nil && *n < 0 {
			return nil, errors.New("negative threshold or limit")
		}
	}
	if f := c.Fraction; f != nil && !(*f >= 0 && *f <= math.MaxFloat64) {
		return nil, errors.New("fraction must be finite")
	}
	if r := c.Ratio; r != nil {
		if !(*r > 0 && *r <= 1) || !out.CanQueue() {
			return nil, errors.New("ratio must be in (0,1] and needs a threshold")
		}
		out.Ratio = *r
	}
	if a := c.MaxAge; a != nil {
		if !(*a > 0 && *a <= math.MaxFloat64) {
			return nil, errors.New("age must be above 0")
		}
		out.MaxAge = int64(math.Round(*a * 1e9))
	}
	return out, nil
}
