package pool

import (
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// A class that chooses from idle ranks is given only those that are not busy for it.
// The gate counts the others all the same; so a class that may go on has a rank to
// choose, and the rank it chooses is its own witness: under that rank's lock it is
// idle still, which makes a threshold of the class a cap on what the class adds.

// choosesIdle reports whether a class chooses among idle ranks only. Advisory
// selection, −1, knows no class.
func (w *World) choosesIdle(class int) bool {
	return class >= 0 && w.Profile.Class(class).ChooseFrom == policy.ChooseIdle
}

// dropBarred takes those out of the candidates that the class may not choose.
// REQUIRES: overlaps and depths are not filled in yet, or are in the candidates.
func (l *Look) dropBarred() {
	if l.Busy == 0 || !l.World.choosesIdle(l.Class) {
		return
	}
	n := 0
	for i, busy := range l.busy {
		if busy {
			continue
		}
		if n != i {
			l.places[n], l.candidates[n] = l.places[i], l.candidates[i]
		}
		n++
	}
	clear(l.busy[:n])
	l.places, l.busy, l.candidates = l.places[:n], l.busy[:n], l.candidates[:n]
	l.sorted = n
}

// Restrict applies the rules of a class to a look that was taken for none, by what
// the candidates say by now: which are busy, and which may be chosen.
func (l *Look) Restrict(class int) {
	l.Class, l.Busy = class, 0
	for i := range l.candidates {
		c := &l.candidates[i]
		l.busy[i] = l.World.BusyAbove(class, l.Slot(i)).Exceeded(c.ActivePrefill, c.Requests, c.ActiveBlocks)
		if l.busy[i] {
			l.Busy++
		}
	}
	l.dropBarred()
}

// MayTakeLocked reports whether the class may take a rank with the load. REQUIRES: its
// lock.
func (l *Look) MayTakeLocked(slot *shards.Slot, load *lifecycle.Load) bool {
	return !l.World.choosesIdle(l.Class) || !l.Instant.Busy(l.World.BusyAbove(l.Class, slot), load)
}

// Barred says in words why the class may not choose an eligible rank, given its place
// in the table; empty if it may.
func (l *Look) Barred(place int) string {
	if !l.World.choosesIdle(l.Class) || l.indexOf(place) >= 0 {
		return ""
	}
	slot := &l.World.Table.Slots()[place]
	view := slot.Shard.View()
	if slot.Overloaded || !l.Instant.Busy(l.World.BusyAbove(l.Class, slot), &view.Load) {
		return ""
	}
	return "busy for the class, which chooses from idle ranks"
}
