package lifecycle

import "math"

// Never is a bound that no load is above.
const Never = math.MaxInt64

// BusyAbove is the load above which a rank is busy: with more of any one of the
// three than it says. It is the only place where a load is compared with what
// makes a rank busy.
type BusyAbove struct {
	// Prefill is in active prefill tokens, Requests in live bookings, Blocks in
	// active blocks; Never for one that does not count.
	Prefill, Requests, Blocks int64
}

// NeverBusy is above every load.
func NeverBusy() BusyAbove { return BusyAbove{Prefill: Never, Requests: Never, Blocks: Never} }

// Exceeded reports whether a rank with so much is busy. The prefill is that of
// the instant in question.
func (b *BusyAbove) Exceeded(prefill, requests, blocks int64) bool {
	return prefill > b.Prefill || requests > b.Requests || blocks > b.Blocks
}

// Busy reports whether a rank with the load is busy at the time at (ns).
func (b *BusyAbove) Busy(load *Load, at int64) bool {
	return b.Exceeded(load.Prefill.Active(at), load.Requests, load.Blocks)
}

// IdleAt returns the earliest time (ns) at which a rank with the load is not busy
// if nothing but time passes, and false if time alone never ends it. For a load
// that does not decay and is not busy the time is 0.
func (b *BusyAbove) IdleAt(load *Load) (at int64, ever bool) {
	if b.Exceeded(0, load.Requests, load.Blocks) {
		return math.MaxInt64, false
	}
	return load.Prefill.FallsTo(b.Prefill)
}

// Watched says which parts of a load beside the prefill can make a rank busy.
type Watched struct{ Requests, Blocks bool }

// Or returns what either watches.
func (w Watched) Or(other Watched) Watched {
	return Watched{Requests: w.Requests || other.Requests, Blocks: w.Blocks || other.Blocks}
}

// Frees reports whether a rank whose load goes from before to after may cease to
// be busy, at once or at another instant than before: a part that is watched goes
// down, or the prefill decays otherwise. A prefill that begins to decay on a rank
// without one counts as that.
func (w Watched) Frees(before, after *Load) bool {
	was, is := &before.Prefill, &after.Prefill
	switch {
	case is.Elsewhere < was.Elsewhere:
		return true
	case is.Sum < was.Sum,
		w.Requests && after.Requests < before.Requests,
		w.Blocks && after.Blocks < before.Blocks:
		return true
	case !was.HasAnchor:
		return is.Decays()
	}
	return is.AnchorTokens != was.AnchorTokens || is.AnchorSince != was.AnchorSince ||
		is.AnchorDuration != was.AnchorDuration || is.HasAnchor != was.HasAnchor
}
