// Package script runs scheduling scripts: text files that say what happens to a
// scheduler, command by command, and what must come of it.
//
// A script is a file in the format of github.com/cockroachdb/datadriven, a
// command line, optional input lines, "----" and the expected output:
//
//	new block=16
//	----
//	ok
//
//	worker id=1
//	----
//	ok
//
//	schedule id=a isl=32
//	----
//	a -> 1/0 cached=0
//
// The same script runs against every engine, so that engines can be compared.
// It is deterministic although engines are concurrent: time is a clock.Manual
// that only the script moves, each call that may wait has a goroutine of its
// own, what was decided is read from the engine's decision hook in decision
// order, and a command is over when the engine has settled and each call that a
// decision ended has returned.
//
// The package stands on floor 3, over any engine.Engine; it imports none.
package script
