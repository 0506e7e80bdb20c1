package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// WriteText prints the row as a table and its verdicts below.
func (r *Row) WriteText(w io.Writer) error {
	lines := [][]string{{"", "ops/s", "min-max", "p50", "p90", "p99", "max", "call CPU", "others", "CPU/op", "allocs/op", "bytes/op", "fairness"}}
	for i := range r.Series {
		s := &r.Series[i]
		least, most := s.Range(OpsPerSecond)
		spread := none
		if !math.IsNaN(least) {
			spread = Rate(least) + "-" + Rate(most)
		}
		lines = append(lines, []string{
			"  " + s.Name(), Rate(s.Median(OpsPerSecond)), spread,
			Nanos(s.Median(P50)), Nanos(s.Median(P90)), Nanos(s.Median(P99)), Nanos(s.Median(Max)),
			Nanos(s.Median(CallCPU)), Count(s.Median(Others)), Nanos(s.Median(CPUPerOp)),
			Count(s.Median(AllocsPerOp)), Count(s.Median(BytesPerOp)), Count(s.Median(Fairness)),
		})
	}
	dropEmpty(lines)
	if len(lines[0]) == 1 {
		lines = nil
	}
	head := fmt.Sprintf("%s: %s", r.Scenario, r.About)
	if r.Callers > 0 {
		head += fmt.Sprintf(", callers × ranks: %s × %s", grouped(int64(r.Callers)), grouped(int64(r.Ranks)))
	}
	if r.Took > 0 {
		head += fmt.Sprintf(" (%.1f s)", r.Took.Seconds())
	}
	var b strings.Builder
	b.WriteString(head + "\n" + align(lines))
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "  %-8s  %s: %s (required %s)\n", v.Mark(), v.What, v.Outcome(), v.Need)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  note      %s\n", n)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// dropEmpty takes out columns in which nothing was taken.
func dropEmpty(lines [][]string) {
	for c := len(lines[0]) - 1; c > 0; c-- {
		if slices.ContainsFunc(lines[1:], func(l []string) bool { return l[c] != none }) {
			continue
		}
		for i, l := range lines {
			lines[i] = slices.Delete(l, c, c+1)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// Rate writes operations per second.
func Rate(x float64) string {
	switch {
	case math.IsNaN(x):
		return none
	case x >= 1e7:
		return fixed(x/1e6, 1) + " M"
	case x >= 1e6:
		return fixed(x/1e6, 2) + " M"
	case x >= 1e4:
		return fixed(x/1e3, 0) + " k"
	case x >= 1e3:
		return fixed(x/1e3, 1) + " k"
	}
	return rate(x)
}

// Nanos writes a duration in the unit that fits.
func Nanos(x float64) string {
	digits := func(x float64, unit string) string {
		if x < 9.95 {
			return fixed(x, 1) + unit
		}
		return fixed(x, 0) + unit
	}
	switch {
	case math.IsNaN(x):
		return none
	case x < 999.5:
		return fixed(x, 0) + " ns"
	case x < 999_500:
		return digits(x/1e3, " µs")
	case x < 999_500_000:
		return digits(x/1e6, " ms")
	}
	return digits(x/1e9, " s")
}

// Count writes a number of things.
func Count(x float64) string {
	switch {
	case math.IsNaN(x):
		return none
	case math.Abs(x) >= 1000:
		return grouped(int64(math.Round(x)))
	case math.Abs(x) >= 100:
		return fixed(x, 0)
	}
	return fixed(x, 2)
}

// Short is Count without zeros at the end.
func Short(x float64) string { return trim(Count(x)) }
