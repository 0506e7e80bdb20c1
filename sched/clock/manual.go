package clock

import (
	"container/heap"
	"sync"
	"time"
)

// Manual is a clock that moves only when told to. Its timers are run by the
// goroutine that calls Advance, one after the other, in the order of their
// times and, at one time, in the order in which they were set.
type Manual struct {
	mu struct {
		sync.Mutex
		now    time.Time
		serial uint64
		timers manualHeap
	}
}

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual {
	m := &Manual{}
	m.mu.now = start
	return m
}

// Now returns where the clock stands.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.now
}

// AfterFunc has f run by the Advance that passes the time d from now. A d of 0
// or less is run by the next Advance, however short.
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.serial++
	t := &manualTimer{clock: m, at: m.mu.now.Add(max(d, 0)), serial: m.mu.serial, run: f}
	heap.Push(&m.mu.timers, t)
	return t
}

// Advance moves the clock by d, running each timer that falls due at its own
// time. Timers that are set on the way are run too if they fall due.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.mu.now.Add(max(d, 0))
	m.mu.Unlock()
	for {
		m.mu.Lock()
		if len(m.mu.timers) == 0 || m.mu.timers[0].at.After(end) {
			if end.After(m.mu.now) { // a timer may have advanced it further
				m.mu.now = end
			}
			m.mu.Unlock()
			return
		}
		t := heap.Pop(&m.mu.timers).(*manualTimer)
		if t.at.After(m.mu.now) {
			m.mu.now = t.at
		}
		m.mu.Unlock()
		t.run()
	}
}

// Next returns the time of the earliest timer that is set.
func (m *Manual) Next() (at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.timers) == 0 {
		return time.Time{}, false
	}
	return m.mu.timers[0].at, true
}

type manualTimer struct {
	clock  *Manual
	at     time.Time
	serial uint64
	run    func()
	index  int // place in the heap, -1 once popped; guarded by clock.mu
}

// Stop implements Timer.
func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.index < 0 {
		return false
	}
	heap.Remove(&t.clock.mu.timers, t.index)
	return true
}

type manualHeap []*manualTimer

func (h manualHeap) Len() int { return len(h) }
func (h manualHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].serial < h[j].serial
}
func (h manualHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *manualHeap) Push(x any) {
	t := x.(*manualTimer)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *manualHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}
