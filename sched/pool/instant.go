package pool

import (
	"math"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// Instant is the moment at which a look is taken. It is read from the clock only when
// the first load that decays is read, and then stays the same.
type Instant struct {
	now   lifecycle.Now
	at    int64
	known bool
}

// Lazily returns an instant that is read from the clock when first needed.
func Lazily(now lifecycle.Now) Instant { return Instant{now: now} }

// At returns a given instant.
func At(at int64) Instant { return Instant{at: at, known: true} }

// Nanoseconds returns the instant.
func (i *Instant) Nanoseconds() int64 {
	if !i.known {
		i.at, i.known = i.now(), true
	}
	return i.at
}

// Active returns the active prefill tokens at the instant.
func (i *Instant) Active(p *lifecycle.Prefill) int64 {
	if p.AnchorDuration < 0 || !p.HasAnchor {
		// The usual case, decided without a call: nothing modelled is first.
		return plus(p.Sum, p.Elsewhere)
	}
	if !p.Decays() {
		return p.Active(p.AnchorSince)
	}
	return p.Active(i.Nanoseconds())
}

// plus adds two numbers ≥ 0; the sum is at most math.MaxInt64.
func plus(a, b int64) int64 {
	if sum := a + b; sum >= 0 {
		return sum
	}
	return math.MaxInt64
}

// Busy reports whether a rank with the load is busy at the instant.
func (i *Instant) Busy(above *lifecycle.BusyAbove, load *lifecycle.Load) bool {
	return above.Exceeded(i.Active(&load.Prefill), load.Requests, load.Blocks)
}
