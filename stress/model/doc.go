// Package model is the scheduling contract written down a second time, as dumbly
// as possible: one mutex, plain slices and maps, no heaps, no indexes, no memory
// of what was blocked. At every decision it looks at every rank and every waiting
// request. It shares nothing with the packages it checks: it reads its own policy
// YAML, counts its own loads and keeps its own round.
//
// It stands behind the same interface as the engines, so that scripts and the
// differential test run it beside them. Each file is one part of the contract:
//
//	policy.go   classes, the profile, when a request must wait, limits
//	yaml.go     the policy file
//	prefill.go  active prefill tokens of a rank and their decay
//	blocks.go   decode blocks of a rank
//	choose.go   which ranks are eligible, what they cost, which one is chosen
//	order.go    which waiter goes first within a class
//	round.go    which class goes first: deficit round robin
//	arrive.go   what becomes of an arrival
//	dispatch.go which waiter runs next, and how a waiting request leaves
//	booking.go  the life of a booking
//	topology.go workers, overload, availability
//	timers.go   what happens because time passes
//	engine.go   the calls
//
// [Class], [Round] and [Entry] are values without a clock or a lock; package
// linear builds its sequential specification from them too.
//
// The package stands on floor 3. It is slow by design.
package model
