// Package sched decides for each request to a pool of LLM workers whether it may run
// now and on which rank, and keeps track of the load it causes until it is done. It is
// embedded: there is no server. There is no goroutine either, but one for observers
// while events are pending, and a helper while there is more work for the waiters than
// one caller should do. There is no timer while no request waits.
//
//	s, err := sched.New(sched.Config{BlockSize: 16})
//	err = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: "http://gpu-1:8000"})
//	b, err := s.Schedule(ctx, &sched.Request{ID: "r1", ISL: 1200})
//	// send the request to b.Placement().Endpoint; then
//	b.PrefillDone() // at the first token
//	b.Release()     // at the end
//
// # Asking
//
//   - [Scheduler.Do] books a rank, at once or when the request's turn comes, calls a
//     function with the booking, and releases it on every way out. It tries another
//     worker when one fails before any output.
//   - [Scheduler.Schedule] returns the [Booking]; its owner releases it.
//   - [Scheduler.Query] waits in line and says where the request would go.
//   - [Scheduler.Select] says where it would go now; it does not wait and changes
//     nothing.
//
// A [Request] says how long its prompt is, which ranks have parts of it in a cache,
// which workers may serve it, and which policy class it asks for. A policy file
// (package policy) says when requests of a class wait, in which order, how many may,
// and how classes share; without one no request ever waits.
//
// # Reporting
//
// A booking loads its rank until it is released: report the first token
// ([Booking.PrefillDone]), each further block of output ([Booking.AddOutputBlock]) and
// the end ([Booking.Release]). Each of them may be called from any goroutine, twice,
// too late and after Close, and never waits. The same calls exist on [Scheduler] by
// request id and attempt. [Booking.Done] tells the owner of a booking that it ended
// without it.
//
// # The pool
//
// Workers are announced one by one ([Scheduler.UpsertWorker],
// [Scheduler.RemoveWorker]) or all at once ([Scheduler.SetWorkers]), drained
// ([Scheduler.DrainWorker], [Scheduler.UndrainWorker]) and reported overloaded
// ([Scheduler.SetOverloaded]). The policy and the selector are replaced while requests
// wait ([Scheduler.SetProfile], [Scheduler.SetSelector]).
//
// # Watching
//
// [Scheduler.Stats] and [Scheduler.Loads] give figures, [Scheduler.Explain] says what
// would become of a request and why, [Scheduler.Snapshot] shows the waiters and why
// ranks are busy. An [Observer] receives what becomes of each request; a logger
// receives what should be rare ([WithLogger]). Modules under integrations export all
// that.
//
// # Errors
//
// Every error matches one of the sentinels, such as [ErrQueueFull], with errors.Is, and
// is an [*Error] with the details, for errors.As. No method panics because of its
// arguments, nor because a selector, hook or estimator panics.
//
// # Guarantees
//
//   - Selection and booking are one step: any selection that starts after
//     Schedule returned sees its booking, and no capacity is given out twice.
//   - Once a request waits, no later one takes capacity whose turn was the
//     former's. Classes share by deficit round robin, in tokens.
//   - When nothing moves, no request that could run is waiting.
//   - A rank's load is the sum over its live bookings; all released is exactly 0.
//   - Lifecycle calls never wait for a turn, are idempotent, and go on working after
//     Close.
//   - A caller whose context ends leaves nothing behind, also if that raced with
//     its grant.
//
// # How it works
//
// The rest is for readers of the code; docs/concurrency.md in the repository has it
// with pictures, and docs/README.md has a glossary. State is split by what is needed
// together, and callers do the work on their own goroutine.
//
//	Schedule ── class ── no request waits, and it need not? ── look ── choose ── book (one rank's lock)
//	                        │ no                                                    │ lost the race: look again
//	                        ▼
//	            push ticket ── enter the turn ── epoch: refresh, serve, arrivals
//	                        │                       each grant: look, choose, book, settle, wake
//	                        ▼
//	            park on own channel until settled
//
//	Release ── rank's lock: load, mark, hint ── a request waits? ── enter the turn
//
// The fast path writes no shared line but its rank's and its id's, those of striped
// counters and, with block hashes, those of the prefix index (shards.Prefixes). The
// tool bench/writes counts them. The waiting count is raised before an arrival is
// published, and read again under the rank's lock before a booking, so that a caller
// that pauses in between does not take what was freed for a request that started to
// wait meanwhile.
//
// The turn is a word (package sequencer). Its holder runs epochs: pieces of the waiting
// side's work, bounded by a budget that counts work, in ticket order. The epoch tests
// the lanes for a freed rank, in order, until one can use it (package queue). A grant
// in the epoch books only if the rank's hint mark is clear: a set mark means that
// something was freed there which the queue has not looked at yet. A caller that does
// not get the turn marks it dirty and goes on.
//
// A waiting request is settled once, by a compare-and-swap: granted, rejected or left.
// A leaver settles itself, takes its counters back and pushes itself on the stack of
// leavers, which the next epoch empties before it decides anything. If the grant came
// first, the side that notices undoes the booking.
//
// The lock order and the memory ordering are written down in package shards, the
// lost-wakeup arguments in packages sequencer and capacity, and the steps of
// select-and-book at the type that makes them, in book.go.
package sched
