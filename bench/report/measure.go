package report

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Metric is one of the figures taken of an engine in a round.
type Metric int

// The metrics. Times are in nanoseconds.
const (
	OpsPerSecond Metric = iota
	TimePerOp           // of the wall clock, whatever the number of callers
	P50
	P90
	P99
	Max
	CallCPU // of the thread that makes the longest call, within that call
	Others  // what else happened during a call; a row says what
	AllocsPerOp
	BytesPerOp
	CPUPerOp
	Fairness // operations of the slowest caller to those of the fastest
	Metrics  // how many there are
)

// Round holds the figures of one round; NaN is one that was not taken.
type Round [Metrics]float64

// NewRound returns a round of which nothing was taken.
func NewRound() Round {
	var r Round
	for i := range r {
		r[i] = math.NaN()
	}
	return r
}

// Point is one point of a distribution: the share of values that are at most Nanos.
type Point struct{ Quantile, Nanos float64 }

// Share is how the callers fared in one window of time: the operations of some
// of them, as multiples of the mean.
type Share struct {
	Seconds                       float64 // at the end of the window
	Least, Tenth, Ninetieth, Most float64
}

// Series is what one engine did in one row.
type Series struct {
	Engine string
	// Variant tells series of the same engine and row apart; mostly empty.
	Variant        string
	Callers, Ranks int
	Rounds         []Round
	// Waits is the distribution of the latency over all rounds, and Shares how
	// even the callers fared in the last; both only where a row shows them.
	Waits  []Point
	Shares []Share
}

// Median returns the median of a metric over the rounds, NaN if it was not taken.
func (s *Series) Median(m Metric) float64 { return Median(s.values(m)) }

// Range returns the least and the most of a metric over the rounds.
func (s *Series) Range(m Metric) (least, most float64) {
	v := s.values(m)
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(v), slices.Max(v)
}

// Spread returns most − least, as a share of the median.
func (s *Series) Spread(m Metric) float64 {
	least, most := s.Range(m)
	median := s.Median(m)
	if most == least {
		return 0 * median // NaN stays NaN
	}
	return (most - least) / median
}

func (s *Series) values(m Metric) []float64 {
	var out []float64
	for _, r := range s.Rounds {
		if !math.IsNaN(r[m]) {
			out = append(out, r[m])
		}
	}
	return out
}

// Name is the engine and, if there is one, the variant.
func (s *Series) Name() string {
	if s.Variant == "" {
		return s.Engine
	}
	return s.Engine + " (" + s.Variant + ")"
}

// Median returns the middle of the values, the mean of the two middle ones if
// their number is even, and NaN of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Clone(values)
	slices.Sort(v)
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// Row is one line of the comparison: some traffic, and what the engines made of it.
type Row struct {
	Scenario string
	// About says in a few words what an operation is.
	About          string
	Callers, Ranks int
	// Sweep rows are there for the pictures and demand nothing.
	Sweep    bool
	Series   []Series
	Verdicts []Verdict
	Notes    []string
	Took     time.Duration
}

// Find returns a series, nil if it was not run.
func (r *Row) Find(engine, variant string) *Series {
	for i := range r.Series {
		if s := &r.Series[i]; s.Engine == engine && s.Variant == variant {
			return s
		}
	}
	return nil
}

// Verdict is what a row demands, and what was reached.
type Verdict struct {
	What          string
	Need, Reached string
	// Known is false if what it takes was not run or, if Untold says why, was run but
	// cannot be told.
	Known, Met bool
	Untold     string
}

// The marks of verdicts, in the order in which they are counted.
var marks = []string{"met", "short", "not told", "not run"}

// Mark is the one word for a verdict.
func (v Verdict) Mark() string {
	switch {
	case !v.Known && v.Untold != "":
		return "not told"
	case !v.Known:
		return "not run"
	case v.Met:
		return "met"
	}
	return "short"
}

// Outcome is what was reached, or why that cannot be told.
func (v Verdict) Outcome() string {
	if !v.Known && v.Untold != "" {
		return v.Untold
	}
	return orNone(v.Reached)
}

// Limit is a bound that a figure must keep.
type Limit struct {
	AtMost bool
	Value  float64
}

// AtLeast is the bound x ≥ value.
func AtLeast(value float64) Limit { return Limit{Value: value} }

// AtMost is the bound x ≤ value.
func AtMost(value float64) Limit { return Limit{AtMost: true, Value: value} }

// Judge compares a figure with the limit; format writes either.
func (l Limit) Judge(what string, reached float64, format func(float64) string) Verdict {
	sign := "≥ "
	met := reached >= l.Value
	if l.AtMost {
		sign, met = "≤ ", reached <= l.Value
	}
	v := Verdict{What: what, Need: sign + format(l.Value), Known: !math.IsNaN(reached)}
	if v.Known {
		v.Met, v.Reached = met, format(reached)
	}
	return v
}

// Times writes a ratio.
func Times(x float64) string {
	switch {
	case x == 0:
		return "0 ×"
	case math.Abs(x) < 0.00095: // two digits, wherever they are
		return trim(fixed(x, 1-int(math.Floor(math.Log10(math.Abs(x)))))) + " ×"
	case math.Abs(x) < 0.0995:
		return trim(fixed(x, 4)) + " ×"
	case math.Abs(x) < 9.95:
		return trim(fixed(x, 2)) + " ×"
	}
	return trim(fixed(x, 1)) + " ×"
}

// trim takes the zeros off the end of a decimal fraction.
func trim(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
