package queue

// watch holds the ranks that time alone may free, each with the earliest instant
// at which that may be.
type watch struct {
	byTime indexHeap[*watched]
	ranks  map[RankID]*watched
}

type watched struct {
	rank RankID
	at   int64
	in   int
}

func newWatch() watch {
	return watch{byTime: indexHeap[*watched]{
		less:  func(a, b *watched) bool { return a.at < b.at },
		place: func(w *watched) *int { return &w.in },
	}}
}

func (w *watch) add(rank RankID, at int64) {
	known := w.ranks[rank]
	switch {
	case known == nil:
		if w.ranks == nil {
			w.ranks = make(map[RankID]*watched)
		}
		known = &watched{rank: rank, at: at, in: -1}
		w.ranks[rank] = known
		w.byTime.push(known)
	case at < known.at:
		known.at = at
		w.byTime.fix(known)
	}
}

// next returns the earliest instant, NoDue if there is none.
func (w *watch) next() int64 {
	if w.byTime.len() == 0 {
		return NoDue
	}
	return w.byTime.top().at
}

// pop takes out the rank whose instant is the earliest. REQUIRES: there is one.
func (w *watch) pop() RankID {
	first := w.byTime.top()
	w.byTime.remove(first)
	delete(w.ranks, first.rank)
	return first.rank
}

func (w *watch) clear() {
	if len(w.ranks) > 0 {
		clear(w.byTime.members)
		w.byTime.members = w.byTime.members[:0]
		clear(w.ranks)
	}
}
