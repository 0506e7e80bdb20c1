package pool

import "github.com/seed-3c5df8a4/turnstile/shards"

// constrain finds out which ranks are eligible: it counts them and says which spots
// of the index are theirs. It returns the places of those that are not overloaded,
// a few excluded workers aside. It is not ok if they are too few for the index.
func (l *Look) constrain(epoch uint64) (places []int32, ok bool) {
	x, table, c := &l.indexed, l.World.Table, &l.Request.Constraints
	x.query.Among, x.own = nil, false
	if x.query.Rand == nil { // the conversion takes its time
		x.query.Rand, x.query.Judge = l.Rand, (*judge)(l)
	}
	switch {
	case c.Unconstrained():
		l.Eligible, l.Overloaded = table.Eligible()
		return table.Selection(c, &l.set).Open, true
	case c.FewExcluded():
		x.words, l.Eligible, l.Overloaded = table.AmongAllBut(c.Excluded, l.World.Index, x.words)
		x.query.Among, x.own = x.words, true
		return table.Selection(&shards.Constraints{}, &l.set).Open, true
	}
	set := table.Selection(c, &l.set)
	l.Eligible, l.Overloaded = len(set.Places), set.Overloaded()
	if len(set.Open) <= fewOpen {
		return nil, false
	}
	x.query.Among, x.own = set.Among(table, l.World.Index, epoch, x.words)
	if x.own {
		x.words = x.query.Among
	}
	return set.Open, true
}

// fewOpen is how many ranks are looked at one by one in the time of a search.
const fewOpen = 24

// leaveOut has searches pass over a rank of the index; it reports whether they
// would not have before.
func (l *Look) leaveOut(s *shards.Shard) bool {
	spot, x := s.Spot(), &l.indexed
	if spot < 0 {
		return false
	}
	word, bit := spot/64, uint64(1)<<(spot%64)
	switch {
	case word >= l.World.Index.Words() || x.query.Among != nil && x.query.Among[word]&bit == 0:
		return false
	case !x.own:
		from := x.query.Among
		if from == nil {
			from = l.World.Index.Every()
		}
		x.words = append(x.words[:0], from...)
		x.query.Among, x.own = x.words, true
	}
	x.words[word] &^= bit
	return true
}
