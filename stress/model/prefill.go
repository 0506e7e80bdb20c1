package model

import (
	"math/big"
	"slices"
)

// Times are nanoseconds since the scheduler was made.

// prefill is the ordered list of bookings on a rank whose prefill is not done.
type prefill struct {
	entries []*prefillEntry
	since   int64 // since when entries[0] has been the oldest
}

type prefillEntry struct {
	tokens   int64
	expected *int64 // ns; nil for unknown
}

// clone returns a copy with the same entries.
func (p *prefill) clone() prefill { return prefill{slices.Clone(p.entries), p.since} }

func (p *prefill) insert(e *prefillEntry, now int64) {
	if len(p.entries) == 0 {
		p.since = now
	}
	p.entries = append(p.entries, e)
}

func (p *prefill) remove(e *prefillEntry, now int64) {
	i := slices.Index(p.entries, e)
	p.entries = slices.Delete(p.entries, i, i+1)
	switch {
	case i == 0:
		p.since = now
	case e.expected != nil:
		p.since = min(p.since+*e.expected, now)
	}
}

// active returns the active tokens at a time.
func (p *prefill) active(at int64) int64 {
	if len(p.entries) == 0 {
		return 0
	}
	sum, unknown := int64(0), false
	for _, e := range p.entries {
		sum += e.tokens
		unknown = unknown || e.expected == nil
	}
	oldest := p.entries[0]
	elapsed := max(0, at-p.since)
	switch d := oldest.expected; {
	case !unknown && *d == 0:
		return sum - oldest.tokens
	case !unknown:
		done := ratio(oldest.tokens, elapsed, *d, false)
		if !done.IsInt64() {
			return 0
		}
		return max(0, sum-done.Int64())
	case d == nil:
		return sum
	case *d == 0:
		return sum - oldest.tokens
	default:
		return sum - oldest.tokens + ratio(oldest.tokens, max(0, *d-elapsed), *d, true).Int64()
	}
}

// ratio returns a·b/c, exact, rounded up or down to a whole number.
func ratio(a, b, c int64, up bool) *big.Int {
	n := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	if up {
		n.Add(n, big.NewInt(c-1))
	}
	return n.Div(n, big.NewInt(c))
}

// falls returns the first time after now at which the rank is no longer busy for
// a class if nothing but time passes. Active tokens never rise by time alone, so
// it can be searched for.
func (p *prefill) falls(now int64, busy func(active int64) bool) (at int64, ever bool) {
	const step, horizon = int64(1), int64(1) << 60
	if !busy(p.active(now)) {
		return 0, false
	}
	late := step
	for busy(p.active(now + late)) {
		if late >= horizon {
			return 0, false
		}
		late *= 2
	}
	early := late / 2 // still busy
	for late-early > 1 {
		if middle := early + (late-early)/2; busy(p.active(now + middle)) {
			early = middle
		} else {
			late = middle
		}
	}
	return now + late, true
}
