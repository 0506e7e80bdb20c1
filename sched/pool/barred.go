package pool

import (
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// What a class may not choose although it is eligible.
//
// A class that chooses from idle ranks is given only those that are not busy for it.
// The gate counts the others all the same; so a class that may go on has a rank to
// choose, and the rank it chooses is its own witness: under that rank's lock it is
// idle still, which makes a threshold of the class a cap on what the class adds.

// choosesIdle reports whether a class chooses among idle ranks only. Advisory
// selection, −1, knows no class.
func (w *World) choosesIdle(class int) bool {
	return class >= 0 && w.Profile.Class(class).ChooseFrom == policy.ChooseIdle
}

// noteGuarded notes whether the rank that is being seen is guarded for the class.
func (l *Look) noteGuarded(place int, active int64, busy bool) {
	guarded := active > l.Guards.Above(l.Class, place)
	if guarded && !busy {
		l.Guarded++
	}
	l.guarded = append(l.guarded, guarded)
}

// dropBarred takes those out of the candidates that the class may not choose: the
// guarded and, if it chooses from idle ranks, the busy.
// REQUIRES: overlaps and depths are not filled in yet, or are in the candidates.
func (l *Look) dropBarred() {
	idle := l.World.choosesIdle(l.Class) && l.Busy > 0
	if !idle && !l.bound {
		return
	}
	n := 0
	for i, busy := range l.busy {
		if idle && busy || l.bound && l.guarded[i] {
			continue
		}
		l.places[n], l.busy[n] = l.places[i], busy
		if n != i {
			l.candidates[n] = l.candidates[i]
		}
		n++
	}
	l.places, l.busy, l.candidates = l.places[:n], l.busy[:n], l.candidates[:n]
	l.sorted = n
}

// Restrict applies the rules of a class to a look that was taken for none, by what
// the candidates say by now: which are busy, and which may be chosen.
func (l *Look) Restrict(class int) {
	l.Class, l.Busy, l.Guarded, l.bound, l.guarded = class, 0, 0, l.Guards.Binds(class), l.guarded[:0]
	for i := range l.candidates {
		c := &l.candidates[i]
		l.busy[i] = l.World.BusyAbove(class, l.Slot(i)).Exceeded(c.ActivePrefill, c.Requests, c.ActiveBlocks)
		if l.busy[i] {
			l.Busy++
		}
		if l.bound {
			l.noteGuarded(int(l.places[i]), c.ActivePrefill, l.busy[i])
		}
	}
	l.dropBarred()
}

// MayTakeLocked reports whether the class may take a rank with the load. REQUIRES: its
// lock.
func (l *Look) MayTakeLocked(slot *shards.Slot, load *lifecycle.Load) bool {
	if l.bound && l.Instant.Active(&load.Prefill) > l.Guards.Above(l.Class, l.World.Table.Slot(slot.Rank)) {
		return false
	}
	return !l.World.choosesIdle(l.Class) || !l.Instant.Busy(l.World.BusyAbove(l.Class, slot), load)
}

// Barred says in words why the class may not choose an eligible rank, given its place
// in the table; empty if it may.
func (l *Look) Barred(place int) string {
	if l.indexOf(place) >= 0 {
		return ""
	}
	slot := &l.World.Table.Slots()[place]
	view := slot.Shard.View()
	if by := l.Guards.By(l.Class, place, l.Instant.Active(&view.Prefill)); by != "" {
		return "guarded for class " + by
	}
	if l.World.choosesIdle(l.Class) && !slot.Overloaded && l.Instant.Busy(l.World.BusyAbove(l.Class, slot), &view.Load) {
		return "busy for the class, which chooses from idle ranks"
	}
	return ""
}
