package pool

import (
	"runtime"
	"sync"
)

// Few lets few callers at a time look at many ranks: a look at all ranks of a large
// pool takes so long that, with many callers, the Go scheduler cuts it, and a caller
// that is cut waits for the time slices of all others.
//
// Guarantee: no more callers than there were processors when it was made look at a
// time, and the others come in the order in which they asked. No caller waits for more
// than a look and the choice that follows it for each of those before.
//
// How: a place that is given back goes to the first caller that waits, and not to the
// next that asks; the mutex guards the list. The holder of the turn does not ask, nor
// does a caller that has ranks locked or calls a custom selector, which may be slow: so
// a caller with a place waits for nothing.
//
// Tried and lost: a semaphore without order (a caller that comes back at once takes
// the place again, and the slowest got a tenth of the fastest).
type Few struct {
	mu struct {
		sync.Mutex
		free        int
		first, last *Look // callers that wait
	}
}

// manyRanks is how many ranks a look may look at without asking.
const manyRanks = 256

// NewFew returns places for as many callers as there are processors.
func NewFew() *Few {
	f := &Few{}
	f.mu.free = runtime.GOMAXPROCS(0)
	return f
}

// enter gives the look a place.
func (f *Few) enter(l *Look) {
	f.mu.Lock()
	if f.mu.free > 0 {
		f.mu.free--
		f.mu.Unlock()
		return
	}
	if l.turn == nil {
		l.turn = make(chan struct{}, 1)
	}
	if f.mu.last == nil {
		f.mu.first = l
	} else {
		f.mu.last.behind = l
	}
	f.mu.last = l
	f.mu.Unlock()
	<-l.turn
}

// leave gives it back, or on.
func (f *Few) leave() {
	f.mu.Lock()
	first := f.mu.first
	if first == nil {
		f.mu.free++
		f.mu.Unlock()
		return
	}
	if f.mu.first, first.behind = first.behind, nil; f.mu.first == nil {
		f.mu.last = nil
	}
	f.mu.Unlock()
	first.turn <- struct{}{}
}
