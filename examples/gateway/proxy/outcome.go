package proxy

import (
	"errors"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Outcome is what became of a request, for metrics.
type Outcome struct {
	// Status is what the client was told, 499 if it did not wait for its answer, 0 if
	// nothing could be told.
	Status int
	// Line is that of the request's model, nil if it has none.
	Line *Line
	// Class is the policy class in which it was admitted or refused; empty if it came
	// to neither.
	Class string
	// ClassUnknown: it asked for a class that the policy does not have.
	ClassUnknown bool
	ClassAsked   string
	Tries        int
	// FirstByte is how long the client waited for its answer to begin; 0 if it did not.
	FirstByte time.Duration
}

func (x *exchange) outcome() Outcome {
	o := Outcome{Status: x.status, Line: x.line, Class: x.class, ClassUnknown: x.classUnknown(), ClassAsked: x.asked, Tries: x.tries}
	if full := new(sched.Error); o.Class == "" && errors.As(x.problem, &full) {
		o.Class = full.Class
	}
	if !x.first.IsZero() {
		o.FirstByte = x.first.Sub(x.came)
	}
	return o
}

func (x *exchange) classUnknown() bool {
	return x.asked != "" && x.line != nil && x.line.Knows != nil && !x.line.Knows(x.asked)
}
