package linear

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

var (
	histories = flag.Int("histories", 1000, "how many histories TestLinearizable takes of the sharded scheduler")
	firstSeed = flag.Uint64("seed", 0, "the seed of the first history; 0 takes one at random")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLinearizable takes concurrent histories and has each one checked. What is
// checked is told in the package comment. A seed decides what clients do, but not
// how they meet. Run it with -tags perturb too.
//
// A history whose check would take too many steps stays undecided, on a slow
// machine no more often than on a fast one.
func TestLinearizable(t *testing.T) {
	for i, target := range Targets() {
		n, steps := *histories, effort
		if testing.Short() {
			n, steps = n/4, steps/4
		}
		if i > 0 {
			n = (n + 4) / 5
		}
		t.Run(target.Name, func(t *testing.T) {
			first := *firstSeed
			if first == 0 {
				first = rand.Uint64()
			}
			sum, err := run(t.Context(), target, first, n, steps, func(*Tally) {})
			require.NoError(t, err)
			t.Logf("-seed %d: %v", first, sum)
			require.LessOrEqual(t, sum.Undecided, 5+n/50, "too many histories take too many steps to check")
		})
	}
}

// little is effort enough for a history that is short and plainly wrong.
const little = 5000

// The engines below break their word in one thing each.

type forgetsOverload struct{ engine.Engine }

func (forgetsOverload) SetOverloaded([]uint64) error { return nil }

type forgetsProfiles struct{ engine.Engine }

func (forgetsProfiles) SetProfileYAML([]byte) error { return nil }

type forgetsPrefills struct{ engine.Engine }

func (forgetsPrefills) PrefillDone(string, uint64) error { return nil }

// TestBrokenEnginesAreCaught lets histories be taken of engines that are broken,
// until one is illegal: that should not take long, and there is a picture of it.
func TestBrokenEnginesAreCaught(t *testing.T) {
	for name, broken := range map[string]func(engine.Engine) engine.Engine{
		"forgets overload": func(e engine.Engine) engine.Engine { return forgetsOverload{e} },
		"forgets profiles": func(e engine.Engine) engine.Engine { return forgetsProfiles{e} },
		"forgets prefills": func(e engine.Engine) engine.Engine { return forgetsPrefills{e} },
	} {
		t.Run(name, func(t *testing.T) {
			whole := Targets()[0].New
			target := Target{name, func(config sched.Config, c clock.Clock, hook func(sched.Decision)) (engine.Engine, error) {
				e, err := whole(config, c, hook)
				return broken(e), err
			}}
			sum, err := run(t.Context(), target, 1, 1000, little, func(*Tally) {})
			var illegal *IllegalError
			require.ErrorAs(t, err, &illegal)
			page, err := os.ReadFile(illegal.Picture)
			require.NoError(t, err)
			require.Contains(t, string(page), "is granted")
			require.NoError(t, os.RemoveAll(filepath.Dir(illegal.Picture)))
			t.Logf("found after %d histories, with seed %d", sum.Histories, illegal.Seed)
		})
	}
}

// TestFalsifiedHistoriesAreNotExplained changes one thing in histories that were
// right: then no order must be found for them, whatever is loosened.
func TestFalsifiedHistoriesAreNotExplained(t *testing.T) {
	for seed := range uint64(10) {
		h, err := record(Targets()[0], seed)
		require.NoError(t, err)
		require.NotEqual(t, porcupine.Illegal, h.check(effort).CheckResult)
		for i := range h.mu.steps {
			if seen, is := h.mu.steps[i].step.(rest); is {
				seen.classes[0].Pending++ // somebody waits who never came
			}
		}
		require.NotEqual(t, porcupine.Ok, h.check(little).CheckResult, "seed %d", seed)
	}
}
