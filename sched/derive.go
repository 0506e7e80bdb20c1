package sched

import (
	"fmt"
	"math"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Derive checks the request and fills in what choosing a rank for it needs to
// know. It is for engines that are built from the same parts; Schedule does it
// itself. What it fills in shares the request's slices.
func (r *Request) Derive(params selector.Params, d *pool.Request) error { return r.derive(params, d) }

func (r *Request) derive(params selector.Params, d *pool.Request) error {
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
		if !finite(o.Device) || !finite(o.Host) || !finite(o.Disk) || min(o.Device, o.Host, o.Disk) < 0 {
			return fault("overlap on rank %v: device %v, host %v, disk %v blocks: must be finite and not negative",
				o.Rank, o.Device, o.Host, o.Disk)
		}
	}
	for taint, weight := range r.PreferredTaints {
		if !finite(weight) {
			return fault("weight %v of preferred taint %q: must be finite", weight, taint)
		}
	}
	*d = pool.Request{
		Scratch: d.Scratch, ISL: r.ISL, Blocks: r.Blocks, Tracked: !r.NoPrefillTracking, Params: params,
		Expected: lifecycle.NoDuration, ExpectedOSL: r.ExpectedOSL,
		Constraints: shards.Constraints{
			Allowed: r.Allowed, Excluded: r.Excluded, RequiredTaints: r.RequiredTaints,
		},
		Taints: pool.SortTaints(r.PreferredTaints),
	}
	for _, override := range [...]struct {
		name string
		from *float64
		to   *float64
	}{
		{"overlap credit", r.OverlapCredit, &d.Params.OverlapCredit},
		{"prefill scale", r.PrefillScale, &d.Params.PrefillScale},
		{"temperature", r.Temperature, &d.Params.Temperature},
	} {
		if override.from == nil {
			continue
		}
		if !finite(*override.from) || *override.from < 0 {
			return fault("%s %v: must be finite and not negative", override.name, *override.from)
		}
		*override.to = *override.from
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
	var ok bool
	if d.Overlaps, ok = pool.SortOverlaps(r.Overlaps, d.Scratch); !ok {
		return fault("overlaps: a rank is listed twice")
	}
	if len(d.Overlaps) > 0 && &d.Overlaps[0] != &r.Overlaps[0] {
		d.Scratch = d.Overlaps
	}
	return nil
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// JumpNanoseconds returns the priority jump in whole nanoseconds, at least 0; a
// jump of more than 146 years counts as that.
func (r *Request) JumpNanoseconds() int64 {
	const most = math.MaxInt64 / 2
	ns := math.Round(r.Jump * float64(time.Second))
	return int64(min(max(ns, 0), most))
}

// Resolve checks the config as New does and returns what follows from it: the
// profile that applies and the parameters of the cost, before a request's
// overrides. It is for engines that are built from the same parts.
func (c Config) Resolve() (*policy.Profile, selector.Params, error) {
	profile, err := c.validate()
	return profile, c.params(), err
}

// FailureError turns the reason for which no rank was chosen for a request into
// an *Error. It is for engines that are built from the same parts.
func FailureError(request string, f *pool.Failure) error {
	e := &Error{Request: request, Rule: f.Rule, Cause: f.Cause}
	if f.HasRank {
		e.Worker, e.Rank, e.HasWorker, e.HasRank = f.Rank.Worker, f.Rank.Rank, true, true
	}
	switch f.Reason {
	case pool.Overloaded:
		e.Code = ErrOverloaded
	case pool.PinnedOverloaded:
		e.Code = ErrPinnedOverloaded
	case pool.NonFinite:
		e.Code = ErrInvalid
	case pool.SelectorFailed:
		e.Code = ErrSelector
	default:
		e.Code = ErrNoEndpoints
	}
	return e
}
