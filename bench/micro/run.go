package micro

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

// Processors is the GOMAXPROCS under which rows run.
const Processors = 2

// Run runs a row: all rounds of all contenders, taking turns. What went wrong
// comes as an error; the row then tells of the rest. step, unless nil, is told
// what runs next.
func Run(ctx context.Context, spec *Spec, s Settings, step func(string)) (report.Row, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(Processors))
	row := report.Row{Scenario: spec.Scenario, About: spec.About, Callers: spec.Callers, Ranks: spec.Ranks, Sweep: spec.Sweep}
	rounds := s.Rounds
	if spec.once {
		rounds = 1
	}
	if spec.most > 0 {
		rounds = min(rounds, spec.most)
	}
	s.Duration = max(s.Duration, spec.least)
	if spec.longest > 0 {
		s.Duration = min(s.Duration, spec.longest)
	}
	n := len(spec.contenders)
	tallies := make([]tally, n)
	broken := make([]bool, n)
	var fault error
	began := time.Now()
	for round := range rounds {
		if s.Budget > 0 && round > 0 && time.Since(began) > s.Budget {
			row.Notes = append(row.Notes, fmt.Sprintf("rounds: %d instead of %d, because time ran out", round, rounds))
			break
		}
		for i := range n {
			at := (round + i) % n // each round begins with the next
			c := &spec.contenders[at]
			if broken[at] || ctx.Err() != nil {
				continue
			}
			if step != nil {
				step(fmt.Sprintf("%s, round %d of %d, %s", spec.Scenario, round+1, rounds, c.name()))
			}
			before := runtime.NumGoroutine()
			out, err := c.run(ctx, s)
			if err == nil && c.done == nil {
				err = gone(before)
			}
			if err != nil {
				broken[at] = true
				if ctx.Err() == nil {
					fault = join(fault, fmt.Errorf("%s, %s: %w", spec.Scenario, c.name(), err))
				}
				continue
			}
			tallies[at].add(spec, out)
		}
	}
	for i := range spec.contenders {
		c := &spec.contenders[i]
		if c.done != nil {
			if err := c.done(); err != nil {
				fault = join(fault, fmt.Errorf("%s, %s: %w", spec.Scenario, c.name(), err))
			}
		}
		row.Series = append(row.Series, tallies[i].series(spec, c)...)
		if thin := tallies[i].thin; thin != "" {
			row.Notes = append(row.Notes, c.name()+": "+thin)
		}
		for _, note := range tallies[i].notes {
			row.Notes = append(row.Notes, c.name()+": "+note)
		}
	}
	for _, d := range spec.demands {
		row.Verdicts = append(row.Verdicts, d(&row))
	}
	if spec.remark != nil {
		row.Notes = append(row.Notes, spec.remark(&row)...)
	}
	return row, fault
}

func join(a, b error) error {
	if a == nil {
		return b
	}
	return fmt.Errorf("%w; %w", a, b)
}

func (c *contender) name() string {
	return (&report.Series{Engine: c.engine, Variant: c.variant}).Name()
}

// gone waits until no more goroutines are there than before.
func gone(before int) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		n := runtime.NumGoroutine()
		if n <= before {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d goroutines left over", n-before)
		}
	}
}

// tally gathers the rounds of a contender.
type tally struct {
	total  []report.Round
	groups [][]report.Round
	counts []int64 // of each caller, since fairness was last worked out
	wall   time.Duration
	waits  *hdrhistogram.Histogram
	shares []report.Share
	notes  []string
	thin   string // the first round that was
}

// fairWindow is about the second over which fairness is demanded; what a
// timer is late or early must not add a round.
const fairWindow = 950 * time.Millisecond

func (t *tally) add(spec *Spec, out *outcome) {
	if spec.fair {
		t.fairness(out)
	}
	t.total = append(t.total, out.total)
	if t.groups == nil {
		t.groups = make([][]report.Round, len(out.groups))
	}
	for i, r := range out.groups {
		t.groups[i] = append(t.groups[i], r)
	}
	if spec.show {
		if t.waits == nil {
			t.waits = hdrhistogram.New(1, longest, digits)
		}
		t.waits.Merge(out.waits)
		t.shares = out.shares
	}
	t.notes = out.notes
	if t.thin == "" {
		t.thin = out.thin
	}
}

// fairness works out the fairness once a second was measured, in one round or
// more: callers are the same by their place.
func (t *tally) fairness(out *outcome) {
	if t.counts == nil {
		t.counts = make([]int64, len(out.counts))
	}
	for i, n := range out.counts {
		t.counts[i] += n
	}
	if t.wall += out.wall; t.wall < fairWindow {
		return
	}
	out.total[report.Fairness] = fairness(t.counts)
	for g := range out.groups {
		var of []int64
		for i, n := range t.counts {
			if out.group[i] == g {
				of = append(of, n)
			}
		}
		out.groups[g][report.Fairness] = fairness(of)
	}
	clear(t.counts)
	t.wall = 0
}

// fairness is the operations of the slowest to those of the fastest.
func fairness(counts []int64) float64 {
	if len(counts) == 0 || slices.Max(counts) == 0 {
		return math.NaN()
	}
	return float64(slices.Min(counts)) / float64(slices.Max(counts))
}

func (t *tally) series(spec *Spec, c *contender) []report.Series {
	if len(t.total) == 0 {
		return nil
	}
	s := report.Series{Engine: c.engine, Variant: c.variant, Callers: spec.Callers, Ranks: spec.Ranks, Rounds: t.total, Shares: t.shares}
	if c.callers > 0 {
		s.Callers = c.callers
	}
	if c.ranks > 0 {
		s.Ranks = c.ranks
	}
	if t.waits != nil {
		s.Waits = points(t.waits)
	}
	out := []report.Series{s}
	for i, rounds := range t.groups {
		g := s
		g.Variant, g.Rounds, g.Waits, g.Shares = c.groups[i], rounds, nil, nil
		g.Callers = max(1, g.Callers/len(t.groups))
		out = append(out, g)
	}
	return out
}

// points are those of a distribution at which it is drawn: ever closer to 1.
func points(h *hdrhistogram.Histogram) []report.Point {
	var out []report.Point
	n := float64(h.TotalCount())
	for above := 1.0; above*n >= 1; above /= math.Pow(10, 0.125) {
		out = append(out, report.Point{Quantile: 1 - above, Nanos: float64(h.ValueAtQuantile(100 * (1 - above)))})
	}
	return out
}
