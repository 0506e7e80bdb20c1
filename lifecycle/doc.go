// Package lifecycle holds the authoritative load of one rank: its live bookings, the
// prefill tokens they still have to compute and the KV-cache blocks they keep. It
// stands on floor 0 and is pure: it takes no lock, starts no goroutine, draws no random
// number and reads no clock that it is not given. The owner of a [Rank] guards it, and
// every [Booking] on it, with one lock.
//
//	Rank
//	 ├─ touch order    a ─ c ─ b            every live booking, longest untouched first
//	 ├─ prefill list   a ─ b                prefill not done; a is the anchor and
//	 │                                      has been the oldest since "since"
//	 └─ prompt blocks  [1 2] ─ [4 5]        leaf of a
//	                     └──── [3 5]        leaf of b (another 5: other ancestors)
//	                   weights: what several hold counts once, sum in 1/65,536
//	    output blocks  kept by count and weight in the booking itself
//
// # Prefill
//
// Load falls in two ways: by an event (prefill done, release, transfer) and, if
// the oldest entry has an expected duration, by time alone. [Prefill] is the
// value from which the load at any instant follows, so a reader needs neither
// the lock nor the list. [Prefill.FallsTo] is its inverse.
//
// # Blocks
//
// Two prompts share a block if they agree on it and on all before it. Blocks
// that the same bookings hold lie in one run, so the tree has a node for each
// point where prompts part or end, and a booking is represented by the run that
// ends with its last prompt block, its leaf. The number of holders never grows
// from root to leaf, so the blocks that only one booking holds are the tail of
// its path.
//
// # Cost
//
// All lists are intrusive: [Rank.Book] and [Rank.Release] of a booking without
// blocks allocate nothing and take constant time. A prompt is compared with what
// is live, a map look-up for each run; what was not live yet is one new run, at
// most two allocations, and one deletion when it goes. A prompt that leaves a run
// halfway splits it, once. An output block takes constant time, amortized, also
// with a decay.
package lifecycle
