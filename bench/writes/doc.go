// Command writes counts what an operation of the scheduler writes to memory that
// other callers write too: what more cores would contend for, counted on two.
//
//	go run ./bench/writes
//
// It runs itself as a traced process, in which two callers on two processors take
// turns, with other ids and other ranks. Each operation is executed instruction by
// instruction (ptrace), with the caller's caches of the runtime filled, and every
// store is decoded: locked ones (LOCK prefix, or XCHG with memory) are counted, and
// the cache lines that a store touches are gathered. A line that both callers write
// in the same operation is shared between callers that have nothing in common but
// the scheduler. Stacks and what each caller keeps to itself drop out, as only one
// of the two writes there.
//
// It works on linux/amd64, where the system allows ptrace. Counts do not depend on
// the machine's speed. Each operation is counted three times, and the count in the
// middle is told: what happens now and then only (a cache of the runtime that is
// refilled, a table that grows) is not seen.
package main
