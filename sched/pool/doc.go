// Package pool takes one look at the ranks on behalf of one request: who is
// eligible, whether the request must wait, and which rank is chosen.
//
// It stands on floor 2 between the pure packages (policy, selector, queue) and
// package sched, and is used by the scheduler and by the actor reference alike,
// so that they differ in concurrency alone. A Look is scratch space of one
// goroutine; a World is immutable. Nothing here takes a lock, but for the methods
// that say so.
package pool
