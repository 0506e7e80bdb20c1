package kvevents

import (
	"math/bits"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// look is what one look-up needs besides its answer.
type look struct {
	words []uint64 // each rank's word at the start
	// in holds for each tier the ranks whose match goes on there, fell those whose match has
	// ended in the tiers before, set who holds the block.
	in        [tiers][]uint64
	fell, set []uint64
	counts    [tiers][]int32 // by slot: blocks passed in the tier
	steps     [tiers][]step
}

// step names the ranks whose engine's blocks have so many of ours. Only the last of them
// stands in the table, and commits to the others: such a rank passes by the rest.
type step struct {
	split int
	ranks []uint64
}

func (l *look) fit(slots int, all bool) {
	words := (slots + 63) / 64
	if len(l.fell) != words {
		*l = look{words: make([]uint64, words*64), fell: make([]uint64, words), set: make([]uint64, words)}
		l.in[device] = make([]uint64, words)
	}
	if all && l.in[disk] == nil {
		for t := range l.in {
			l.in[t] = make([]uint64, words)
			l.counts[t] = make([]int32, words*64)
		}
	}
	for t := range l.in {
		clear(l.in[t])
		clear(l.counts[t])
		l.steps[t] = l.steps[t][:0]
	}
}

// start takes note of what each rank is.
func (l *look) start(ranks []*rank, all bool) {
	l.fit(len(ranks), all)
	for slot, r := range ranks {
		if r == nil {
			continue
		}
		word := r.word.Load()
		l.words[slot] = word
		if word&scores == 0 {
			continue
		}
		l.in[device][slot/64] |= 1 << (slot % 64)
		for t := range l.in {
			if split := r.splits[t].Load(); split > 1 && (all || t == int(device)) {
				l.step(t, int(split), slot)
			}
		}
	}
}

func (l *look) step(t, split, slot int) {
	i := slices.IndexFunc(l.steps[t], func(s step) bool { return s.split == split })
	if i < 0 {
		i = len(l.steps[t])
		l.steps[t] = append(l.steps[t], step{split: split, ranks: make([]uint64, len(l.fell))})
	}
	l.steps[t][i].ranks[slot/64] |= 1 << (slot % 64)
}

// hold makes set the ranks that hold the block with number i, or need not.
func (l *look) hold(x *Index, t, i int, block uint64) {
	x.tables[t].get(block, l.set)
	for _, s := range l.steps[t] {
		if (i+1)%s.split != 0 {
			for w, ranks := range s.ranks {
				l.set[w] |= ranks
			}
		}
	}
}

// Overlaps appends to dst, for each rank that holds the start of a prompt, how many
// blocks of it: what Request.Overlaps takes. Blocks are the prompt's, as Hashes returns
// them. It allocates nothing if dst has room and all engines have blocks of the index's size.
func (x *Index) Overlaps(dst []sched.Overlap, blocks []uint64) []sched.Overlap {
	ranks := *x.ranks.Load()
	if len(ranks) == 0 || len(blocks) == 0 {
		return dst
	}
	l := x.looks.Get().(*look)
	defer x.looks.Put(l)
	l.start(ranks, x.config.HostTiers)
	if x.config.HostTiers {
		return l.walkTiers(x, dst, ranks, blocks)
	}
	in := l.in[device]
	for i, block := range blocks {
		l.hold(x, int(device), i, block)
		left := uint64(0)
		for w := range in {
			for fell := in[w] &^ l.set[w]; fell != 0 && i > 0; fell &= fell - 1 {
				dst = l.answer(dst, ranks, w*64+bits.TrailingZeros64(fell), [tiers]int32{int32(i)})
			}
			in[w] &= l.set[w]
			left |= in[w]
		}
		if left == 0 {
			return dst
		}
	}
	for w := range in {
		for on := in[w]; on != 0; on &= on - 1 {
			dst = l.answer(dst, ranks, w*64+bits.TrailingZeros64(on), [tiers]int32{int32(len(blocks))})
		}
	}
	return dst
}

// walkTiers is the look-up with blocks of the host: a rank's match goes on in the next
// tier where it ends in the one before.
func (l *look) walkTiers(x *Index, dst []sched.Overlap, ranks []*rank, blocks []uint64) []sched.Overlap {
	for i, block := range blocks {
		clear(l.fell)
		left := uint64(0)
		for t := range l.in {
			need := uint64(0)
			for w := range l.fell {
				l.in[t][w] |= l.fell[w]
				need |= l.in[t][w]
			}
			if need == 0 {
				continue
			}
			l.hold(x, t, i, block)
			for w := range l.fell {
				l.fell[w] = l.in[t][w] &^ l.set[w]
				l.in[t][w] &= l.set[w]
				left |= l.in[t][w]
				for on := l.in[t][w]; on != 0; on &= on - 1 {
					l.counts[t][w*64+bits.TrailingZeros64(on)]++
				}
			}
		}
		if left == 0 {
			break
		}
	}
	for slot := range ranks {
		counts := [tiers]int32{l.counts[device][slot], l.counts[host][slot], l.counts[disk][slot]}
		if counts != [tiers]int32{} {
			dst = l.answer(dst, ranks, slot, counts)
		}
	}
	return dst
}

// answer appends a rank's counts, if it is still what it was at the start.
func (l *look) answer(dst []sched.Overlap, ranks []*rank, slot int, counts [tiers]int32) []sched.Overlap {
	r := ranks[slot]
	word := l.words[slot]
	if word&paired != 0 {
		// A block of pairs is the engine's only if the token after it is the prompt's, too:
		// that is sure of all but the last.
		for t := tiers - 1; t >= 0; t-- {
			if counts[t] > 0 {
				counts[t]--
				break
			}
		}
	}
	var splits [tiers]int32
	for t := range splits {
		splits[t] = max(int32(r.splits[t].Load()), 1)
	}
	counts = whole(counts, splits)
	if counts == [tiers]int32{} || r.word.Load() != word {
		return dst
	}
	return append(dst, sched.Overlap{
		Rank: r.id, Device: float64(counts[device]), Host: float64(counts[host]), Disk: float64(counts[disk]),
	})
}

// whole leaves of the blocks passed in each tier those that make whole blocks of the
// engine. Where a match ends within one in a tier, the next tier must begin with it: it
// does if its blocks are made of such ones.
func whole(passed, splits [tiers]int32) (kept [tiers]int32) {
	end, at, step := int32(0), int32(0), int32(1) // of what is kept, of what was passed, split of the tier before
	for t, n := range passed {
		if n == 0 {
			continue
		}
		split := splits[t]
		if end != at && split%step != 0 {
			break
		}
		at += n
		if to := at - at%split; to > end {
			kept[t] = to - end
			end = to
		}
		step = split
	}
	return kept
}
