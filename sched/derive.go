package sched

import (
	"fmt"
	"math"

	"github.com/seed-3c5df8a4/turnstile/internal/parts"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Other engines of this project check and word what they are given as this one does.
func init() {
	parts.Offer(parts.Face[Request, Config]{Derive: (*Request).derive, Resolve: (*Config).resolve, FailureError: failureError})
}

// derive checks the request and fills in what choosing a rank for it needs to know.
// What it fills in shares the request's slices.
func (r *Request) derive(params *selector.Params, d *pool.Request) error {
	fault := func(format string, args ...any) error {
		return &Error{Code: ErrInvalid, Request: r.ID, Rule: fmt.Sprintf(format, args...)}
	}
	switch {
	case r.ISL < 0:
		return fault("ISL %d: must not be negative", r.ISL)
	case r.ExpectedOSL < 0:
		return fault("expected OSL %d: must not be negative", r.ExpectedOSL)
	case !finite(r.Jump):
		return fault("priority jump %v s: must be finite", r.Jump)
	case r.ExpectedPrefill != nil && *r.ExpectedPrefill < 0:
		return fault("expected prefill %v: must not be negative", *r.ExpectedPrefill)
	}
	for i := range r.Overlaps {
		o := &r.Overlaps[i]
		if !blocks(o.Device) || !blocks(o.Host) || !blocks(o.Disk) {
			return fault("overlap on rank %v: device %v, host %v, disk %v blocks: must be finite and not negative",
				o.Rank, o.Device, o.Host, o.Disk)
		}
	}
	if len(r.PreferredTaints) > 0 { // even an empty range over a map costs
		for taint, weight := range r.PreferredTaints {
			if !finite(weight) {
				return fault("weight %v of preferred taint %q: must be finite", weight, taint)
			}
		}
	}
	// Field by field, as d is large and mostly the same as the last time.
	d.ID, d.Class, d.Priority = r.ID, r.Class, r.Priority
	d.ISL, d.Blocks, d.Tracked, d.Params = r.ISL, r.Blocks, !r.NoPrefillTracking, *params
	d.Expected, d.ExpectedOSL = lifecycle.NoDuration, r.ExpectedOSL
	c := &d.Constraints
	c.Pinned, c.Allowed, c.Excluded, c.Tried, c.RequiredTaints = false, r.Allowed, r.Excluded, r.tried, r.RequiredTaints
	d.HasPrefer, d.Taints = false, pool.SortTaints(r.PreferredTaints)
	if r.OverlapCredit != nil || r.PrefillScale != nil || r.Temperature != nil {
		if err := r.override(&d.Params); err != nil {
			return err
		}
	}
	if r.Pin != nil {
		d.Constraints.Pinned, d.Constraints.Pin = true, *r.Pin
	}
	if r.Prefer != nil {
		d.HasPrefer, d.Prefer = true, *r.Prefer
	}
	if r.ExpectedPrefill != nil {
		d.Expected = *r.ExpectedPrefill
	}
	if d.Overlaps = r.Overlaps; !pool.Distinct(d.Overlaps, &d.Scratch) {
		return fault("overlaps: a rank is listed twice")
	}
	return nil
}

// override puts the request's own parameters in place of those configured.
func (r *Request) override(params *selector.Params) error {
	for _, override := range [...]struct {
		name string
		from *float64
		to   *float64
	}{
		{"overlap credit", r.OverlapCredit, &params.OverlapCredit},
		{"prefill scale", r.PrefillScale, &params.PrefillScale},
		{"temperature", r.Temperature, &params.Temperature},
	} {
		if override.from == nil {
			continue
		}
		if !finite(*override.from) || *override.from < 0 {
			return &Error{
				Code: ErrInvalid, Request: r.ID,
				Rule: fmt.Sprintf("%s %v: must be finite and not negative", override.name, *override.from),
			}
		}
		*override.to = *override.from
	}
	return nil
}

// blocks reports whether f can be a number of blocks.
func blocks(f float64) bool { return f >= 0 && f <= math.MaxFloat64 }

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// resolve checks the config as New does and returns what follows from it.
func (c *Config) resolve() (*policy.Profile, selector.Params, error) {
	profile, err := c.validate()
	return profile, c.params(), err
}

func placementOf(p *pool.Placed) Placement {
	return Placement{
		Rank: p.Rank, Endpoint: p.Endpoint, CachedTokens: p.Cached, Overlap: p.Overlap,
		PotentialDecodeBlocks: p.Potential,
	}
}

func overlapOn(overlaps []Overlap, rank RankID) Overlap {
	for _, o := range overlaps {
		if o.Rank == rank {
			return o
		}
	}
	return Overlap{Rank: rank}
}
