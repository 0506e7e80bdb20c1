package policy

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"
)

func (p *parser) warning(s *scope, at place, says string) {
	if len(p.warnings) < maxFaults {
		p.warnings = append(p.warnings, fmt.Sprintf("line %d: %s %s", s.line(at), s.path(at), says))
	}
}

// notTaken notes a key that is accepted and not taken over, and what to set instead.
func (p *parser) notTaken(s *scope, at place, n *yaml.Node, instead string) {
	if n != nil {
		p.warning(s, at, "is not taken over: "+instead)
	}
}

// warnUnused notes the keys of a class that never apply, because no request waits in
// it. A limit of 0 asks for just that, but makes no sense beside what is for the
// waiters.
func (p *parser) warnUnused(s *scope, c *Class, i int) {
	limited := func(limit *int64) bool { return limit != nil && *limit > 0 }
	_, never := c.NeverQueues()
	for _, unused := range [...]struct {
		key  string
		set  bool
		says string
	}{
		{keyAge, c.MaxQueueAge > 0 && !c.mayHaveWaiters(), neverWaits},
		{keyRequestLimit, limited(c.Limits.Requests) && !c.mayHaveWaiters(), neverWaits},
		{keyRawLimit, limited(c.Limits.RawTokens) && !c.mayHaveWaiters(), neverWaits},
		{keyCachedLimit, limited(c.Limits.CachedTokens) && !c.mayHaveWaiters(), neverWaits},
		{keyGuard, c.GuardAfter > 0 && never, neverQueues},
		{keyEndpointWait, c.EndpointWait > 0 && never, neverQueues},
	} {
		if unused.set {
			p.warning(s, place{inClass, i, unused.key}, unused.says)
		}
	}
}

const (
	neverWaits = "never applies, as no request waits in a class without a threshold: " + keyThreshold + ", " +
		keyFrac + ", " + keyMaxRequests + " or " + keyKVFrac
	neverQueues = "never applies, as no request waits in a class with a limit of 0"
)

// mayHaveWaiters reports whether anything can make a request of the class wait.
func (c *Class) mayHaveWaiters() bool { return c.CanQueue() || c.EndpointWait > 0 }

// warnSurprises notes shapes of a profile that do what their author rarely means.
func (p *parser) warnSurprises(s *scope, classes []Class) {
	lower := lowerThresholds(classes)
	starved := false // some class may wait without bound, as it guards nothing
	for i := range classes {
		starved = starved || lower[i] && classes[i].GuardAfter == 0
	}
	for i := range classes {
		c := &classes[i]
		gate, zero := keyThreshold, isZero(c.BusyThreshold)
		if !zero && c.BusyThresholdFrac != nil && *c.BusyThresholdFrac == 0 {
			gate, zero = keyFrac, true
		}
		if zero && c.ChooseFrom != ChooseIdle {
			p.warning(s, place{inClass, i, gate}, "is a gate and no cap: while another rank is free, a busy one may still be chosen; "+
				keyChooseFrom+": idle makes it one prompt at a time")
		}
		if lower[i] && c.GuardAfter == 0 {
			says := keyGuard + " bounds that"
			if c.BusyWorkerRatio != 0 {
				says = keyGuard + " bounds that, and needs a class without " + keyRatio
			}
			p.warning(s, place{inClass, i, c.thresholdKey()}, "is lower than that of another class, whose requests may keep every rank above it, so that this class waits without bound: "+says)
		}
		if c.MaxQueueAge > 0 && c.CanQueue() && starved {
			p.warning(s, place{inClass, i, keyAge}, "orders requests within the class alone: it bounds no wait among classes whose prefill thresholds differ, "+keyGuard+" does")
		}
	}
}

// thresholdKey is the key of the class's prefill threshold.
func (c *Class) thresholdKey() string {
	if c.BusyThreshold != nil {
		return keyThreshold
	}
	return keyFrac
}

// lowerThresholds says of each class whether it calls a rank of some worker busy at
// fewer prefill tokens than another class that can make a rank that busy and waits
// itself. No threshold binds a class that never waits, so no key helps there.
func lowerThresholds(classes []Class) []bool {
	lower := make([]bool, len(classes))
	fractions := false
	for i := range classes {
		fractions = fractions || classes[i].BusyThresholdFrac != nil
	}
	// What a fraction comes to depends on the worker: it is compared at every power
	// of two.
	for batched := int64(1); batched > 0 && (batched == 1 || fractions); batched *= 2 {
		highest := int64(-1)
		above := func(c *Class) int64 {
			if tokens, ok := c.BusyAbove(batched); ok {
				return tokens
			}
			return math.MaxInt64
		}
		for i := range classes {
			if classes[i].BoundByGuards() {
				highest = max(highest, above(&classes[i]))
			}
		}
		for i := range classes {
			if classes[i].BoundByGuards() && above(&classes[i]) < highest {
				lower[i] = true
			}
		}
	}
	return lower
}
