// Package queue decides whose turn it is among the requests that wait.
//
// It is floor 2 of the library and pure: it takes no locks, starts no goroutine, reads
// no clock and draws no random number. The owner of a Queue gives it the time and a
// Test that says whether a lane can run.
//
//	Queue ── classes in visiting order (deficit round robin)
//	           └─ lanes: requests with equal constraints; all can run or none
//	                └─ heaps: by priority, due time, score, arrival
//	                          by priority, age (if the class has a maximum)
//
// A lane that was found blocked is remembered as such until a hint, a world
// change or an instant known beforehand (prefill decay) may have changed that.
// This is an economy only: the outcome is as if all lanes were tested at every
// decision.
//
// Line puts the rules of admission around the queue: which requests are admitted
// directly, which stand in line, and which are refused.
package queue
