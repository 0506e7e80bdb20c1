package sched

import (
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// safeClock is a clock of the embedder's that may panic. It is read under the locks
// of ranks and by all calls, so its panics end here: the time is then the last one
// that it gave, and a timer is the system's.
type safeClock struct {
	clock.Clock
	base     time.Time
	last     atomic.Int64 // ns since base; written and read by all
	panicked func(cause any)
}

// safely returns the clock itself if it is the system's.
func safely(c clock.Clock, panicked func(any)) clock.Clock {
	if c == clock.System() {
		return c
	}
	safe := &safeClock{Clock: c, base: time.Now(), panicked: panicked}
	safe.base = safe.Now()
	safe.last.Store(0)
	return safe
}

// Now implements clock.Clock.
func (c *safeClock) Now() (now time.Time) {
	defer func() {
		if cause := recover(); cause != nil {
			now = c.base.Add(time.Duration(c.last.Load()))
			c.panicked(cause)
		}
	}()
	now = c.Clock.Now()
	if since := int64(now.Sub(c.base)); since > c.last.Load() {
		c.last.Store(since)
	}
	return now
}

// AfterFunc implements clock.Clock.
func (c *safeClock) AfterFunc(d time.Duration, f func()) (timer clock.Timer) {
	defer func() {
		if cause := recover(); cause != nil {
			timer = time.AfterFunc(d, f)
			c.panicked(cause)
		}
	}()
	return c.Clock.AfterFunc(d, f)
}
