// Package engines names the engines that scripts and stress tests run against.
package engines

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/stress/model"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// The names of the engines.
const (
	Sharded     = "sharded"
	Actor       = "actor"
	ActorDirect = "actor-direct"
	Model       = "model"
)

// Engine is one engine by name.
type Engine struct {
	Name string
	New  script.Factory
}

// All returns the engines, the one under test first.
func All() []Engine {
	return []Engine{
		{Sharded, newSharded},
		{ActorDirect, newActor(true)},
		{Actor, newActor(false)},
		{Model, newModel},
	}
}

// Lookup returns the engine of that name.
func Lookup(name string) (Engine, bool) {
	for _, e := range All() {
		if e.Name == name {
			return e, true
		}
	}
	return Engine{}, false
}

func newSharded(s script.Setup) (engine.Engine, error) {
	config, err := configOf(s)
	if err != nil {
		return nil, err
	}
	return engine.NewSharded(config, sched.WithClock(s.Clock), sched.WithDecisionHook(s.OnDecision), sched.WithFleet(s.Fleet))
}

// newActor makes one form of the actor. The direct one keeps the index and the
// other does not, so that the scripts see both ways of finding live prefixes.
func newActor(direct bool) script.Factory {
	return func(s script.Setup) (engine.Engine, error) {
		config, err := configOf(s)
		if err != nil {
			return nil, err
		}
		return actor.New(actor.Config{
			Config: config, Direct: direct, Index: direct, Clock: s.Clock, OnDecision: s.OnDecision,
		})
	}
}

func newModel(s script.Setup) (engine.Engine, error) {
	m, err := model.New(s)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func configOf(s script.Setup) (sched.Config, error) {
	config := sched.Config{
		BlockSize: int64(s.BlockSize), BookingTTL: s.TTL,
		OverlapCredit: &s.OverlapCredit, PrefillScale: &s.PrefillScale,
		CreditDecay: s.CreditDecay, RequestWeight: s.RequestWeight, Ties: selector.TiesLowest,
	}
	switch s.Role {
	case "both":
	case "decode":
		config.Role = selector.RoleDecode
	default:
		return config, fmt.Errorf("%w: role %q: must be both or decode", sched.ErrInvalid, s.Role)
	}
	switch s.Selector {
	case "kv":
	case "round-robin":
		config.Selector = selector.RoundRobin()
	case "least-loaded":
		config.Selector = selector.LeastLoaded()
	default:
		return config, fmt.Errorf("%w: selector %q: must be kv, round-robin or least-loaded", sched.ErrInvalid, s.Selector)
	}
	if s.PolicyYAML != nil {
		file, err := policy.Parse(s.PolicyYAML)
		if err != nil {
			return config, &sched.Error{Code: sched.ErrInvalid, Cause: err}
		}
		config.Policy = file
	}
	return config, nil
}
