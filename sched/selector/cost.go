package selector

import "math"

// TierWeights are the shares of a device block that a cached block counts for,
// by the tier it lies in. Finite, not negative.
type TierWeights struct {
	Device, Host, Disk float64
}

// DefaultTierWeights returns the usual weights: 1, 0.75 and 0.25.
func DefaultTierWeights() TierWeights { return TierWeights{Device: 1, Host: 0.75, Disk: 0.25} }

// CachedTokens returns how many tokens of a prompt need no prefill where that
// many blocks of it are cached: the weighted blocks times blockSize, rounded to
// the nearest token, halves up, and never more than isl nor less than 0.
func (w TierWeights) CachedTokens(device, host, disk float64, blockSize, isl int64) int64 {
	blocks := float64(w.Device*device) + float64(w.Host*host) + float64(w.Disk*disk)
	tokens := math.Round(float64(blocks * float64(blockSize)))
	switch {
	case !(tokens > 0) || isl <= 0: // NaN too
		return 0
	case tokens >= float64(isl): // before the conversion, which could overflow
		return isl
	default:
		return int64(tokens)
	}
}

// Cost returns the cost of c for the request, in tokens; lower is better. With
// the names of [Params] and R = max(1, ceil(ISL/B)):
//
//	raw    = active prefill + ISL, or 0 if prefill is not tracked
//	d      = 1 / (1 + k·((active prefill − least active prefill)/B)/R),
//	         or 1 if k is 0 or prefill is not tracked
//	credit = c·d·device + host + disk, in weighted blocks
//	cost   = s·max(0, raw − B·credit) + B·potential blocks + B·a·requests
//
// or, with RoleDecode if prefill is not tracked and c > 0,
//
//	cost   = B·max(0, potential blocks − credit) + B·a·requests
//
// times exp(−tanh(taint weight)) if that weight is not 0. A candidate below the
// least active prefill counts as if it had it. The result may be NaN or infinite,
// and is NaN if the block size is below 1.
//
// The rule is that of NVIDIA Dynamo's KV router, whose documentation explains
// the weights.
func Cost(in *Input, c *Candidate) float64 {
	p := &in.Params
	if p.BlockSize < 1 {
		return math.NaN()
	}
	block := float64(p.BlockSize)

	raw := 0.0
	if in.TrackPrefill {
		// Added as floats: the integer sum could overflow.
		raw = float64(c.ActivePrefill) + float64(in.ISL)
	}
	// The conversions around products forbid the compiler to fuse them into the
	// sum, which would break ties between equal loads on some platforms.
	credit := float64(float64(p.OverlapCredit*decay(in, c, block))*p.Tiers.Device) * c.Device
	credit = float64(credit) + float64(p.Tiers.Host*c.Host) + float64(p.Tiers.Disk*c.Disk)
	var cost float64
	if decodes(in) {
		blocks := float64(c.PotentialBlocks) - credit
		if blocks < 0 { // NaN stays NaN
			blocks = 0
		}
		cost = float64(block * blocks)
	} else {
		prefill := raw - float64(block*credit)
		if prefill < 0 { // cheaper than max; NaN stays NaN
			prefill = 0
		}
		cost = float64(p.PrefillScale*prefill) + float64(block*float64(c.PotentialBlocks))
	}
	cost += float64(float64(block*p.RequestWeight) * float64(c.Requests))
	if c.TaintWeight != 0 {
		cost *= math.Exp(-math.Tanh(c.TaintWeight))
	}
	return cost
}

// decodes reports whether the prompt is taken to be computed elsewhere.
func decodes(in *Input) bool {
	return in.Params.Role == RoleDecode && !in.TrackPrefill && in.Params.OverlapCredit > 0
}

// decay returns d of the cost rule.
func decay(in *Input, c *Candidate, block float64) float64 {
	k := in.Params.CreditDecay
	if k == 0 || !in.TrackPrefill {
		return 1
	}
	blocks := in.ISL / in.Params.BlockSize
	if in.ISL%in.Params.BlockSize > 0 {
		blocks++
	}
	// A rank read afresh may have fallen below the least that was read.
	excess := max(0, float64(c.ActivePrefill)-float64(in.LeastPrefill))
	return 1 / (1 + float64(float64(k*float64(excess/block))/float64(max(1, blocks))))
}

// finite reports whether x is neither NaN nor infinite.
func finite(x float64) bool { return math.Abs(x) <= math.MaxFloat64 }
