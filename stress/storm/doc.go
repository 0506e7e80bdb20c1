// Package storm lets hundreds of callers loose on one engine and checks, while
// they rage, that it keeps its promises.
//
// Callers are slow, cancel, leak their bookings, release twice, from another
// goroutine or by id with an attempt long past, and panic; a churner takes
// workers away and brings them back, drains them, overloads them, swaps profile
// and selector; the clock jumps; the code given to the engine (decision hook,
// selector, estimator, refresher) is slow, fails and panics.
//
//	callers ──▶ engine ──▶ decision hook ──▶ order (3)
//	   │           ▲
//	   │           └── churner, clock
//	   └──▶ claims, books (1, 2, 8, 9, 10)
//
//	every so often all rest: at rest (5, 6, 7), lull (7, 10)
//
// # How the invariants are checked from outside
//
// Every check is sound: whatever the interleaving, an engine that keeps the
// contract passes it. The numbers are those of the guarantees in the README of
// the repository.
//
//   - 1, no oversubscription. An owner counts its prefill in the book of its rank
//     after Schedule has returned and takes it out before it calls whatever may
//     end it, so a book never has more than the rank. The book notes since when it
//     has been above each threshold. If throughout a call all eligible ranks
//     were above, by their books, there was no witness. Where every class caps
//     the requests of a rank and nobody transfers, Loads never shows more.
//   - 2, book before answer. What the book has, Loads must show.
//   - 3, no bypass. Within a lane, decisions come in ticket order, and whoever is
//     pinned to a rank does not pass a waiter for any rank. Who was passed may only
//     have left. With Config.Exact the witness is known, and then the same holds
//     between all lanes of a class, rank by rank.
//   - 5 and 6, no lost wake-up. When nothing moves, nobody who waits could run by
//     the loads, the thresholds and the topology.
//   - 7, conservation. When nothing moves, the load of each rank is the sum over
//     the bookings that callers hold; when they hold none, everything is zero.
//   - 8, exactly once. Each booking ends once, its id knows it until then, its
//     attempts grow, and old ones touch nothing.
//   - 9, lifecycle calls return only what they may, after Close too. That they
//     never wait is the subject of tests of their own.
//   - 10, nothing left. After an error the id is free; when nobody calls there
//     are no timers, no more goroutines than before, and the counters are zero.
//
// Floor 3: it stands over the engines.
package storm
