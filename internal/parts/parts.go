// Package parts lets the engines of this project that are built from the same parts
// as sched.Scheduler, such as the actor that it is compared with, check requests and
// configs and word their errors as it does, without its public face having names for
// that.
//
// Package sched offers a Face when it is initialised; an engine, which imports sched
// for its requests and configs, takes it. So neither sched nor this package imports
// the other's users.
package parts

import (
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Face is what an engine shares with package sched, whose Request and Config these
// are.
type Face[Request, Config any] struct {
	// Derive checks a request and fills in what choosing a rank for it needs to know.
	// What it fills in shares the request's slices.
	Derive func(r *Request, params *selector.Params, d *pool.Request) error
	// Resolve checks a config and returns what follows from it: the profile that
	// applies and the parameters of the cost, before a request's overrides.
	Resolve func(c *Config) (*policy.Profile, selector.Params, error)
	// FailureError makes a *sched.Error of the reason for which no rank was chosen.
	FailureError func(request string, f *pool.Failure) error
}

// face is the one that was offered; written while packages are initialised.
var face any

// Offer makes a face known. It is called by package sched, when it is initialised.
func Offer[Request, Config any](f Face[Request, Config]) { face = f }

// Taken returns the face that was offered: Taken[sched.Request, sched.Config].
func Taken[Request, Config any]() Face[Request, Config] { return face.(Face[Request, Config]) }
