// Package chance has the sources of random bits that schedulers draw from, and how they
// draw from them.
package chance

import (
	"math/bits"
	"math/rand/v2"
	"sync"
)

// Source gives 64 uniform bits.
type Source interface{ Uint64() uint64 }

// Global draws from the runtime's generator, which its callers do not share.
type Global struct{}

// Uint64 implements Source.
func (Global) Uint64() uint64 { return rand.Uint64() }

// Locked returns a source for many goroutines that draws from one that is for one
// goroutine at a time.
func Locked(s Source) Source { return &locked{source: s} }

type locked struct {
	mu     sync.Mutex
	source Source // guarded by mu
}

func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source.Uint64()
}

// Below returns a uniform integer in [0,n), n > 0, without the bias of a remainder and
// mostly without a division: Lemire, "Fast Random Integer Generation in an Interval",
// 2019.
func Below(s Source, n uint64) uint64 {
	hi, lo := bits.Mul64(s.Uint64(), n)
	if lo < n {
		bound := -n % n
		// The bound on tries is for a source that is stuck. With a sound one they run out
		// with a chance of (n/2^64)^8.
		for try := 0; lo < bound && try < 8; try++ {
			hi, lo = bits.Mul64(s.Uint64(), n)
		}
	}
	return hi
}
