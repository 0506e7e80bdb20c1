// Package protocol is what replicas say to each other about the load they cause, and
// what each makes of it: pure, without I/O, clock or goroutine.
//
// A replica is one process with a scheduler of its own; a peer is another. Each says
// what load it causes itself on each rank, as absolute sums, and nothing of others'.
// So nothing can conflict, and a message that is lost is healed by a later one.
//
//	local event | message | tick  →  Core  →  messages, effects
//
// # What is sent
//
// Each change of the own load is told in a Batch: the ranks that changed, with their
// sums. Batches are numbered. The number is also the version of what it says: a rank's
// load with the greater one holds. A Beat comes every 250 ms, with the number of the
// last Batch and a digest of all that the sender causes. Who finds a number missing,
// or a digest that differs from that of what it holds, asks by Want and gets a State:
// all that the sender causes, as of a number. A rank that a State does not list, and
// of which nothing later is known, has no load. A newcomer says Hello and gets a State
// of everybody; one that goes says Bye.
//
// # Guarantees
//
//   - What is held of a peer is what the peer caused at some moment for each rank, and
//     never goes back to an older one: whatever is lost, repeated or comes out of order.
//   - Once messages arrive again and the peer's load rests, all that is held of it is
//     exact within two Beats and a round trip.
//   - A peer that was not heard for DeadAfter, said Bye, or comes back as another
//     incarnation is dropped in one step: its whole column goes.
//   - What a peer says changes its own column and no other's. Its numbers are bounded
//     by the decoder; a name and its incarnation are taken for true, so
//     keeping strangers out is the transport's part.
package protocol
