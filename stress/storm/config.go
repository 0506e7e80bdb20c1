package storm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
)

// The profiles a storm can have.
const (
	ProfileOff    = "off"
	ProfileOn     = "on"
	ProfileMixed  = "mixed"
	ProfileCapped = "capped"
)

// Profiles returns the names of the profiles.
func Profiles() []string { return []string{ProfileOff, ProfileOn, ProfileMixed, ProfileCapped} }

// Engines returns the names of the engines.
func Engines() []string {
	return []string{engines.Sharded, engines.Actor, engines.ActorDirect}
}

// Config describes a storm.
type Config struct {
	// Engine is the name of the engine, one of Engines.
	Engine string
	// Profile is one of Profiles: no request ever waits; one class; six classes of
	// which thresholds, quanta and limits change now and then; three that all cap the
	// requests of a rank, without transfers.
	Profile string
	Callers int
	// Seed decides what everybody does, but not in which order it happens.
	Seed uint64
	// The storm ends after For or after Ops operations, whichever is first; 0 is
	// no bound. One must be given.
	For time.Duration
	Ops int64
	// Workers is the number of workers there are at first; 0 means 8.
	Workers int

	// Exact has every booking be a prefill and nothing else, on ranks chosen by
	// their number of bookings. Then the rank that is booked is the witness,
	// which makes checks 1 and 3 exact. It needs ProfileOn.
	Exact bool
	// TTL ends bookings that are not touched for so long. As the clock jumps,
	// any booking may end at any time, which weakens checks 1 and 2.
	TTL time.Duration
	// Lanes has nearly every request exclude another set of workers, so that each waits
	// in a lane of its own.
	Lanes bool
	// Tick is how coarse the clock is: it shows whole ticks, while its timers fire on
	// time; 0 means it is exact.
	Tick time.Duration
	// Sources has the clock and the random source panic now and then. Only the library
	// takes them.
	Sources bool
	// Calm leaves out the churn and the faults of the code given to the engine.
	Calm bool

	// Progress, unless nil, is called about five times a second.
	Progress func(Snapshot)
	// Patience is how long anything may take that takes microseconds in a sound
	// engine; 0 means a minute.
	Patience time.Duration
}

func (c *Config) check() error {
	var faults []error
	fault := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(slices.Contains(Engines(), c.Engine), "engine %q: must be one of %s", c.Engine, strings.Join(Engines(), ", "))
	fault(slices.Contains(Profiles(), c.Profile), "profile %q: must be one of %s", c.Profile, strings.Join(Profiles(), ", "))
	fault(c.Callers >= 1 && c.Callers <= 100_000, "callers %d: must be 1 to 100000", c.Callers)
	fault(c.For >= 0, "for %v: must not be negative", c.For)
	fault(c.Ops >= 0, "ops %d: must not be negative", c.Ops)
	fault(c.For > 0 || c.Ops > 0, "for and ops: one must be given")
	fault(c.Workers >= 0 && c.Workers <= 1024, "workers %d: must be 0 to 1024", c.Workers)
	fault(c.Tick >= 0, "tick %v: must not be negative", c.Tick)
	fault(!c.Sources || c.sharded() && !c.Exact, "sources: need engine %s and no exact", engines.Sharded)
	fault(!c.Exact || c.Profile == ProfileOn, "exact: needs profile %s", ProfileOn)
	if c.Workers == 0 {
		c.Workers = 8
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	return errors.Join(faults...)
}

// sharded reports whether the engine offers what only the library does: Do, the
// reclaiming of leaked handles, the estimator and the refresher.
func (c *Config) sharded() bool { return c.Engine == engines.Sharded }
