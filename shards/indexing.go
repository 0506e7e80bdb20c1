package shards

// IndexedFrom is the number of ranks from which on a pool keeps a load index.
// Below it a look at all ranks is as fast.
const IndexedFrom = 8

// Reindex returns the load index for a table that takes the place of another: the
// old index, a new one, or nil for a small pool. The index cannot be used until
// Shown; in between the table is published and the ranks that are gone are
// dropped. One table is changed at a time.
func (t *Table) Reindex(old *LoadIndex, weights Weights) *LoadIndex {
	if old != nil {
		old.epoch.Add(1)
	}
	if len(t.slots) < IndexedFrom || weights.Prefill < 1 || weights.Block < 1 || weights.Request < 0 {
		if old != nil {
			t.moveTo(nil, nil)
		}
		return nil
	}
	if old != nil && len(old.shards) <= 4*spots(len(t.slots)) && t.moveTo(old, old.known) {
		return old
	}
	// Ranks that are gone but not dropped yet are in the old one.
	index := newLoadIndex(len(t.slots), weights)
	index.epoch.Add(1)
	t.moveTo(index, nil)
	return index
}

// moveTo moves the ranks to an index, hidden if they are new there: all, but for
// those that it knows since an edit. It reports whether there was room. An index
// that ranks have left stays as it is: its epoch is odd for good.
func (t *Table) moveTo(index *LoadIndex, known *edit) bool {
	for slot := range t.since(known) {
		s := slot.Shard
		looked(index)
		s.Lock()
		at := s.mu.spot.index
		if at != nil && at != index {
			at.give(s)
		}
		full := index != nil && at != index && !index.take(s)
		s.Unlock()
		if full {
			return false
		}
	}
	return true
}

// Shown shows the ranks in the index that may be chosen, hides the others, and
// lets the index be used.
func (t *Table) Shown(index *LoadIndex) {
	if index != nil {
		for slot := range t.since(index.known) {
			hidden := !slot.Available || slot.Overloaded
			s := slot.Shard
			looked(index)
			s.Lock()
			if s.mu.spot.index == index && s.mu.spot.hidden != hidden {
				s.mu.spot.hidden = hidden
				load := s.mu.rank.Load()
				index.update(s, &load)
			}
			s.Unlock()
		}
		index.known = t.last
		index.epoch.Add(1)
	}
	if t.last != nil {
		t.last.before = nil // no reader goes further back
	}
}

// looked counts a rank that was looked at for an index.
func looked(index *LoadIndex) {
	if index != nil {
		index.looked++
	}
}
