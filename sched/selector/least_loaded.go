package selector

// LeastLoaded returns the selector that takes the fewest active requests, ties
// as [Params.Ties] says. O(candidates).
//
// It is a [Confirmer]: a pick stands while the chosen rank has no more active
// requests than the runner-up had.
func LeastLoaded() Selector { return leastLoaded{} }

type leastLoaded struct{}

func (leastLoaded) Pick(in *Input) (Pick, error) {
	if len(in.Candidates) == 0 {
		return Pick{}, ErrNoCandidates
	}
	best := newLeast()
	for i := range in.Candidates {
		best.offer(in, i, float64(in.Candidates[i].Requests))
	}
	return best.pick(), nil
}

func (leastLoaded) Confirm(_ *Input, p Pick, fresh Candidate) bool {
	return float64(fresh.Requests) <= p.RunnerUp
}

// Scores implements [Scorer]: the active requests.
func (leastLoaded) Scores(in *Input, scores []float64) { requestScores(in, scores) }

func requestScores(in *Input, scores []float64) {
	for i := range in.Candidates {
		scores[i] = float64(in.Candidates[i].Requests)
	}
}
