package differ_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/differ"
	"github.com/seed-3c5df8a4/turnstile/stress/engines"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// deaf is an engine that does not hear of prefill that is done by handle.
type deaf struct{ engine.Engine }

type deafBooking struct{ engine.Booking }

func (e deaf) Schedule(ctx context.Context, r *sched.Request) (engine.Booking, error) {
	b, err := e.Engine.Schedule(ctx, r)
	if err != nil {
		return nil, err
	}
	return deafBooking{b}, nil
}

func (deafBooking) PrefillDone() error { return nil }

// TestFindsAndReduces proves that a difference is found, and that what is left
// of the script is what it takes: a scheduler, a worker, a booking, the call and
// a command that shows it.
func TestFindsAndReduces(t *testing.T) {
	broken := engines.Engine{Name: "deaf", New: func(s script.Setup) (engine.Engine, error) {
		e, _ := engines.Lookup(engines.Model)
		inner, err := e.New(s)
		return deaf{inner}, err
	}}
	for seed := range 20 {
		steps, err := written(seed)
		require.NoError(t, err)
		if differ.Compare(steps, []engines.Engine{broken}) == nil {
			continue
		}
		small, d := differ.Reduce(steps, []engines.Engine{broken})
		require.NotNil(t, d)
		require.Equal(t, len(small)-1, d.Step)
		require.LessOrEqual(t, len(small), 6, differ.Text(small))
		return
	}
	t.Fatal("none of the scripts shows the difference")
}

func written(seed int) (steps []differ.Step, err error) {
	rapid.Custom(func(t *rapid.T) int {
		steps, _, err = differ.Write(t)
		return 0
	}).Example(seed)
	return steps, err
}

// TestScriptsRunAgain: the text of a script gives the same script.
func TestScriptsRunAgain(t *testing.T) {
	steps, err := written(1)
	require.NoError(t, err)
	text := differ.Text(steps)
	require.Contains(t, text, "schedule id=r1")
	all := engines.All()
	require.Nil(t, differ.Compare(steps, all), text)
}
