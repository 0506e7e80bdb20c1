// Package shards splits the load of a pool by what is needed together: one lock for
// each rank, and a published load for readers.
//
// It is floor 1 of the library and knows the floors below: lifecycle (the
// accounting of one rank) and capacity (hints).
//
//	Table (immutable, replaced whole)
//	  └─ Slot ─ Shard ─┬─ mutex ── lifecycle.Rank   the authoritative state
//	                   ├─ published load            read without the lock
//	                   └─ hint mark ── capacity.Ring
//	Prefixes: path of block hashes → ranks that hold it, and how deep
//	LoadIndex: the least loaded of many ranks, and how many are busy
//	Selection: the ranks that a request's constraints leave
//
// # Lock order
//
// Outermost first:
//
//  1. sched.Scheduler.edit, which serialises changes of the table, and under it what
//     peers said (sched.Scheduler.peers);
//  2. one rank; or two or more, in the order of their id, then of their age;
//  3. the count of busy ranks of LoadIndex;
//  4. leaves, taken under any of these and never while holding each other: a
//     stripe of the table of ids, an edge of Prefixes (and under it a bucket of its
//     map) or its list of seats, a group of LoadIndex or its list of places, the ledger of waiting requests, the decision journal, the ttl timer, the
//     ranks that went and of which peers must learn;
//  5. the locks of the injected clock and random source.
//
// The turn (package sequencer) is not a lock, and no caller waits for it; its holder
// takes the locks above like any other caller. No callback of the embedder's, channel
// send or wake happens under a rank's lock; the clock and an injected random source are
// read there and must not call the scheduler.
//
// # What is published, and in which order
//
// A change under a rank's lock publishes the load, and then, if prefill load went down
// or decays otherwise than before, sets the rank's mark and pushes a hint: all in one
// section. So a goroutine that takes the lock later finds the new load together with
// the mark, and one that clears the mark first and reads the load after it misses no
// change. Go's atomics are sequentially consistent, which the handshake with a waiter
// relies on too: a releaser writes the load and then reads whether a request waits, a
// waiter says that it waits and then reads the load, so at least one of them sees the
// other.
package shards
