package pool

import "github.com/seed-3c5df8a4/turnstile/shards"

// judge reads loads for the index.
type judge Look

// Key implements shards.Judge.
func (j *judge) Key(s *shards.Shard, d shards.Dimension) int64 {
	l := (*Look)(j)
	l.scanned++
	view := &l.view
	s.Read(view)
	return l.World.Index.Key(d, l.Instant.Active(&view.Prefill), view.Blocks, view.Requests)
}

// Take implements shards.Judge: it takes a rank that is idle for the class, and
// notes of one that is not when time alone makes it so, in Retests.
func (j *judge) Take(s *shards.Shard) bool {
	l := (*Look)(j)
	place := l.World.Table.Slot(s.ID())
	if place < 0 {
		return false
	}
	slot := &l.World.Table.Slots()[place]
	if slot.Shard != s || !slot.Available || slot.Overloaded {
		return false
	}
	l.scanned++
	view, above := &l.view, l.World.BusyAbove(l.Class, slot)
	s.Read(view)
	if !l.Instant.Busy(above, &view.Load) {
		return true
	}
	if view.Prefill.Decays() {
		if at, ever := above.IdleAt(&view.Load); ever {
			l.retests = append(l.retests, Retest{slot.Rank, at})
		}
	}
	return false
}
