package pool

import (
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// gateIndexed says whether a request must wait, if the index can tell, and until
// when if time alone can end that.
func (l *Look) gateIndexed() (queue.Gate, bool) {
	w := l.World
	if l.Rand == nil || l.Request.Constraints.Pinned || !w.indexedGate(l.Class) {
		return queue.Gate{}, false
	}
	epoch, ok := w.Index.Begin()
	if !ok {
		return queue.Gate{}, false
	}
	if _, ok := l.constrain(epoch); !ok {
		return queue.Gate{}, false
	}
	gate := queue.Gate{Eligible: l.Eligible, Overloaded: l.Overloaded}
	l.Busy = 0
	read, judged := l.indexed.query.Read, l.indexed.query.Judged
	if gate.Eligible > 0 && w.Profile.Class(l.Class).CanQueue() {
		if s := l.findIdle(); s != nil {
			gate.Witness, gate.HasWitness = s.ID(), true
			l.retests = l.retests[:0]
		} else {
			gate.MustWait = true
			l.Busy = gate.Eligible - gate.Overloaded
		}
	}
	gate.Looked = 1 + l.indexed.query.Judged - judged + (l.indexed.query.Read-read)/keysPerRank
	return gate, w.Index.Holds(epoch)
}

// keysPerRank is how many keys are read in the time in which a rank is looked at.
const keysPerRank = 16

// indexedGate reports whether the index can tell if a rank is idle for a class.
func (w *World) indexedGate(class int) bool {
	ratio := w.Profile.Class(class).BusyWorkerRatio
	return len(w.Table.Workers()) > 0 && (ratio == 0 || ratio == 1)
}

// witnessed finds out whether a rank is idle for the class: a candidate, or another.
func (l *Look) witnessed(slots []shards.Slot) bool {
	l.Busy = 0
	return l.IdleCandidate(-1) >= 0 || l.findWitness(slots)
}

// findWitness adds an idle rank, if there is one, as a candidate that is not to be
// chosen; else all are busy. It reports false if it cannot tell.
func (l *Look) findWitness(slots []shards.Slot) bool {
	s := l.findIdle()
	if s == nil {
		l.Busy = l.Eligible - l.Overloaded
		return true
	}
	n := len(l.places)
	if !l.place(s) {
		return false
	}
	place := l.places[n]
	l.places = l.places[:n]
	l.see(place, &slots[place])
	if l.busy[n] {
		return false // it is not any more
	}
	l.candidates[n].PotentialBlocks -= int64(l.indexed.common)
	l.Busy = 0
	return true
}

// findIdle returns an eligible rank that is idle for the class, nil if there was
// none: each was found busy.
func (l *Look) findIdle() *shards.Shard {
	x, most := &l.indexed, l.World.busyWhatever(l.Class)
	l.retests = l.retests[:0]
	return l.World.Index.Any(&x.query, most.Prefill, most.Requests)
}
