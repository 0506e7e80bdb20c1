package storm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// ticketID is the id of a request whose place in line follows from class, lane,
// priority and arrival alone. The id says so itself, because decisions are told
// later than made.
func ticketID(class, lane string, priority uint32, caller int, n uint64) string {
	return fmt.Sprintf("o:%s:%s:%d:%d.%d", class, lane, priority, caller, n)
}

// The lanes with a meaning here; others are only names.
const laneFree = "free"

func lanePinned(id sched.RankID) string { return fmt.Sprintf("pin%d-%d", id.Worker, id.Rank) }

// order checks the decisions, in the order in which they are told: invariant 3.
type order struct {
	broken *violations
	exact  bool

	mu struct {
		sync.Mutex
		ticket  uint64
		waiting map[string][]*waiter // by class, in ticket order
		checked int64                // grants that were compared with the waiters
	}
}

type waiter struct {
	id, lane string
	priority uint64
	ticket   uint64
	passedBy string
}

func newOrder(v *violations, exact bool) *order {
	o := &order{broken: v, exact: exact}
	o.mu.waiting = make(map[string][]*waiter)
	return o
}

// told notes a decision.
func (o *order) told(d *sched.Decision) {
	if !strings.HasPrefix(d.Request, "o:") {
		return
	}
	parts := strings.Split(d.Request, ":")
	class, lane := parts[1], parts[2]
	priority, err := strconv.ParseUint(parts[3], 10, 32)
	if err != nil {
		o.broken.add(3, "the engine told of a request %q that no caller made", d.Request)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch d.Kind {
	case sched.DecisionQueued:
		o.mu.ticket++
		o.mu.waiting[class] = append(o.mu.waiting[class],
			&waiter{id: d.Request, lane: lane, priority: priority, ticket: o.mu.ticket})
	case sched.DecisionRejected:
		if !errors.Is(d.Err, sched.ErrDuplicate) {
			o.take(class, d.Request)
		}
	case sched.DecisionAdmitted:
		o.granted(d, class, lane, priority)
	case sched.DecisionExpired:
		// It had been admitted.
	}
}

// take takes a request off the list; nil if it is not there. REQUIRES: mu.
func (o *order) take(class, id string) *waiter {
	list := o.mu.waiting[class]
	for i, w := range list {
		if w.id == id {
			o.mu.waiting[class] = slices.Delete(list, i, i+1)
			return w
		}
	}
	return nil
}

// granted compares a grant with the waiters that are left. REQUIRES: mu.
func (o *order) granted(d *sched.Decision, class, lane string, priority uint64) {
	ticket := o.mu.ticket + 1 // not having waited, it comes after all waiters
	if w := o.take(class, d.Request); w != nil {
		ticket = w.ticket
		if w.passedBy != "" {
			o.broken.add(3, "%s was granted after %s, which came later, and so was not gone when that was granted", w.id, w.passedBy)
		}
	}
	o.mu.checked++
	for _, w := range o.mu.waiting[class] {
		if w.passedBy == "" && (w.priority > priority || w.priority == priority && w.ticket < ticket) &&
			o.hadTheTurn(w, class, lane, d.Placement.Rank) {
			// It may have left; then it is not granted any more.
			w.passedBy = d.Request
		}
	}
}

// hadTheTurn reports whether a waiter could have run when another of its class
// was granted a rank.
func (o *order) hadTheTurn(w *waiter, class, lane string, rank sched.RankID) bool {
	switch {
	case w.lane == lane:
		return true
	case class == "half":
		return false // a gate that depends on all ranks is open for one lane only
	case o.exact:
		return w.lane == laneFree || w.lane == lanePinned(rank)
	default:
		// A free rank opens the gate for all who may have it, but only of who is
		// pinned it is known which rank was free.
		return w.lane == laneFree && strings.HasPrefix(lane, "pin")
	}
}

// checkEmpty is called when no request waits and all was told.
func (o *order) checkEmpty() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for class, list := range o.mu.waiting {
		for _, w := range list {
			o.broken.add(10, "%s of class %s was queued and never decided", w.id, class)
		}
		o.mu.waiting[class] = nil
	}
}

func (o *order) compared() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.checked
}
