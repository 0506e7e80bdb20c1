// Package linear takes concurrent histories of a scheduler and has porcupine
// decide whether some sequential order explains each of them.
//
// A few clients call a small pool of two or three ranks at once: Schedule, Query,
// Select, PrefillDone, Release, Transfer, contexts that end, workers that go and
// come back as the same process or as another, overload, workers that are set
// aside, profiles that are swapped, a clock that moves a few times, and in the end
// Close. Six classes have thresholds, caps, guards, ratios, limits, orders and quanta
// that make requests wait for each other; one never queues and one has no threshold,
// and a swap of profiles turns the one kind into the other. Requests are pinned, restricted,
// urgent, or ask not to wait.
//
// # How a waiting call is modelled
//
// A call is one step if it is served or refused as it arrives. One that the
// decision hook was told to wait is two: it is queued, between its call and the
// telling; and it is granted, or leaves, between its call and its return. Nobody
// serves the queue in the specification: a grant is a step of its own, and it may
// be taken whenever the turn of that request has come. So "dispatch happens in the
// same step that freed the capacity" is relaxed to "some time after, but before
// the scheduler rests", which is what an engine without an actor can promise, while
// everything about whose turn it is stands in the state: the queue in arrival
// order, visiting order, deficits and visits.
//
// # Checked here
//
//   - Gate: whoever is admitted, queued or refused has been so right at one
//     instant: with a witness, with all ranks busy, with the ratio reached.
//   - No bypass, order within a class, deficit round robin over the classes: a
//     request is granted only when it is its turn among all who can run then.
//   - Limits: a refusal names the limit, usage and bound, or the counters, of one
//     instant at which the request had to wait and nobody of its class could run.
//   - Caps and guards: a class that chooses from idle ranks is given one, and nobody
//     is given a rank that is guarded against its class.
//   - Never-queue classes, overload, missing ranks, closing: the right answer for
//     one instant.
//   - Lifecycle: each call changes what it says it changed, once; an old attempt
//     changes nothing; nothing is left of a booking that is released, moved or
//     whose worker was removed.
//   - A caller that leaves leaves nothing, also if that raced with its grant.
//   - At rest: no request that could run waits; loads, counters and deficits are the
//     sums over who is booked and who waits; all released is zero.
//
// # Left open, because the contract does
//
//   - Which rank is chosen: it must be eligible and not overloaded. That it is
//     the least of what the loads were during the call is for the online checker
//     of package storm.
//   - Who decides may have read the clock before its last move, and who comes to wait
//     at any time since the call began.
//   - Removing a worker, or putting another process in its place, is several steps: it leaves the table, and then each of
//     its ranks drops its bookings, before the call returns.
//   - A call on a booking that was moved while it was under way may be told that
//     its attempt is old.
//   - Decisions are tried in the order in which the hook was told of them, which is
//     mostly right and makes the search short; other orders are tried then. That
//     they are told in order is for package storm.
//
// Time moves in steps as long as a guard takes to begin, and ends nothing: due times,
// ttls, ages, waits for an endpoint and the decay of prefill are for the differential
// test and for package storm; so are cached tokens, blocks and selectors.
package linear
