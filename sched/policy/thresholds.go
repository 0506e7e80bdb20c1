package policy

import "math"

// HasPrefillThreshold reports whether active prefill tokens can make a rank busy
// for this class.
func (c *Class) HasPrefillThreshold() bool {
	return c.BusyThreshold != nil || c.BusyThresholdFrac != nil
}

// CanQueue reports whether a busy rank can make a request of this class wait, which
// takes a threshold: of prefill tokens, requests or KV blocks.
func (c *Class) CanQueue() bool {
	return c.HasPrefillThreshold() || c.MaxRequestsPerRank > 0 || c.KVBusyThresholdFrac != nil
}

// BusyAbove returns the number of active prefill tokens above which a rank of a
// worker with that max_batched_tokens (greater than 0) is busy for this class: active > tokens
// says exactly what comparing with both prefill thresholds says, for every int64. It
// returns false if the class has none.
func (c *Class) BusyAbove(maxBatchedTokens int64) (tokens int64, ok bool) {
	if !c.HasPrefillThreshold() {
		return 0, false
	}
	tokens = math.MaxInt64
	if c.BusyThreshold != nil {
		tokens = *c.BusyThreshold
	}
	if c.BusyThresholdFrac != nil {
		tokens = min(tokens, lastNotAbove(*c.BusyThresholdFrac*float64(maxBatchedTokens)))
	}
	return tokens, true
}

// BlocksAbove returns the number of active blocks above which a rank of a worker
// with that many KV blocks in total is busy for this class, as BusyAbove does for
// prefill tokens. It returns false if the class has no such threshold or the total
// is not known, which 0 means.
func (c *Class) BlocksAbove(totalKVBlocks int64) (blocks int64, ok bool) {
	if c.KVBusyThresholdFrac == nil || totalKVBlocks <= 0 {
		return 0, false
	}
	return lastNotAbove(*c.KVBusyThresholdFrac * float64(totalKVBlocks)), true
}

// Guards reports whether a request of this class can come to guard the ranks that it
// waits for: the class has GuardAfter and can have a waiter.
func (c *Class) Guards() bool {
	_, never := c.NeverQueues()
	return c.GuardAfter > 0 && !never
}

// BoundByGuards reports whether the guards of other classes bind this one: not a
// class that never waits.
func (c *Class) BoundByGuards() bool {
	_, never := c.NeverQueues()
	return c.CanQueue() && !never
}

// WaitsForEndpoint reports whether a request of this class may wait while it has no
// rank that it may use.
func (c *Class) WaitsForEndpoint() bool {
	_, never := c.NeverQueues()
	return c.EndpointWait > 0 && !never
}

// lastNotAbove returns the greatest n for which float64(n) > bound is false.
// That is the floor of the bound only while floats resolve single integers;
// from 2^53 on the conversion rounds n, and up to half the gap to the next
// float still rounds down to the bound.
func lastNotAbove(bound float64) int64 {
	const limit = 1 << 63
	switch {
	case bound >= limit:
		return math.MaxInt64
	case bound < -limit || math.IsNaN(bound):
		return math.MinInt64
	}
	n := int64(math.Floor(bound))
	if bound < 1<<53 {
		return n
	}
	next := math.Nextafter(bound, math.Inf(1))
	n += int64((uint64(next) - uint64(bound)) / 2)
	if float64(n) > bound {
		n-- // the midpoint rounds to even, here upwards
	}
	return n
}

// MustWait reports whether a request has to wait, given how many ranks are eligible for
// it (overload aside) and how many of those are busy for this class or overloaded. With
// no eligible rank no request waits for a busy one.
func (c *Class) MustWait(blocked, eligible int) bool {
	if !c.CanQueue() || eligible <= 0 {
		return false
	}
	if c.BusyWorkerRatio == 0 {
		return blocked == eligible
	}
	return float64(blocked) >= c.BusyWorkerRatio*float64(eligible)
}
