package pool

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// A class with a busy_worker_ratio must wait when that share of its eligible ranks is
// busy or overloaded: it depends on all of them at once. In a large pool the load
// index counts them, see shards.LoadIndex.CountBusy: the gate is decided, and the
// booking made, while no rank can become busy or idle. In a small one, and for few
// eligible ranks, those are locked instead.

// counts reports whether a class has such a ratio.
func counts(c *policy.Class) bool { return c.BusyWorkerRatio > 0 && c.BusyWorkerRatio < 1 }

// ratios say by which rule the index counts the ranks that are busy for a class. They
// are immutable and shared by the worlds of a profile.
type ratios struct {
	profile *policy.Profile
	// rule has the number of each class's rule, −1 for none; ruled has for each rule a
	// class that has it.
	rule  []int8
	ruled []int
}

// ratiosFor numbers the different rules by which the classes with a ratio count.
func (w *World) ratiosFor() *ratios {
	if w.ratios != nil && w.ratios.profile == w.Profile {
		return w.ratios
	}
	r := &ratios{profile: w.Profile, rule: make([]int8, w.Profile.Len())}
	for class := range r.rule {
		r.rule[class] = -1
		c := w.Profile.Class(class)
		if !counts(c) {
			continue
		}
		at := slices.IndexFunc(r.ruled, func(other int) bool { return equalRules(c, w.Profile.Class(other)) })
		if at < 0 && len(r.ruled) < shards.MostRules {
			at, r.ruled = len(r.ruled), append(r.ruled, class)
		}
		r.rule[class] = int8(at)
	}
	return r
}

// equalRules reports whether two classes call the same ranks busy.
func equalRules(a, b *policy.Class) bool {
	return equal(a.BusyThreshold, b.BusyThreshold) && equal(a.BusyThresholdFrac, b.BusyThresholdFrac) &&
		a.MaxRequestsPerRank == b.MaxRequestsPerRank && equal(a.KVBusyThresholdFrac, b.KVBusyThresholdFrac)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// CountOtherwise reports whether busy ranks are to be counted by other rules when a
// profile takes the place of another.
func CountOtherwise(before, after *policy.Profile) bool {
	if before == after {
		return false
	}
	for _, p := range []*policy.Profile{before, after} {
		for class := range p.Len() {
			if counts(p.Class(class)) {
				return true
			}
		}
	}
	return false
}

// CountBusy has the load index count busy ranks as the classes of the world need it;
// before is the profile that was. REQUIRES: the index is not shown yet.
func (w *World) CountBusy(before *policy.Profile) {
	if w.Index == nil {
		return
	}
	byKind := make(map[int32]*shards.Rules)
	w.Index.CountBusy(w.Table, len(w.ratios.ruled), before != w.Profile, func(slot *shards.Slot) *shards.Rules {
		rules := byKind[slot.Kind]
		if rules == nil {
			rules = new(shards.Rules)
			for _, class := range w.ratios.ruled {
				*rules = append(*rules, *w.BusyAbove(class, slot))
			}
			byKind[slot.Kind] = rules
		}
		return rules
	})
}

// CountsBusy reports whether the index can count for the class of the look which of
// the eligible ranks are busy; if so, the look is ready for it. It does not count
// guarded ranks, so it cannot while guards bind the class.
func (l *Look) CountsBusy() bool {
	w := l.World
	if w.Index == nil || l.Rand == nil || l.bound || w.ratios.rule[l.Class] < 0 || l.Request.Constraints.Pinned {
		return false
	}
	epoch, ok := w.Index.Begin()
	if !ok {
		return false
	}
	l.epoch = epoch
	_, ok = l.constrain(epoch)
	return ok
}

// LockCount has all ranks stay busy or idle as they are, but for the one that the
// caller has locked, if any. REQUIRES: CountsBusy.
func (l *Look) LockCount(s *shards.Shard) { l.World.Index.LockCount(s) }

// UnlockCount ends that.
func (l *Look) UnlockCount(s *shards.Shard) { l.World.Index.UnlockCount(s) }

// RoomLocked reports whether the share of busy ranks lets the request go on. It is
// false too if it cannot tell because the ranks have changed. REQUIRES: LockCount.
func (l *Look) RoomLocked() bool { return l.countLocked() && !l.MustWait() }

func (l *Look) countLocked() (ok bool) {
	w, x := l.World, &l.indexed
	l.retests = l.retests[:0]
	l.Busy, ok = w.Index.BusyLocked(&x.query, int(w.ratios.rule[l.Class]))
	return ok && w.Index.Holds(l.epoch)
}

// gateCounted is the gate of a class with a ratio: what it says was true at one
// instant.
func (l *Look) gateCounted() (gate queue.Gate, ok bool) {
	if !l.CountsBusy() {
		return gate, false
	}
	judged := l.indexed.query.Judged
	if ok = l.countNow(); !ok {
		return gate, false
	}
	gate.Eligible, gate.Overloaded = l.Eligible, l.Overloaded
	gate.Looked = 1 + l.indexed.query.Judged - judged + l.World.Index.Words()/keysPerRank
	if gate.MustWait = l.MustWait(); !gate.MustWait {
		l.retests = l.retests[:0]
	}
	return gate, true
}

// countNow counts under the lock of the count alone.
func (l *Look) countNow() bool {
	l.LockCount(nil)
	defer l.UnlockCount(nil) // also if the clock panics
	return l.countLocked()
}
