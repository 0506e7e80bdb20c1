// Package sequencer gives one order to the requests that must wait, without a goroutine
// that owns it.
//
// It is floor 2 of the library. Fairness needs one order, not one goroutine: an arrival
// pushes itself on Arrivals, where its position is its ticket, and enters the Turn. The
// holder of the turn works through all tickets; no caller waits for the turn, only for
// its own result.
//
//	arrival ─ push ─ Enter ─┬─ has the turn: epoch, epoch, … ─┬─ nothing left: give up
//	                        │                                 └─ allowance spent: hand over
//	                        └─ it is held: mark dirty, go and park
//
//	hand over ─ word: required ─ is a helper on its way? ─┬─ yes: go
//	                                                      └─ no: start one, go
//	helper ─ on its way no longer ─ word required? ─┬─ yes: epoch ─┬─ nothing left: end
//	             ↑                                  └─ no: end     │
//	             └── word: required ─ on its way again ────────────┘
//
// What a call does for others is bounded: it has an allowance of work. If work is left
// when that is spent, the turn is handed over to a helper, which is a goroutine that
// lives only while work is left. An idle turn has none. The turn is free while the
// helper is on its way, and between its epochs: the next caller that enters takes it.
// So the helper is needed only if no caller enters, and may wait long for a processor.
// Why nothing is lost between a helper that goes and a holder that hands over is argued
// at Turn; a model of the protocol whose interleavings are all explored (model_test.go)
// shows that, and how work is lost if these steps are left out or exchanged.
//
// An epoch that panics or ends its goroutine does not take the turn along: it is
// reported, and the turn is handed over on the way out.
//
// # Where the ideas are from, and what lost
//
// The idea of a number that is given together with the place in line, with the work
// done by the next caller, is that of Pebble's commit pipeline; that of one thread
// doing the pending work of all is flat combining (Hendler, Incze, Shavit and Tzafrir
// 2010).
//
// A ticket spin lock was tried and lost: with 16 callers on two cores it falls from
// 27 M to 0.08 M pairs/s, because the next owner is rarely running.
//
// An heir was tried and lost: a holder that had run a few epochs chose one of the
// waiters, set the word to required, and woke it. The heir may leave at any moment, so
// the mark of one that left while it was chosen had to stop the hand-over; each
// hand-over cost a park and a wake of a waiter whose own result was not there yet;
// waiters worked for callers that had their results already; and if only leavers were
// left to serve there was no heir at all. A helper cannot leave, and only one is
// started however often the turn is handed over before it comes.
package sequencer
