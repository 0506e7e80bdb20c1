// Package pool takes one look at the ranks on behalf of one request: which ranks are
// eligible, whether the request must wait, and which rank is chosen.
//
// It stands on floor 2 between the pure packages (policy, selector, queue) and
// package sched, and is used by the scheduler and by the actor reference alike,
// so that they differ in concurrency alone. A Look is scratch space of one
// goroutine; a World is immutable. Nothing here takes a lock, but for the methods
// that say so and for Few, which has callers without locks take turns at long looks.
//
// # What a look costs
//
// A look by way of the load index reads the load of the ranks that concern the
// request, of one that is the least loaded of the others, and of those that decay and
// may be less; and some hundred words of the index, whatever the pool and whatever is
// excluded: see [shards.LoadIndex]. So does a gate. All ranks are looked at with a
// temperature, preferred taints, a prefill scale of the request's own, ties by rank,
// a selector of the embedder's, and while the table changes.
package pool
