package sched

import "sync"

// journal tells the decision hook what was decided, in decision order. Decisions
// are added where they are made, some under a rank's lock; they are told later,
// without locks, by whoever comes by. A nil journal does nothing.
type journal struct {
	hook func(Decision)
	// failed is told of a panic.
	failed func(hook, any)
	// mu is a leaf: it is taken under any other lock.
	mu struct {
		sync.Mutex
		pending []*entry
		telling bool
	}
}

// entry is a decision that is made but for the last step, which says whether it
// stands.
type entry struct {
	journal  *journal
	decision Decision
	state    entryState // guarded by journal.mu
}

type entryState uint8

const (
	entryOpen entryState = iota
	entryKept
	entryDropped
)

func (j *journal) add(d Decision) {
	if j != nil {
		j.reserve(d).keep()
	}
}

// reserve takes the decision's place in the order, before the step that makes
// it: after that step its owner may go on and cause the next decision.
func (j *journal) reserve(d Decision) *entry {
	if j == nil {
		return nil
	}
	e := &entry{journal: j, decision: d}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.pending = append(j.mu.pending, e)
	return e
}

func (e *entry) keep() { e.set(entryKept) }

// drop does nothing to a decision that was kept.
func (e *entry) drop() { e.set(entryDropped) }

// keepAt keeps an admission whose placement was not known when its place in the
// order was taken.
func (e *entry) keepAt(p *Placement) {
	if e != nil {
		e.decision.Placement = *p // read only once it is kept
		e.keep()
	}
}

func (e *entry) set(state entryState) {
	if e == nil {
		return
	}
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	if e.state == entryOpen {
		e.state = state
	}
}

// tellAtOnce is how many decisions one caller tells.
const tellAtOnce = 32

// deliver tells what can be told: all decisions up to the first that is open. If
// somebody else is telling, they will tell these too. Where the hook is slower
// than the decisions come, a goroutine that lives as long as there are any takes
// over, so that no caller is kept for long.
func (j *journal) deliver() {
	if j == nil {
		return
	}
	for range tellAtOnce {
		d, ok := j.next()
		if !ok {
			return
		}
		j.tell(d)
	}
	go func() {
		for {
			d, ok := j.next()
			if !ok {
				return
			}
			j.tell(d)
		}
	}()
}

func (j *journal) next() (d Decision, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.telling {
		return d, false
	}
	for len(j.mu.pending) > 0 && j.mu.pending[0].state != entryOpen {
		e := j.mu.pending[0]
		j.mu.pending[0] = nil
		j.mu.pending = j.mu.pending[1:]
		if e.state == entryKept {
			j.mu.telling = true
			return e.decision, true
		}
	}
	return d, false
}

// tell calls the hook. A panic there must not break the scheduler.
func (j *journal) tell(d Decision) {
	defer func() {
		if p := recover(); p != nil && j.failed != nil {
			j.failed(hookDecision, p)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.mu.telling = false
	}()
	j.hook(d)
}

// quiet reports whether everything decided has been told.
func (j *journal) quiet() bool {
	if j == nil {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.mu.pending) == 0 && !j.mu.telling
}
