package queue

import (
	"slices"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// front holds the lanes of a class in one order, and knows the first of those that can
// run.
//
// From the freed rank to the lanes. When a rank was freed, the question is not which
// lanes can run now but which is the first among those that may use *this rank*. So the
// rank asks the lanes in order, until one can use it: that lane is opened. The rank
// goes no further than the first open lane, since the lanes behind it come later
// anyway. When that lane is removed, or is blocked because the rank is taken, the rank
// continues from there. A rank that is found busy asks no further lane: when it is
// freed again it starts from the front.
//
// So a lane that is blocked can run on no rank but those that still come to it,
// and what is done for a freed rank follows from how many lanes stand before the
// one that it serves, not from how many lanes or ranks there are.
type front[T any] struct {
	order int
	less  func(a, b *key) bool
	// opened holds the lanes that are not blocked.
	opened indexHeap[*Lane[T]]
	// All lanes, by what they are listed under: those that any rank may have to
	// ask; the others, together; and these by worker and by rank.
	wide, narrow group[T]
	groups       map[groupKey]*group[T]
	// asking are the groups along which ranks are on their way.
	asking []*group[T]
}

// groupKey is what lanes are listed under.
type groupKey struct {
	worker uint64
	rank   uint32
	pinned bool // to the rank; else any rank of the worker
}

// group is a list of lanes that a freed rank asks together.
type group[T any] struct {
	key   groupKey
	lanes tree[T]
	// asks are on their way along the lanes, the hindmost first. One that comes up
	// to the next goes on together with it.
	asks   []ask
	asking bool // listed among those of the front
	// room is what ended asks leave for later ones.
	room [][]lifecycle.RankID
}

// ask is a number of freed ranks that go along the lanes together.
type ask struct {
	at    place
	ranks []lifecycle.RankID
	next  int // the first of them that has not asked the lane at hand
	// every: all lanes are opened, because something else than a rank has changed.
	every bool
}

// maxListed is the largest allowed set whose lane is listed under each of its
// workers. One with a larger set is listed as if it allowed all, and its set is
// looked at when a rank asks.
const maxListed = 8

func newFront[T any](order int, less func(a, b *key) bool) front[T] {
	f := front[T]{order: order, less: less}
	f.opened = indexHeap[*Lane[T]]{
		less:  func(a, b *Lane[T]) bool { return less(&a.head(order).key, &b.head(order).key) },
		place: func(l *Lane[T]) *int { return &l.standing[order].open },
	}
	f.wide.lanes, f.narrow.lanes = newTree[T](less), newTree[T](less)
	return f
}

// settle puts a lane in its places, or takes it out of them if it is empty.
func (f *front[T]) settle(l *Lane[T]) {
	s := &l.standing[f.order]
	gone := l.order.len() == 0
	switch {
	case gone || l.blocked:
		f.opened.remove(l)
	case s.open >= 0:
		f.opened.fix(l)
	default:
		f.opened.push(l)
	}
	switch {
	case gone:
		f.unlist(s)
	case s.nodes == nil:
		f.list(l)
	case s.nodes[0].key.seq != l.head(f.order).Seq:
		for _, n := range s.nodes {
			n.group.lanes.remove(n)
			n.key = l.head(f.order).key
			n.group.lanes.insert(n)
		}
	}
}

// list enters a lane under what its scope names.
func (f *front[T]) list(l *Lane[T]) {
	s := &l.standing[f.order]
	s.nodes = s.room[:0]
	enter := func(g *group[T]) {
		n := &s.first
		if len(s.nodes) > 0 {
			n = new(node[T])
		}
		n.lane, n.group, n.key = l, g, l.head(f.order).key
		s.nodes = append(s.nodes, n)
		g.lanes.insert(n)
	}
	switch {
	case l.scope.Pinned:
		enter(&f.narrow)
		enter(f.group(groupKey{worker: l.scope.Rank.Worker, rank: l.scope.Rank.Rank, pinned: true}))
	case l.listed == nil:
		enter(&f.wide)
	default:
		enter(&f.narrow)
		for _, id := range l.listed {
			enter(f.group(groupKey{worker: id}))
		}
	}
}

// fewDistinct returns the distinct ids in a slice of its own, nil if there are none
// or more than maxListed.
func fewDistinct(ids []uint64) []uint64 {
	if len(ids) == 0 || len(ids) > 2*maxListed {
		return nil
	}
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	if sorted = slices.Compact(sorted); len(sorted) > maxListed {
		return nil
	}
	return sorted
}

// group returns the group of a key, made if need be.
func (f *front[T]) group(k groupKey) *group[T] {
	g := f.groups[k]
	if g == nil {
		if f.groups == nil {
			f.groups = make(map[groupKey]*group[T])
		}
		g = &group[T]{key: k, lanes: newTree[T](f.less)}
		f.groups[k] = g
	}
	return g
}

func (f *front[T]) unlist(s *laneStanding[T]) {
	for _, n := range s.nodes {
		g := n.group
		g.lanes.remove(n)
		n.group = nil
		if !g.lanes.empty() {
			continue
		}
		g.asks = nil // no lane is left to be asked
		if g != &f.wide && g != &f.narrow {
			delete(f.groups, g.key)
		}
	}
	s.nodes = nil
}

// ask sends a freed rank along the lanes that it may serve.
func (f *front[T]) ask(rank lifecycle.RankID) {
	f.send(&f.wide, rank)
	if len(f.groups) > 0 {
		f.send(f.groups[groupKey{worker: rank.Worker}], rank)
		f.send(f.groups[groupKey{worker: rank.Worker, rank: rank.Rank, pinned: true}], rank)
	}
}

func (f *front[T]) send(g *group[T], rank lifecycle.RankID) {
	if g == nil || g.lanes.empty() {
		return
	}
	if len(g.asks) == 0 || g.asks[0].at.begun {
		var room []lifecycle.RankID
		if n := len(g.room); n > 0 {
			room, g.room = g.room[n-1], g.room[:n-1]
		}
		f.start(g, ask{ranks: append(room, rank)})
	} else if !g.asks[0].every {
		g.asks[0].ranks = append(g.asks[0].ranks, rank)
	}
}

func (f *front[T]) start(g *group[T], a ask) {
	g.asks = slices.Insert(g.asks, 0, a)
	if !g.asking {
		g.asking = true
		f.asking = append(f.asking, g)
	}
}

// openEvery has each lane looked at again, in order.
func (f *front[T]) openEvery() {
	for _, g := range []*group[T]{&f.wide, &f.narrow} {
		switch {
		case g.lanes.empty():
		case len(g.asks) > 0 && !g.asks[0].at.begun:
			g.asks[0] = ask{every: true}
		default:
			f.start(g, ask{every: true})
		}
	}
}

// mayBePassed reports whether ranks are on their way in a group of the lane: if the
// lane, blocked, comes to stand further ahead, they may not ask it.
func (l *Lane[T]) mayBePassed() bool {
	for i := range l.class.fronts {
		for _, n := range l.standing[i].nodes {
			if len(n.group.asks) > 0 {
				return true
			}
		}
	}
	return false
}

// quiet reports whether no lane is open and no rank is on its way.
func (f *front[T]) quiet() bool { return f.opened.len() == 0 && len(f.asking) == 0 }

// best returns the open lane that goes first, after the freed ranks have asked all
// before it; nil if none is open. It is not ok if the budget was used up before
// that was clear.
func (f *front[T]) best(r Ranks[T], b *Budget) (l *Lane[T], ok bool) {
	for i := 0; i < len(f.asking); {
		g := f.asking[i]
		switch f.advance(g, r, b) {
		case openedOne:
			// What stands before it is still to be asked, but no more than that.
		case cameUp:
			i++
		case finished:
			g.asking = false
			last := len(f.asking) - 1
			f.asking[i], f.asking[last] = f.asking[last], nil
			f.asking = f.asking[:last]
		case usedUp:
			return nil, false
		}
	}
	if f.opened.len() == 0 {
		return nil, true
	}
	return f.opened.top(), true
}

// advanced is how far those on the way came.
type advanced uint8

const (
	openedOne advanced = iota
	cameUp             // to the first open lane
	finished           // no rank is on its way
	usedUp             // the budget is
)

// advance has the ranks on their way along a group ask the lanes before the first open
// one, up to the first that can run.
func (f *front[T]) advance(g *group[T], r Ranks[T], b *Budget) advanced {
	for len(g.asks) > 0 {
		a := &g.asks[0]
		n := g.lanes.seek(&a.at)
		if n == nil {
			// None of the others is further behind.
			for len(g.asks) > 0 {
				g.end()
			}
			break
		}
		if f.opened.len() > 0 && !f.less(&n.key, &f.opened.top().head(f.order).key) {
			return cameUp
		}
		if len(g.asks) > 1 && !g.asks[1].at.passed(&n.key, f.less) {
			b.Spend(g.join())
			continue
		}
		if !a.at.begun || a.at.behind || a.at.key.seq != n.key.seq {
			a.next = 0 // it is another lane than the one last asked
		}
		a.at = place{key: n.key, begun: true}
		if !b.Spend(CostLane) {
			return usedUp
		}
		if a.every {
			a.at.behind = true
			n.lane.class.open(n.lane)
			return openedOne
		}
		for a.next < len(a.ranks) {
			rank := a.ranks[a.next]
			switch r.CanUse(n.lane, rank) {
			case Busy:
				last := len(a.ranks) - 1
				a.ranks[a.next] = a.ranks[last]
				a.ranks = a.ranks[:last]
			case Unusable:
				a.next++
			case Usable:
				n.lane.witness, n.lane.hasWitness, n.lane.asked = rank, true, true
				n.lane.class.open(n.lane)
				return openedOne
			case Untold:
				// All of its ranks are looked at, so the others need not ask it.
				a.next, a.at.behind = 0, true
				n.lane.class.open(n.lane)
				return openedOne
			}
			if !b.Spend(CostRank) {
				return usedUp
			}
		}
		a.next, a.at.behind = 0, true
		if len(a.ranks) == 0 {
			g.end()
		}
	}
	return finished
}

// join has the first two asks go on together from where they are, and returns the
// units of a budget that this takes.
func (g *group[T]) join() (units int) {
	first, second := &g.asks[0], &g.asks[1]
	units = 1 + len(first.ranks)/8
	if first.every || second.every {
		// A request that opens every lane asks for all ranks. The place is the same.
		second.every, second.ranks = true, nil
	} else {
		second.ranks = append(second.ranks, first.ranks...)
	}
	second.next = 0
	g.end()
	return units
}

// end takes the first ask off and keeps its room, unless that is large.
func (g *group[T]) end() {
	if room := g.asks[0].ranks; len(g.room) < 4 && cap(room) <= 64 {
		g.room = append(g.room, room[:0])
	}
	g.asks = slices.Delete(g.asks, 0, 1)
}

// dismiss takes all ranks off their way.
func (f *front[T]) dismiss() {
	for i, g := range f.asking {
		for len(g.asks) > 0 {
			g.end()
		}
		g.asking, f.asking[i] = false, nil
	}
	f.asking = f.asking[:0]
}
