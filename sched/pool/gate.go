package pool

import (
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Retest is an instant at which time alone may free a rank.
type Retest struct {
	Rank lifecycle.RankID
	At   int64
}

// Retests returns the busy ranks that time alone will free, with the instants, if
// the last gate found that the request must wait. They hold until the next.
func (l *Look) Retests() []Retest { return l.retests }

// exactTries is how often an exact look is taken anew before the ranks are
// locked for it.
const exactTries = 8

// Gate looks at the ranks only as far as needed to say whether the request must
// wait; if time alone can end that, Retests says when. An exact "must wait" was true
// at one instant: the ranks have not changed since they were read or, if they
// will not stand still, they were locked.
func (l *Look) Gate(w *World, r *Request, class int, at Instant, exact bool) queue.Gate {
	l.World, l.Request, l.Class, l.Instant = w, r, class, at
	l.retests = l.retests[:0]
	l.bound, l.Guarded = l.Guards.Binds(class), 0
	if counts(w.Profile.Class(class)) {
		if gate, ok := l.gateCounted(); ok {
			return gate
		}
	} else if !exact && w.Index != nil && !l.bound {
		if gate, ok := l.gateIndexed(); ok {
			return gate
		}
	}
	l.indexed.used = false
	l.slots = w.Table.Selection(&r.Constraints, &l.set).Places
	gate := l.gate()
	for tries := 0; exact && gate.MustWait && !l.Unmoved(); tries++ {
		if tries == exactTries {
			return l.gateLocked()
		}
		gate = l.gate()
	}
	// One idle rank is idle at the instant it is read; more must be so together. In
	// the middle of a transfer the load is published on neither rank, so that what
	// has not moved proves nothing.
	if ratio := w.Profile.Class(class).BusyWorkerRatio; ratio > 0 && ratio < 1 && !gate.MustWait && len(l.slots) > 1 {
		return l.gateLocked()
	}
	return gate
}

// gateLocked is gate with the eligible ranks locked.
func (l *Look) gateLocked() queue.Gate {
	l.LockEligible()
	defer l.UnlockEligible()
	return l.gate()
}

func (l *Look) gate() queue.Gate {
	gate := queue.Gate{Eligible: len(l.slots)}
	rules := l.World.Profile.Class(l.Class)
	oneIsEnough := rules.BusyWorkerRatio == 0 || rules.BusyWorkerRatio == 1
	slots := l.World.Table.Slots()
	l.versions, l.retests = l.versions[:0], l.retests[:0]
	busy, guarded := 0, 0
	for _, place := range l.slots {
		slot := &slots[place]
		view := slot.Shard.View()
		l.versions = append(l.versions, view.Version)
		gate.Looked++
		if slot.Overloaded {
			gate.Overloaded++
			continue
		}
		above := l.World.BusyAbove(l.Class, slot)
		isBusy := l.Instant.Busy(above, &view.Load)
		if !isBusy && l.bound {
			if guard := l.Guards.Above(l.Class, int(place)); l.Instant.Active(&view.Prefill) > guard {
				guarded++
				l.watch(slot, &lifecycle.BusyAbove{Prefill: guard, Requests: lifecycle.Never, Blocks: lifecycle.Never}, &view)
				continue
			}
		}
		if !isBusy {
			if oneIsEnough {
				gate.Witness, gate.HasWitness = slot.Rank, true
				l.retests = l.retests[:0]
				return gate
			}
			continue
		}
		busy++
		l.watch(slot, above, &view)
	}
	l.Busy, l.Guarded, l.Eligible, l.Overloaded = busy, guarded, gate.Eligible, gate.Overloaded // for WhyWait
	if gate.MustWait = l.mustWait(rules); !gate.MustWait {
		l.retests = l.retests[:0]
	}
	return gate
}

// watch notes when time alone will bring a rank down to a bound that it is above.
func (l *Look) watch(slot *shards.Slot, above *lifecycle.BusyAbove, view *shards.View) {
	if view.Prefill.Decays() {
		if idleAt, ever := above.IdleAt(&view.Load); ever {
			l.retests = append(l.retests, Retest{slot.Rank, idleAt})
		}
	}
}

// Use looks at one rank on behalf of a request. If the rank is busy and time alone
// will end that, idleAt is when, else queue.NoDue. A rank that is guarded is as good
// as busy, but for a class with a ratio, which counts both.
func (w *World) Use(r *Request, class int, rank lifecycle.RankID, now int64, guards *Guards) (use queue.Use, idleAt int64) {
	place := w.Table.Slot(rank)
	if place < 0 {
		return queue.Unusable, queue.NoDue
	}
	slot := &w.Table.Slots()[place]
	view, above := slot.Shard.View(), w.BusyAbove(class, slot)
	if above.Busy(&view.Load, now) {
		if at, ever := above.IdleAt(&view.Load); ever {
			return queue.Busy, at
		}
		return queue.Busy, queue.NoDue
	}
	if w.Table.CheckRank(&r.Constraints, rank) != shards.Eligible {
		return queue.Unusable, queue.NoDue
	}
	if ratio := w.Profile.Class(class).BusyWorkerRatio; ratio > 0 && ratio < 1 {
		return queue.Untold, queue.NoDue
	}
	if guards.Binds(class) {
		guarded := lifecycle.BusyAbove{Prefill: guards.Above(class, place), Requests: lifecycle.Never, Blocks: lifecycle.Never}
		if guarded.Busy(&view.Load, now) {
			if at, ever := guarded.IdleAt(&view.Load); ever {
				return queue.Busy, at
			}
			return queue.Busy, queue.NoDue
		}
	}
	return queue.Usable, queue.NoDue
}
