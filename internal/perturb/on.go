//go:build perturb

package perturb

import (
	"math/rand/v2"
	"runtime"
	"time"
)

// Enabled reports whether points yield.
const Enabled = true

// Point often gives the processor away, and now and then for longer, as if the
// goroutine had been descheduled here.
func Point() {
	switch n := rand.Uint32N(256); {
	case n == 0:
		time.Sleep(time.Duration(rand.Int64N(int64(50 * time.Microsecond))))
	case n < 64:
		runtime.Gosched()
	}
}
