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
		if c.PolicyYAML == "" {
			return out, nil
		}
		file, err := policy.Parse([]byte(c.PolicyYAML))
		out.Policy = file
		return out, err
	}
	of := func(direct, index bool) func(Config) (engine.Engine, error) {
		return func(c Config) (engine.Engine, error) {
			cfg, err := config(c)
			if err != nil {
				return nil, err
			}
			return actor.New(actor.Config{Config: cfg, Direct: direct, Index: index})
		}
	}
	return []Engine{
		{Name: Sharded, Build: func(c Config) (engine.Engine, error) {
			cfg, err := config(c)
			if err != nil {
				return nil, err
			}
			return engine.NewSharded(cfg)
		}},
		{Name: Actor, Build: of(false, false)},
		{Name: ActorDirect, Build: of(true, false)},
		{Name: ActorIndex, Build: of(false, true)},
	}
}
