package selector

import "math"

// CostParts are the terms of [Cost], all in tokens but Decay and TaintFactor.
type CostParts struct {
	// Raw is the prompt work on the rank with the request: active prefill + ISL,
	// 0 if prefill is not tracked.
	Raw float64 `json:"raw"`
	// Device, Host and Disk are the credit for the blocks cached in each tier,
	// credit decay applied.
	Device float64 `json:"device_credit"`
	Host   float64 `json:"host_credit"`
	Disk   float64 `json:"disk_credit"`
	// Decay is what is left of the device credit on a busy rank, in (0,1].
	Decay float64 `json:"decay"`
	// Prefill is the scaled prompt work left after the credit.
	Prefill float64 `json:"prefill"`
	// Decode is the blocks held with the request on the rank, as tokens; in a decode
	// pool the credit is taken from it.
	Decode float64 `json:"decode"`
	// Requests is what the active requests weigh.
	Requests float64 `json:"requests"`
	// TaintFactor multiplies the sum: below 1 if preferred taints draw the request
	// here, above 1 if they keep it away.
	TaintFactor float64 `json:"taint_factor"`
	// Total is the cost: (Prefill + Decode + Requests) × TaintFactor.
	Total float64 `json:"total"`
}

// Parts returns the cost of c with its terms. Total is Cost, bit for bit.
func Parts(in *Input, c *Candidate) CostParts {
	p := &in.Params
	block := float64(p.BlockSize)
	parts := CostParts{Decay: 1, TaintFactor: 1, Total: Cost(in, c)}
	if p.BlockSize < 1 {
		return parts
	}
	if in.TrackPrefill {
		parts.Raw = float64(c.ActivePrefill) + float64(in.ISL)
	}
	parts.Decay = decay(in, c, block)
	parts.Device = block * p.OverlapCredit * parts.Decay * p.Tiers.Device * c.Device
	parts.Host = block * p.Tiers.Host * c.Host
	parts.Disk = block * p.Tiers.Disk * c.Disk
	parts.Prefill = p.PrefillScale * max(0, parts.Raw-(parts.Device+parts.Host+parts.Disk))
	parts.Decode = block * float64(c.PotentialBlocks)
	if decodes(in) {
		parts.Prefill, parts.Decode = 0, max(0, parts.Decode-(parts.Device+parts.Host+parts.Disk))
	}
	parts.Requests = block * p.RequestWeight * float64(c.Requests)
	if c.TaintWeight != 0 {
		parts.TaintFactor = math.Exp(-math.Tanh(c.TaintWeight))
	}
	return parts
}

// Finite reports whether every term is, as JSON needs it.
func (p CostParts) Finite() bool {
	for _, x := range [...]float64{
		p.Raw, p.Device, p.Host, p.Disk, p.Decay, p.Prefill, p.Decode, p.Requests, p.TaintFactor, p.Total,
	} {
		if !finite(x) {
			return false
		}
	}
	return true
}
