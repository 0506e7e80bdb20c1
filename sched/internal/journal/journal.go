// Package journal hands decisions to a hook in the order in which they were made.
//
// Decisions are added under any lock; the next caller that holds none hands them to
// the hook, in order. A decision's place in the order is reserved before the step
// that makes it, because after that step its owner may go on and cause the next
// decision; a decision whose last step is still to come holds up those after it.
//
// A nil Journal and a nil Slot do nothing.
package journal

import "sync"

// Journal is the decisions that the hook has not been called with yet. Make one with
// New.
type Journal[D any] struct {
	hook   func(D)
	failed func(panicked any)
	// mu is a leaf: it is taken under any other lock.
	mu struct {
		sync.Mutex
		pending []*Slot[D]
		calling bool // the hook is being called
	}
}

// New returns a journal for a hook. failed is called if the hook panics, without
// locks.
func New[D any](hook func(D), failed func(panicked any)) *Journal[D] {
	return &Journal[D]{hook: hook, failed: failed}
}

// Slot is the place of a decision in the order, until it is known whether the
// decision stands.
type Slot[D any] struct {
	journal  *Journal[D]
	decision D
	state    slotState // guarded by journal.mu
}

type slotState uint8

const (
	open slotState = iota
	kept
	dropped
)

// Add adds a decision that stands.
func (j *Journal[D]) Add(d D) {
	if j != nil {
		j.reserve(d).Keep()
	}
}

// Reserve takes the place of a decision that is yet to be made. Its slot must be
// kept or dropped.
func (j *Journal[D]) Reserve(d D) *Slot[D] {
	if j == nil {
		return nil
	}
	return j.reserve(d)
}

func (j *Journal[D]) reserve(d D) *Slot[D] {
	s := &Slot[D]{journal: j, decision: d}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.pending = append(j.mu.pending, s)
	return s
}

// Keep says that the decision stands.
func (s *Slot[D]) Keep() {
	if s != nil {
		s.set(kept)
	}
}

// KeepWith says that the decision stands and completes it with what was not known
// when its place was reserved.
func (s *Slot[D]) KeepWith(complete func(*D)) {
	if s != nil {
		complete(&s.decision) // read only once the slot is kept
		s.set(kept)
	}
}

// Drop says that the decision was not made. It does nothing to one that was kept.
func (s *Slot[D]) Drop() {
	if s != nil {
		s.set(dropped)
	}
}

func (s *Slot[D]) set(state slotState) {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	if s.state == open {
		s.state = state
	}
}

// mostCalls is how often one caller of Flush calls the hook.
const mostCalls = 32

// Flush calls the hook with all decisions up to the first that is open. If another
// goroutine is calling it, that one goes on with these. Where the hook is slower than
// the decisions come, a goroutine that lives as long as there are any takes over, so
// that no caller is kept for long. REQUIRES: no locks.
func (j *Journal[D]) Flush() {
	if j != nil {
		j.flush()
	}
}

func (j *Journal[D]) flush() {
	for range mostCalls {
		d, ok := j.next()
		if !ok {
			return
		}
		j.call(d)
	}
	go func() {
		for {
			d, ok := j.next()
			if !ok {
				return
			}
			j.call(d)
		}
	}()
}

// next pops the first decision, if it stands and no other goroutine is calling the
// hook.
func (j *Journal[D]) next() (d D, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.calling {
		return d, false
	}
	for len(j.mu.pending) > 0 && j.mu.pending[0].state != open {
		s := j.mu.pending[0]
		j.mu.pending[0] = nil
		j.mu.pending = j.mu.pending[1:]
		if s.state == kept {
			j.mu.calling = true
			return s.decision, true
		}
	}
	return d, false
}

// call calls the hook. A panic there must not break the scheduler.
func (j *Journal[D]) call(d D) {
	defer func() {
		if p := recover(); p != nil {
			j.failed(p)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.mu.calling = false
	}()
	j.hook(d)
}

// Quiet reports whether the hook has been called with everything decided.
func (j *Journal[D]) Quiet() bool {
	if j == nil {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.mu.pending) == 0 && !j.mu.calling
}
