package selector

import "math"

// least finds the least of a row of finite costs, the runner-up, and one of
// those that are tied, in one scan and with few random numbers.
type least struct {
	index          int
	cost, runnerUp float64

	ties uint64
	// replace is how many ties there may be before the choice moves on; 0 is not
	// drawn yet.
	replace float64
}

func newLeast() least { return least{cost: math.Inf(1), runnerUp: math.Inf(1)} }

// offer shows the cost of candidate i; candidates come in order.
func (l *least) offer(in *Input, i int, cost float64) {
	switch {
	case cost < l.cost:
		*l = least{index: i, cost: cost, runnerUp: l.cost, ties: 1}
	case cost == l.cost:
		l.runnerUp = cost
		if in.Params.Ties == TiesLowest {
			return
		}
		// A reservoir of one, by jumps. The n-th tie would replace the choice with
		// probability 1/n, so a choice made at the m-th survives the n-th with
		// probability m/n: it is replaced at the first n > m/u for u uniform in
		// (0,1]. That takes ln n draws where n would be thrown.
		if l.replace == 0 {
			l.replace = 1 / (1 - unit(in.Rand))
		}
		l.ties++
		if n := float64(l.ties); n > l.replace {
			l.index = i
			l.replace = n / (1 - unit(in.Rand))
		}
	case cost < l.runnerUp:
		l.runnerUp = cost
	}
}

func (l *least) pick() Pick { return Pick{Index: l.index, Cost: l.cost, RunnerUp: l.runnerUp} }
