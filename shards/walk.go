package shards

import "iter"

// PrefixWalk is what Prefixes says of one prompt: the edges along it, from the first to
// the deepest that any rank holds. It is scratch space to be used again, by one
// goroutine at a time. The holders are read when they are asked for.
type PrefixWalk struct {
	prefixes *Prefixes
	// given is how many seats had been given when the walk began.
	given  uint64
	levels []prefixLevel
}

// prefixLevel is one edge along a prompt: above is the number of blocks before
// it, matched how many of the prompt's blocks lie on it. All holders have these.
type prefixLevel struct {
	above, matched int
	edge           *edge
}

// keptLevels bounds the room that a walk keeps.
const keptLevels = 1 << 12

// Find walks along a prompt.
func (w *PrefixWalk) Find(p *Prefixes, blocks []uint64) {
	w.Reset()
	w.prefixes, w.given = p, p.seats.given.Load()
	place := uint64(0)
	for at := 0; at < len(blocks); {
		e, found := p.edges.Load(edgeKey{place, blocks[at]})
		if !found {
			return
		}
		matched := commonPrefix(e.hashes, blocks[at:])
		w.levels = append(w.levels, prefixLevel{at, matched, e})
		if matched < len(e.hashes) {
			return
		}
		at += matched
		place = e.tag
	}
}

// Reset forgets what was found, and gives oversized room back. Room that is kept
// is empty.
func (w *PrefixWalk) Reset() {
	if cap(w.levels) > keptLevels {
		*w = PrefixWalk{}
		return
	}
	clear(w.levels)
	w.prefixes, w.levels = nil, w.levels[:0]
}

// Levels returns the number of edges found.
func (w *PrefixWalk) Levels() int { return len(w.levels) }

// Holders returns how many ranks hold all that is matched of a level. They are in
// the levels above it too.
func (w *PrefixWalk) Holders(level int) int { return int(w.at(level).count.Load()) }

// HeldByAll returns how many leading blocks of the prompt so many ranks hold, and
// how many levels these are: with the number of ranks in the pool, what all hold.
// While ranks come and go it may err.
func (w *PrefixWalk) HeldByAll(ranks int) (blocks, levels int) {
	for levels < len(w.levels) && w.Holders(levels) == ranks {
		blocks += w.levels[levels].matched
		levels++
	}
	return blocks, levels
}

// Each yields the ranks that hold all that is matched of a level. Those that
// change meanwhile may come or not, and one may come twice.
func (w *PrefixWalk) Each(level int) iter.Seq[*Shard] {
	return func(yield func(*Shard) bool) {
		list := *w.prefixes.seats.list.Load()
		w.at(level).each(func(number int32) bool {
			if int(number) >= len(list) {
				return true // it came after the list was read
			}
			s := list[number].Load()
			return s == nil || yield(s)
		})
	}
}

// Depth returns how many leading blocks of the prompt a rank holds.
func (w *PrefixWalk) Depth(s *Shard) int {
	number := s.seat.loadBefore(w.given)
	if number == 0 {
		return 0
	}
	held, not := 0, len(w.levels) // it holds levels[:held], and none of levels[not:]
	for held < not {
		if at := int(uint(held+not) / 2); w.at(at).has(number) {
			held = at + 1
		} else {
			not = at
		}
	}
	if held == 0 {
		return 0
	}
	return w.levels[held-1].above + w.levels[held-1].matched
}

func (w *PrefixWalk) at(level int) *holders { return w.levels[level].edge.holders.Load() }
