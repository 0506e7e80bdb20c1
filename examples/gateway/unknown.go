package main

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// unknownClasses remembers which classes were asked for lately that the policy does
// not have, for the status page.
type unknownClasses struct {
	mu struct {
		sync.Mutex
		last map[string]time.Time // by name, when
	}
}

const (
	// unknownFor is how long a name is shown.
	unknownFor = 5 * time.Minute
	// mostUnknown bounds the names: clients make them up.
	mostUnknown = 5
)

func (u *unknownClasses) asked(name string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.last == nil {
		u.mu.last = make(map[string]time.Time)
	}
	u.forget(now)
	if _, found := u.mu.last[name]; found || len(u.mu.last) < mostUnknown {
		u.mu.last[name] = now
	}
}

// note says which they are, empty for none.
func (u *unknownClasses) note(now time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget(now)
	names := ""
	for name := range u.mu.last {
		if names != "" {
			names += ", "
		}
		names += fmt.Sprintf("%.40q", name)
	}
	if names == "" {
		return ""
	}
	return "Requests ask for classes that the policy does not have: " + names + ". They are served in the default family."
}

// forget makes room. REQUIRES: the lock.
func (u *unknownClasses) forget(now time.Time) {
	maps.DeleteFunc(u.mu.last, func(_ string, at time.Time) bool { return now.Sub(at) > unknownFor })
}
