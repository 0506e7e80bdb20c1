// Package selector decides on which rank a request runs.
//
// Most programs use one of its selectors:
//
//	sched.Config{Selector: selector.LeastLoaded()} // or s.SetSelector, at run time
//
// [KV] is the default: the least cost in tokens, which weighs the prompt work that is
// waiting and the blocks that are held against what the rank has cached; see [Cost].
// [RoundRobin], [Random], [PowerOfTwo] and [LeastLoaded] do not look at the cache.
// Allowed sets, required labels, overload, pins and preferred ranks are decided before
// the selector is asked; it chooses among the candidates that are left.
//
// # Custom selectors
//
// [Compose] makes a selector of three steps, each optional: filter, score, pick.
//
//	selector.Compose(selector.Policy{
//		Name:   "long prompts to big workers",
//		Needs:  selector.NeedsWorkers | selector.NeedsCache,
//		Filter: func(in *selector.Input, i int) bool { return in.ISL <= 8192 || in.Workers[i].HasTaint("big") },
//		Score:  func(in *selector.Input, i int) float64 { return -in.Candidates[i].Device },
//	})
//
// Needs says what the steps read: load, live blocks, cache, labels, facts of the
// request; without it, everything. What it leaves out is zero and is not looked up,
// and a selector that does not look at loads is not asked again because one has
// changed. For full
// control implement [Selector], and [Declarer] with it.
//
// A selector must be safe for concurrent use: picks run on the goroutines of the
// callers, many at a time. It gets a copy of what is decided by, so it cannot break
// that. If it panics, fails, chooses a rank that is not there or by a cost that is not
// finite, the request gets sched.ErrSelector with the details, and no other request is
// affected. If it wants none of the candidates it returns [ErrNoCandidates], and the
// request gets sched.ErrNoEndpoints. A slow one holds up the waiters in line with the
// request and nothing else: bookings end, callers leave, and requests that need not
// wait are decided. A selector must not wait for the scheduler, nor end its goroutine.
//
// That a request must wait is decided without the selector: by the load of all its
// eligible ranks, those that a filter rules out included. Put what all requests of a
// kind need into Request.RequiredTaints or Allowed.
//
// # How it is asked
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
// Between the pick and the booking the load of the chosen rank may change; the
// pick is then made again, unless the selector says that it still stands: those of
// this package as a [Confirmer], any other by not needing loads. [RoundRobin] is
// moved by bookings alone, as a [Tracker]: advisory selections and queries pick
// too, and must change nothing. Code that is not of this package is never called
// under a lock.
//
// The package is a sub-package of floor 2 and pure: it takes no lock, starts no
// goroutine, reads no clock and draws no random number but from the source it is
// given. No selector allocates in Pick, unless [Input.Scratch] is too short.
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
