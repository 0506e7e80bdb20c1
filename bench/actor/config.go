package actor

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// DefaultBuffer is the number of commands that the channel holds.
const DefaultBuffer = 65_536

// Config is what an engine is made from. Of the embedded config, RefreshAfter
// and ReclaimLeaked must be zero: the reference does not offer them.
type Config struct {
	sched.Config

	// Direct makes the form actor-direct: lifecycle calls, Select and Loads are
	// made by their callers. False makes the form actor: all goes by message.
	Direct bool
	// Index has live prefixes and, in a large pool, the least loaded ranks found
	// through the indexes that the sharded scheduler uses. False has every
	// eligible rank looked at, and its blocks walked, for every selection.
	Index bool

	// Clock is the time; nil means the system's.
	Clock clock.Clock
	// OnDecision, unless nil, is told every decision, in decision order, by the
	// actor: it must be quick and must not call the engine. A panic in it is
	// swallowed.
	OnDecision func(sched.Decision)
	// Rand is the source of random numbers; nil means the runtime's. It is used
	// by one goroutine at a time.
	Rand selector.Rand
	// Buffer is the number of commands that the channel holds; 0 means
	// DefaultBuffer.
	Buffer int
}

// check tells what a reference cannot do.
func (c *Config) check() error {
	invalid := func(format string, args ...any) error {
		return &sched.Error{Code: sched.ErrInvalid, Rule: fmt.Sprintf(format, args...)}
	}
	switch {
	case c.RefreshAfter != 0:
		return invalid("config: refresh after %v: not offered by the actor", c.RefreshAfter)
	case c.ReclaimLeaked:
		return invalid("config: reclaim leaked: not offered by the actor")
	case c.Buffer < 0:
		return invalid("config: buffer %d: must not be negative", c.Buffer)
	}
	return nil
}
