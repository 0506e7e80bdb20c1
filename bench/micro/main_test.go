package micro

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

func TestMain(m *testing.M) {
	if !ServeHTTP() {
		goleak.VerifyTestMain(m)
	}
}

// all are the engines as the program has them.
func all() []Engine {
	config := func(c Config) (sched.Config, error) {
		out := sched.Config{BlockSize: c.BlockSize}
		if c.PolicyYAML != "" {
			file, err := policy.Parse([]byte(c.PolicyYAML))
			if err != nil {
				return out, err
			}
			out.Policy = file
		}
		if c.Tune != nil {
			c.Tune(&out)
		}
		return out, nil
	}
	of := func(direct, index bool) func(Config) (engine.Engine, error) {
		return func(c Config) (engine.Engine, error) {
			cfg, err := config(c)
			if err != nil {
				return nil, err
			}
			return actor.New(actor.Config{Config: cfg, Direct: direct, Index: index, Clock: c.Clock, OnDecision: c.OnDecision})
		}
	}
	return []Engine{
		{Name: Turnstile, Build: func(c Config) (engine.Engine, error) {
			cfg, err := config(c)
			if err != nil {
				return nil, err
			}
			var opts []sched.Option
			if c.Clock != nil {
				opts = append(opts, sched.WithClock(c.Clock))
			}
			if c.OnDecision != nil {
				opts = append(opts, sched.WithDecisionHook(c.OnDecision))
			}
			return engine.NewSharded(cfg, opts...)
		}},
		{Name: Actor, Build: of(false, false)},
		{Name: ActorDirect, Build: of(true, false)},
		{Name: ActorIndex, Build: of(false, true)},
	}
}
