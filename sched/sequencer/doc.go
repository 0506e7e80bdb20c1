// Package sequencer gives one order to those who must wait, without a goroutine
// that owns it.
//
// It is floor 2 of the library. Fairness needs one order, not one goroutine: an
// arrival pushes itself on Arrivals, where its place is its ticket, and enters
// the Turn. Whoever has the turn works through the tickets of all; nobody waits
// for the turn, only for one's own result.
//
//	arrival ─ push ─ Enter ─┬─ has the turn: epoch, epoch, … ─┬─ nothing left: give up
//	                        │                                 └─ allowance spent: hand over
//	                        └─ somebody has it: mark dirty, go and park
//
//	hand over ─ word: required ─ is a helper on its way? ─┬─ yes: go
//	                                                      └─ no: start one, go
//	helper ─ on its way no longer ─ word required? ─┬─ yes: epoch ─┬─ nothing left: end
//	             ↑                                  └─ no: end     │
//	             └── word: required ─ on its way again ────────────┘
//
// What a call does for others is bounded: it has an allowance of work. If work is
// left when that is spent, the turn is handed over to a helper, which is a
// goroutine that lives only while work is left. An idle turn has none. The turn is
// free while the helper is on its way, and between its epochs: whoever enters then
// takes it. The helper is therefore needed only for work that nobody comes for, and
// may wait long for a processor. Why nothing is lost between a helper that goes
// and a holder that hands over is argued at Turn; a model of the protocol whose
// interleavings are all explored (model_test.go) shows that, and how work is lost if
// these steps are left out or exchanged.
//
// An epoch that panics or ends its goroutine does not take the turn along: it is
// reported, and the turn is handed over on the way out.
//
// # Where the ideas are from, and what lost
//
// The idea of a number that is given together with the place in line, with the
// work done by whoever comes, is that of Pebble's commit pipeline; that of one
// thread doing the pending work of all is flat combining (Hendler, Incze,
// Shavit and Tzafrir 2010).
//
// A ticket spin lock was tried and lost: with 16 callers on two cores it falls from
// 27 M to 0.08 M pairs/s, because the next owner is rarely running.
//
// An heir was tried and lost: a holder that had run a few epochs chose one of the
// waiters, set the word to required, and woke it. The heir may leave at any moment, so
// the mark of one that left while it was chosen had to stop the hand-over; each
// hand-over cost a park and a wake of somebody whose own result was not there yet; who
// waited worked for the others, who had theirs; and where only leavers were left to
// serve there was no heir at all. A helper cannot leave, and only one is started
// however often the turn is handed over before it comes.
package sequencer
