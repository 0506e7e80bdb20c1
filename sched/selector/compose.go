package selector

import (
	"fmt"
	"math"

	"github.com/seed-3c5df8a4/turnstile/internal/chance"
)

// Policy is a custom selector, put together from the steps filter, score and pick.
// Every function must be safe for concurrent use; one that panics, or a score that is
// not finite, is the error of that request alone.
type Policy struct {
	// Name is what people see; default "policy".
	Name string
	// Needs says what the functions read of the input; what it leaves out is zero.
	// If it is 0 itself they get everything, which costs a look-up of each.
	Needs Needs
	// Filter says whether candidate i may be chosen; nil allows all. If it leaves
	// none, the request gets an error that matches [ErrNoCandidates].
	Filter func(in *Input, i int) bool
	// Score says what candidate i costs; lower is better. Nil scores all the same.
	Score func(in *Input, i int) float64
	// Pick returns the index of the choice; the score of those filtered out is NaN.
	// Nil picks as KV does: at temperature 0 the least score, ties as Params.Ties
	// says, and above it by chance.
	Pick func(in *Input, scores []float64) int
}

// Compose returns the selector that follows a policy. Pick costs O(candidates)
// and allocates nothing once [Input.Scratch] is long enough.
func Compose(p Policy) Selector {
	if p.Name == "" {
		p.Name = "policy"
	}
	return &composed{p}
}

type composed struct{ policy Policy }

// Needs implements [Declarer].
func (c *composed) Needs() Needs { return c.policy.Needs }

// String returns the name of the policy.
func (c *composed) String() string { return c.policy.Name }

// Scores implements [Scorer].
func (c *composed) Scores(in *Input, scores []float64) {
	for i := range in.Candidates {
		scores[i] = c.score(in, i)
	}
}

// score returns NaN for a candidate that is filtered out; a score that is NaN
// itself becomes infinite, so that the two can be told apart.
func (c *composed) score(in *Input, i int) float64 {
	switch {
	case c.policy.Filter != nil && !c.policy.Filter(in, i):
		return math.NaN()
	case c.policy.Score == nil:
		return 0
	}
	score := c.policy.Score(in, i)
	if math.IsNaN(score) {
		return math.Inf(1)
	}
	return score
}

func (c *composed) Pick(in *Input) (Pick, error) {
	n := len(in.Candidates)
	if cap(in.Scratch) < n {
		in.Scratch = make([]float64, n)
	}
	in.Scratch = in.Scratch[:n]
	scores := in.Scratch
	kept := 0
	for i := range in.Candidates {
		scores[i] = c.score(in, i)
		switch {
		case math.IsInf(scores[i], 0):
			cost := c.policy.Score(in, i) // as it was said
			return Pick{}, &CostError{Rank: in.Candidates[i].Rank, Cost: cost}
		case !math.IsNaN(scores[i]):
			kept++
		}
	}
	switch {
	case kept == 0:
		return Pick{}, fmt.Errorf("the filter of %s leaves none of %d candidates: %w", c.policy.Name, n, ErrNoCandidates)
	case c.policy.Pick != nil:
		return c.pick(in, scores)
	case in.Params.Temperature > 0 && kept > 1:
		return c.draw(in, scores, kept), nil
	}
	best := newLeast()
	for i, score := range scores {
		if !math.IsNaN(score) {
			best.offer(in, i, score)
		}
	}
	return best.pick(), nil
}

// pick asks the policy's own step, and holds it to the filter.
func (c *composed) pick(in *Input, scores []float64) (Pick, error) {
	i := c.policy.Pick(in, scores)
	if i < 0 || i >= len(scores) {
		return Pick{}, fmt.Errorf("%s picked candidate %d of %d", c.policy.Name, i, len(scores))
	}
	if c.policy.Filter != nil && !c.policy.Filter(in, i) {
		return Pick{}, fmt.Errorf("%s picked rank %v, which its filter rules out", c.policy.Name, in.Candidates[i].Rank)
	}
	return Pick{Index: i, Cost: scores[i], RunnerUp: math.Inf(1), Exact: true}, nil
}

// draw picks by chance one of the several that were not filtered out.
func (c *composed) draw(in *Input, scores []float64, kept int) Pick {
	lo, hi, first := span(scores)
	if lo == hi {
		nth := chance.Below(in.Rand, uint64(kept))
		for i, score := range scores {
			if math.IsNaN(score) {
				continue
			}
			if nth == 0 {
				return Pick{Index: i, Cost: score, RunnerUp: lo, Exact: true}
			}
			nth--
		}
	}
	index := draw(scores, lo, hi, in.Params.Temperature, first, in.Rand)
	return Pick{Index: index, Cost: c.score(in, index), RunnerUp: lo, Exact: true}
}

// span returns the least and the greatest of the scores that are not NaN, and
// where the least stands first.
func span(scores []float64) (lo, hi float64, first int) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for i, score := range scores {
		if score < lo {
			lo, first = score, i
		}
		if score > hi {
			hi = score
		}
	}
	return lo, hi, first
}

// chances implements the part of [Chances] for the usual way to pick.
func (c *composed) chances(in *Input, chances []float64) (ok bool) {
	defer func() {
		if recover() != nil {
			clear(chances)
			ok = false
		}
	}()
	if c.policy.Pick != nil {
		return false
	}
	c.Scores(in, chances)
	kept := 0
	for _, score := range chances {
		if math.IsInf(score, 0) {
			clear(chances)
			return false
		}
		if !math.IsNaN(score) {
			kept++
		}
	}
	if kept == 0 {
		clear(chances)
		return false
	}
	share(in, chances)
	return true
}
