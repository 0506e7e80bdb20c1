package main

import (
	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// setup is what an engine is built from.
type setup struct {
	// BlockSize is the KV block size in tokens.
	BlockSize int64
	// PolicyYAML is the policy profile; empty is the one-class profile.
	PolicyYAML []byte
	// ActorIndex makes the actor engines select through the same indexes as the
	// sharded one, so that only the concurrency differs.
	ActorIndex bool
	// Tune, unless nil, changes what else the configuration says; Clock and
	// OnDecision may be nil.
	Tune       func(*sched.Config)
	Clock      clock.Clock
	OnDecision func(sched.Decision)
}

// namedEngine is one of the engines compared.
type namedEngine struct {
	name  string
	build func(setup) (engine.Engine, error)
}

// engines are those compared, in the order of the columns.
var engines = []namedEngine{
	{name: "turnstile", build: newSharded},
	{name: "actor-direct", build: newActor(true)},
	{name: "actor", build: newActor(false)},
}

func newSharded(s setup) (engine.Engine, error) {
	config, err := configOf(s)
	if err != nil {
		return nil, err
	}
	var opts []sched.Option
	if s.Clock != nil {
		opts = append(opts, sched.WithClock(s.Clock))
	}
	if s.OnDecision != nil {
		opts = append(opts, sched.WithDecisionHook(s.OnDecision))
	}
	return engine.NewSharded(config, opts...)
}

func newActor(direct bool) func(setup) (engine.Engine, error) {
	return func(s setup) (engine.Engine, error) {
		config, err := configOf(s)
		if err != nil {
			return nil, err
		}
		return actor.New(actor.Config{
			Config: config, Direct: direct, Index: s.ActorIndex, Clock: s.Clock, OnDecision: s.OnDecision,
		})
	}
}

func configOf(s setup) (sched.Config, error) {
	config := sched.Config{BlockSize: s.BlockSize}
	if len(s.PolicyYAML) > 0 {
		file, err := policy.Parse(s.PolicyYAML)
		if err != nil {
			return config, err
		}
		config.Policy = file
	}
	if s.Tune != nil {
		s.Tune(&config)
	}
	return config, nil
}
