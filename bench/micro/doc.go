// Package micro compares the engines in small closed loops: callers that do one
// thing over and over, without think time, on one engine at a time.
//
//	Rows ── contenders (an engine, or something that does part of its job)
//	          └─ a round: build, warm up, measure, release all, check, close
//
// The engines take turns round by round, each round beginning with the next
// engine, so that what the machine does meanwhile falls on all alike. Figures
// are medians over the rounds; ratios are ratios of medians.
//
// # How a round is measured
//
// Callers count for themselves and look at one shared word that says what phase
// the round is in. Latency is taken of every k-th operation of a caller, in a
// histogram of its own (HdrHistogram, two significant digits, nothing
// allocated). k follows from the CPU time of an operation in the warm-up, so that
// reading the clock adds at most two per cent; what a reading takes is subtracted from
// each latency. CPU is that of the process (getrusage), garbage collection and
// harness included, or that of the server, where it is another process (http);
// allocations are those of the process.
//
// On a busy machine the goroutine that measures may be put aside between reading
// clock and counters and telling the callers that the phase begins or ends. If
// that takes more than a twentieth of the round, the phase is measured anew, up to
// five times; what then is still uncertain is left out.
//
// An engine in which all callers advance in step (each cycle of the actor's
// channel serves every caller once) is measured over whole cycles, if the round
// is too short for many of them.
package micro
