package actor_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	queueing = testkit.Queueing
	mixed    = testkit.Mixed
)

// eachForm runs a test on both forms, with and without the index.
func eachForm(t *testing.T, test func(t *testing.T, config actor.Config)) {
	for _, form := range []struct {
		name          string
		direct, index bool
	}{
		{"actor", false, false},
		{"actor-index", false, true},
		{"actor-direct", true, false},
		{"actor-direct-index", true, true},
	} {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			test(t, actor.Config{Config: sched.Config{BlockSize: 16}, Direct: form.direct, Index: form.index})
		})
	}
}

// start returns an engine with that many workers of one rank.
func start(t testing.TB, config actor.Config, profile string, workers int) *actor.Engine {
	t.Helper()
	if profile != "" {
		config.Policy = testkit.Policy(t, profile)
	}
	e, err := actor.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	require.NoError(t, e.SetWorkers(testkit.Workers(workers)))
	return e
}
