package endpointpicker

import (
	"math"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The bounds of Retry-After, in seconds. Beyond a minute the line says little.
const (
	soonest = 1
	latest  = 60
)

// waits remembers for how long the first of each class has stood in line, which is
// about how long a new request would: a refused client need not come before that.
// It looks at most once a second, as refusals come in storms.
type waits struct {
	mu struct {
		sync.Mutex
		looked time.Time
		oldest map[string]time.Duration
	}
}

// retryAfter returns after how many seconds one may hope for a place in a class.
func (w *waits) retryAfter(s *sched.Scheduler, class string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.mu.oldest == nil || now.Sub(w.mu.looked) >= time.Second {
		w.mu.looked, w.mu.oldest = now, make(map[string]time.Duration)
		for _, c := range s.Snapshot(0).Classes {
			w.mu.oldest[c.Name] = c.Oldest
		}
	}
	return int(min(max(math.Ceil(w.mu.oldest[class].Seconds()), soonest), latest))
}
