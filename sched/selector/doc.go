// Package selector decides on which rank a request runs. It is a sub-package
// of floor 2 and pure: it takes no lock, starts no goroutine, reads no clock
// and draws no random number but from the source it is given. Allowed sets,
// labels, overload, pins and preferred ranks are settled before it is asked;
// it chooses among the candidates that are left.
//
//	Input: candidates, parameters, randomness
//	   │
//	   ▼
//	Selector.Pick ──▶ Pick: index, cost, the cost of the runner-up
//	   │
//	   ▼                          under the lock of the chosen rank
//	Confirmer.Confirm ─ no ─▶ pick again
//	   │ yes
//	   ▼
//	Tracker.Booked ──── no ─▶ pick again
//	   │ yes
//	   ▼
//	the booking
//
// # Built in
//
// [KV] is the default: the least cost in tokens, which weighs the prompt work
// that is waiting and the blocks that are held against what the rank has
// cached; see [Cost]. [RoundRobin], [Random], [PowerOfTwo] and [LeastLoaded] do
// not look at the cache. None of them allocates in Pick, unless [Input.Scratch] is
// too short for KV at a temperature above 0.
//
// # One's own
//
// Implement [Selector] and be safe for concurrent use: picks run on the
// goroutines of the callers, many at a time. A selector without state needs
// nothing more. Between the pick and the booking the load of the chosen rank
// may change; the pick is then made again unless the selector is a [Confirmer]
// and says that it still stands. A selector with state that bookings move is a
// [Tracker]; Pick itself must not move it, since advisory selections and queries
// pick too.
//
// # Exactness
//
// Costs are float64. Every product is rounded by itself (no fused multiply-add)
// and terms are evaluated from left to right in the order in which [Cost] gives
// them, so that equal loads give equal bits and ties are ties on every
// platform. The factor of preferred taints is the exception: math.Exp and
// math.Tanh may differ in the last bit between architectures, though not between
// two ranks of one process. Integers above 2^53 are rounded.
package selector
