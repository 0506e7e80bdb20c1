package micro

import (
	"errors"
	"sync"
)

// model is the job at its simplest, behind one mutex: pick the rank with the
// fewest requests, the first of equals after the last one picked, count, and let
// callers that do not fit wait in line. It knows no tokens, blocks or classes.
type model struct {
	limit int64 // of requests on a rank

	mu struct {
		sync.Mutex
		counts []int64
		from   int
		// line holds the waiters, from head on.
		line []chan int
		head int
	}
}

func newModel(ranks int, limit int64) *model {
	m := &model{limit: limit}
	m.mu.counts = make([]int64, ranks)
	return m
}

func (m *model) pickLocked() int {
	n := len(m.mu.counts)
	if m.mu.from++; m.mu.from == n {
		m.mu.from = 0
	}
	best := m.mu.from
	for i := range n {
		at := m.mu.from + i
		if at >= n {
			at -= n
		}
		if m.mu.counts[at] < m.mu.counts[best] {
			best = at
		}
	}
	return best
}

// pick returns where a request would go.
func (m *model) pick() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pickLocked()
}

// acquire waits for a rank with room; own, of capacity 1, is the caller's.
func (m *model) acquire(own chan int) int {
	m.mu.Lock()
	if m.waitingLocked() == 0 {
		if at := m.pickLocked(); m.mu.counts[at] < m.limit {
			m.mu.counts[at]++
			m.mu.Unlock()
			return at
		}
	}
	if m.mu.head > len(m.mu.line)/2 {
		m.mu.line = append(m.mu.line[:0], m.mu.line[m.mu.head:]...)
		m.mu.head = 0
	}
	m.mu.line = append(m.mu.line, own)
	m.mu.Unlock()
	return <-own
}

func (m *model) release(at int) {
	m.mu.Lock()
	m.mu.counts[at]--
	var next chan int
	if m.waitingLocked() > 0 {
		next = m.mu.line[m.mu.head]
		m.mu.head++
		at = m.pickLocked()
		m.mu.counts[at]++
	}
	m.mu.Unlock()
	if next != nil {
		next <- at
	}
}

func (m *model) waitingLocked() int { return len(m.mu.line) - m.mu.head }

func (m *model) waiting() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(m.waitingLocked())
}

// empty reports what is left over.
func (m *model) empty() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.mu.counts {
		if n != 0 {
			return errors.New("left over: requests in the model")
		}
	}
	if m.waitingLocked() != 0 {
		return errors.New("left over: waiters in the model")
	}
	return nil
}
