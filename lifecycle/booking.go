package lifecycle

import "time"

// Booking is one request's claim on a rank. The caller supplies the record and
// fills in the exported fields before Book; from then until Release it must not
// change Tokens, Expected and Tracked itself. After Release, or once its rank
// has been given up whole, the record may be booked again.
type Booking struct {
	// ID is the request's id. It is the caller's: nothing here reads it.
	ID string
	// Attempt numbers the bookings of one request. It is the caller's.
	Attempt uint64
	// Tokens are the prefill tokens as booked on the present rank; not
	// positive means none.
	Tokens int64
	// Expected is how long the prefill should take, or NoDuration.
	Expected time.Duration
	// ISL is the input length in tokens. It is the caller's.
	ISL int64
	// Cached are the cached prompt tokens on the rank. It is the caller's.
	Cached int64
	// Touched is the time (ns) of the last call on the booking. It is the caller's,
	// which keeps it in step with Touch.
	Touched int64
	// Serial is the place of the booking in booking order. It is the caller's.
	Serial uint64

	// Tracked says whether the prefill tokens count.
	Tracked bool
	// A Rank's, like bookingState, but here they take no room.
	inPrefill, prefillDone bool

	bookingState
}

// bookingState is what a Rank keeps in a Booking.
type bookingState struct {
	rank *Rank // nil while not booked

	touchPrev, touchNext     *Booking
	prefillPrev, prefillNext *Booking

	promptBlocks int
	leaf         *run // ends with the last prompt block

	// The last tailLen prompt blocks are owned (see run): only this booking
	// holds them and each weighs tailWeight. tailAbove is the run before them,
	// nil if there is none. It and some above it may be held by this booking
	// alone too, if they were shared at the last decay or since.
	tailAbove  *run
	tailLen    int64
	tailWeight int64

	// One output block is added per call, so neither the count nor, at 2^16
	// a block, the weight can reach the end of int64.
	outputs      int64
	outputWeight int64
}

// Live says whether the booking is on a rank. It is guarded, like the booking,
// by that rank's lock.
func (b *Booking) Live() bool { return b.rank != nil }

// PrefillDone says whether the prefill was reported done.
func (b *Booking) PrefillDone() bool { return b.prefillDone }

// OutputBlocks returns the number of output blocks added, on all ranks.
func (b *Booking) OutputBlocks() int64 { return b.outputs }

// PromptBlocks returns the number of prompt blocks booked, shared ones
// included.
func (b *Booking) PromptBlocks() int { return b.promptBlocks }

// holds says whether r, which has exactly one holder, is held by b.
func (b *Booking) holds(r *run) bool {
	if r.owner != nil {
		return r.owner == b
	}
	// Not in the owned tail, so it can only be above it.
	for own := b.tailAbove; own != nil && own.refs == 1; own = own.parent {
		if own == r {
			return true
		}
	}
	return false
}
