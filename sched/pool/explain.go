package pool

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// Explained is what a selector made of a look: all the slices are as long as
// the candidates, or nil where there is nothing to say.
type Explained struct {
	Choice Choice
	// Chances is with which probability each candidate is chosen.
	Chances []float64
	// Parts are the terms of the KV cost.
	Parts []selector.CostParts
	// Scores is what another selector compares, lower is better.
	Scores []float64
}

// Explain chooses like Choose, for callers that want to know why: among equal
// candidates it takes the first. REQUIRES: TakeWhole was called.
func (l *Look) Explain(rnd selector.Rand) (e Explained, failed *Failure) {
	e.Choice, failed = l.Choose(rnd)
	n := len(l.candidates)
	if n == 0 {
		return e, failed
	}
	in := &l.input
	if !l.World.builtin {
		in = l.lend()
	}
	switch l.World.load {
	case selector.LoadCost:
		e.Parts = make([]selector.CostParts, n)
		for i := range e.Parts {
			e.Parts[i] = selector.Parts(in, &l.candidates[i])
		}
	default:
		e.Scores = scoresSafely(l.World.Selector, in)
	}
	if failed != nil {
		return e, failed
	}
	chances := make([]float64, n)
	if e.Choice.Forced {
		chances[e.Choice.Candidate] = 1
		e.Chances = chances
	} else if selector.Chances(l.World.Selector, in, chances) {
		e.Chances = chances
		for i := range chances {
			if chances[i] > chances[e.Choice.Candidate] || chances[i] == chances[e.Choice.Candidate] && i < e.Choice.Candidate {
				e.Choice.Candidate = i
			}
		}
	}
	return e, nil
}

// scoresSafely returns nil if the selector has no scores or panics.
func scoresSafely(s selector.Selector, in *selector.Input) (scores []float64) {
	scorer, ok := s.(selector.Scorer)
	if !ok {
		return nil
	}
	defer func() {
		if recover() != nil {
			scores = nil
		}
	}()
	scores = make([]float64, len(in.Candidates))
	scorer.Scores(in, scores)
	return scores
}

// WhyWait says in words what of the ranks has the request wait, or not, as they
// were found by a look, or by a gate by which it must wait.
func (l *Look) WhyWait() string {
	c := l.World.Profile.Class(l.Class)
	switch {
	case l.Eligible == 0:
		return "no rank is eligible"
	case !c.CanQueue() && l.Overloaded < l.Eligible:
		return "the class has no busy threshold"
	}
	why := fmt.Sprintf("%d of %d eligible ranks are busy", l.Busy, l.Eligible)
	if l.Overloaded > 0 {
		why += fmt.Sprintf(", %d overloaded", l.Overloaded)
	}
	if l.Guarded > 0 {
		why += fmt.Sprintf(", %d guarded for another class", l.Guarded)
	}
	if ratio := c.BusyWorkerRatio; ratio > 0 && ratio < 1 {
		why += fmt.Sprintf(", and a share of %v suffices to wait", ratio)
	}
	return why
}
