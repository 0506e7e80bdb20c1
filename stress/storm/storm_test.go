package storm

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func runStorm(t *testing.T, c Config) *Report {
	t.Helper()
	if c.Callers == 0 {
		c.Callers = 128
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	if c.For == 0 && c.Ops == 0 {
		c.For = time.Second
		if testing.Short() {
			c.For = 500 * time.Millisecond
		}
	}
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, r.Write(&text))
	t.Log("\n" + text.String())
	require.True(t, r.OK())
	return r
}

// Everything at once, on the library.
func TestStorm(t *testing.T) {
	for _, profile := range Profiles() {
		t.Run(profile, func(t *testing.T) {
			r := runStorm(t, Config{Engine: engines.Sharded, Profile: profile})
			require.Positive(t, r.Rests)
			require.Positive(t, r.Lulls)
			require.Positive(t, r.OrderChecks)
		})
	}
}

// On ranks that take one prefill each, the rank that is booked is the witness.
func TestExactStorm(t *testing.T) {
	for _, name := range Engines() {
		t.Run(name, func(t *testing.T) {
			runStorm(t, Config{Engine: name, Profile: ProfileOn, Exact: true})
		})
	}
}

// Bookings may end by themselves at any moment.
func TestExpiryStorm(t *testing.T) {
	expired := int64(0)
	for _, profile := range Profiles() {
		t.Run(profile, func(t *testing.T) {
			r := runStorm(t, Config{Engine: engines.Sharded, Profile: profile, TTL: 5 * time.Millisecond})
			expired += r.Stats.Expired
		})
	}
	if !testing.Short() { // else there may be too little time
		require.Positive(t, expired)
	}
}

// Requests that all differ, a clock of 20 ms ticks, and sources that panic: each
// alone, and together.
func TestHostileStorm(t *testing.T) {
	for name, c := range map[string]Config{
		"lanes":    {Profile: ProfileMixed, Lanes: true},
		"ticks":    {Profile: ProfileMixed, Tick: 20 * time.Millisecond},
		"sources":  {Profile: ProfileMixed, Sources: true},
		"together": {Profile: ProfileCapped, Lanes: true, Tick: 20 * time.Millisecond, Sources: true, TTL: 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c.Engine = engines.Sharded
			r := runStorm(t, c)
			require.Positive(t, r.Rests)
			if c.Sources {
				require.Positive(t, r.Stats.HookPanics)
			}
		})
	}
}

// Very many wait, each in a lane of its own. A hundred thousand are a matter of seconds too, and of half a gigabyte:
// go run ./stress -callers 100000 -profile on -lanes -for 3s.
func TestCrowdStorm(t *testing.T) {
	c := Config{Engine: engines.Sharded, Profile: ProfileOn, Callers: 20_000, Lanes: true, For: time.Second}
	if testing.Short() {
		c.Callers, c.For = 2_000, 500*time.Millisecond
	}
	runStorm(t, c)
}

// Without churn and faults more is known for sure.
func TestCalmStorm(t *testing.T) {
	runStorm(t, Config{Engine: engines.Sharded, Profile: ProfileMixed, Calm: true})
}

// The same storm on the actors.
func TestActorStorm(t *testing.T) {
	for _, name := range Engines()[1:] {
		for _, profile := range Profiles() {
			t.Run(name+"/"+profile, func(t *testing.T) {
				runStorm(t, Config{Engine: name, Profile: profile})
			})
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := Run(t.Context(), Config{Engine: "steam", Profile: "loud", Exact: true, For: -1})
	for _, text := range []string{`engine "steam"`, `profile "loud"`, "callers 0", "for -1ns", "exact"} {
		require.ErrorContains(t, err, text)
	}
}
