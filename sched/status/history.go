package status

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

const (
	// slotLength and slots: what the page shows of the past, 5 minutes.
	slotLength = 10 * time.Second
	slots      = 30
	// mostClasses bounds the classes of profiles that are gone.
	mostClasses = 256
)

// History is what became of the requests of a class in the last minutes.
type History struct {
	Class string `json:"class"`
	// Slots are 10 seconds each, the oldest first; the last one is not over.
	Slots []Slot `json:"slots"`
}

// Slot is what became of the requests of a class in 10 seconds.
type Slot struct {
	Admitted int64 `json:"admitted"` // queries too
	Refused  int64 `json:"refused"`  // cancellations aside
	// Waited is the longest that one of them waited for its outcome.
	Waited time.Duration `json:"waited_ns"`
}

// curve is the last slots of a class, by number modulo slots.
type curve [slots]struct {
	number int64
	Slot
}

func numberOf(at time.Time) int64 { return at.UnixNano() / int64(slotLength) }

// count adds an event to the history. REQUIRES: the lock.
func (r *Recent) count(e sched.Event) {
	granted := e.Kind == sched.EventGranted
	refused := e.Kind == sched.EventRejected && !errors.Is(e.Err, sched.ErrCanceled)
	if e.Class == "" || !granted && !refused {
		return
	}
	c := r.mu.classes[e.Class]
	if c == nil {
		if len(r.mu.classes) == mostClasses {
			return
		}
		c = new(curve)
		r.mu.classes[e.Class] = c
	}
	number := numberOf(e.Time)
	slot := &c[uint64(number)%slots]
	if slot.number != number {
		slot.number, slot.Slot = number, Slot{}
	}
	if granted {
		slot.Admitted++
	} else {
		slot.Refused++
	}
	slot.Waited = max(slot.Waited, e.Waited())
}

// History returns the last 5 minutes of each class that had a request, as of an
// instant on the scheduler's clock. A nil Recent has none.
func (r *Recent) History(now time.Time) []History {
	all := []History{}
	if r == nil {
		return all
	}
	last := numberOf(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	for class, c := range r.mu.classes {
		h := History{Class: class, Slots: make([]Slot, slots)}
		for i := range h.Slots {
			number := last - slots + 1 + int64(i)
			if slot := &c[uint64(number)%slots]; slot.number == number {
				h.Slots[i] = slot.Slot
			}
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b History) int { return cmp.Compare(a.Class, b.Class) })
	return all
}
