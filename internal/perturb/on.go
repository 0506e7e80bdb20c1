//go:build perturb

package perturb

import (
	"math/rand/v2"
	"runtime"
)

// Enabled reports whether points yield.
const Enabled = true

// Point often gives the processor away, and now and then for long, as if the
// goroutine had been descheduled here. It does not sleep, so that a virtual clock
// stands still.
func Point() {
	yields := uint32(0)
	switch n := rand.Uint32N(256); {
	case n < 2:
		yields = 1 + rand.Uint32N(200)
	case n < 64:
		yields = 1
	}
	for range yields {
		runtime.Gosched()
	}
}
