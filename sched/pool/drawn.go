package pool

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// drawPlaces finds the ranks that a selector that compares no load gets: one drawn from
// those that are open, two, or the next in turn. All of them are there by place, so
// that none is looked at; those of a few excluded workers are passed over. The
// preferred rank is looked at instead of any.
func (l *Look) drawPlaces(open []int32) bool {
	w, r, x := l.World, l.Request, &l.indexed
	x.concerned, x.common, l.sorted = 0, 0, 0
	slots := w.Table.Slots()
	if r.HasPrefer {
		if at := w.Table.Slot(r.Prefer); at >= 0 && l.isOpen(&slots[at]) {
			l.places = append(l.places, int32(at))
			return true
		}
	}
	n := 1
	if w.load == selector.LoadTwo {
		n = min(2, l.Eligible-l.Overloaded)
	}
	if l.Eligible == l.Overloaded {
		return false
	}
	if last, pick, ok := selector.After(w.Selector); ok {
		x.turn, x.inTurn = pick, true
		return l.nextAfter(last, open)
	}
	for range draws {
		if len(l.places) == n {
			return true
		}
		place := open[chance.Below(l.Rand, uint64(len(open)))]
		if l.isOpen(&slots[place]) && !slices.Contains(l.places, place) {
			l.places = append(l.places, place)
		}
	}
	return len(l.places) == n
}

// draws is how often a rank is drawn before all are looked at, if what is drawn
// may not be chosen. At worst one in a few may: no more workers are passed over
// one by one than fewExcluded.
const draws = 32

// isOpen reports whether a rank is eligible and not overloaded.
func (l *Look) isOpen(slot *shards.Slot) bool {
	if !slot.Available || slot.Overloaded {
		return false
	}
	among, spot := l.indexed.query.Among, slot.Shard.Spot()
	if spot < 0 || spot/64 >= l.World.Index.Words() {
		return false
	}
	return among == nil || among[spot/64]>>(spot%64)&1 != 0
}

// nextAfter finds the next open rank in turn.
func (l *Look) nextAfter(last *lifecycle.RankID, open []int32) bool {
	slots, at := l.World.Table.Slots(), 0
	if last != nil {
		before, found := slices.BinarySearchFunc(open, *last, func(place int32, last lifecycle.RankID) int {
			return slots[place].Rank.Compare(last)
		})
		if at = before; found {
			at++
		}
	}
	for i := range open {
		place := open[(at+i)%len(open)]
		if l.isOpen(&slots[place]) {
			l.places = append(l.places, place)
			return true
		}
	}
	return false
}
