package report

import (
	"encoding/json"
	"io"
	"math"
	"strings"
)

// line is one object of the JSON form. What was not taken is null.
type line struct {
	Scenario    string   `json:"scenario"`
	Engine      string   `json:"engine"`
	Ranks       int      `json:"ranks"`
	Callers     int      `json:"callers"`
	OpsPerS     *float64 `json:"ops_per_s"`
	P50         *float64 `json:"p50_ns"`
	P90         *float64 `json:"p90_ns"`
	P99         *float64 `json:"p99_ns"`
	Max         *float64 `json:"max_ns"`
	CallCPU     *float64 `json:"call_cpu_ns"`
	Others      *float64 `json:"others"`
	AllocsPerOp *float64 `json:"allocs_per_op"`
	BytesPerOp  *float64 `json:"bytes_per_op"`
	CPUPerOp    *float64 `json:"cpu_ns_per_op"`
	Fairness    *float64 `json:"fairness"`
	Rounds      int      `json:"rounds"`
	Spread      *float64 `json:"spread"`
}

// WriteJSON writes one object a line for each series of the row: medians over
// the rounds. The spread is that of ops_per_s, (most − least)/median. A variant
// is written behind the scenario, after a slash.
func (r *Row) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	for i := range r.Series {
		s := &r.Series[i]
		l := line{
			Scenario: r.Scenario, Engine: s.Engine, Ranks: s.Ranks, Callers: s.Callers,
			OpsPerS: figure(s.Median(OpsPerSecond)), P50: figure(s.Median(P50)), P90: figure(s.Median(P90)), P99: figure(s.Median(P99)), Max: figure(s.Median(Max)),
			CallCPU: figure(s.Median(CallCPU)), Others: figure(s.Median(Others)),
			AllocsPerOp: figure(s.Median(AllocsPerOp)), BytesPerOp: figure(s.Median(BytesPerOp)), CPUPerOp: figure(s.Median(CPUPerOp)),
			Fairness: figure(s.Median(Fairness)), Rounds: len(s.Rounds), Spread: figure(s.Spread(OpsPerSecond)),
		}
		if s.Variant != "" {
			l.Scenario += "/" + strings.NewReplacer(" ", "-", ",", "").Replace(s.Variant)
		}
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// figure rounds to what can be meant: six digits.
func figure(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	if x != 0 {
		scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(x))))
		x = math.Round(x*scale) / scale
	}
	return &x
}
