// Package clock gives the scheduler its time, so that a test or a simulation
// can give it another.
//
// Floor 0, unlike the packages beside it: it imports nothing of the project.
package clock

import "time"

// Clock tells the time and runs functions later. It must be safe for
// concurrent use, and its time must not go back.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on a goroutine of the clock's choice once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending AfterFunc.
type Timer interface {
	// Stop prevents the function from being run and reports whether it did.
	Stop() bool
}

// System returns the clock of the operating system. Within a
// testing/synctest bubble it is the bubble's clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
