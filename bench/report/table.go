package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Cell is what one engine did in one mode. The zero Cell was not run.
type Cell struct {
	Ran bool
	// Requests were to be sent, Completed ran to their end, CutShort were given
	// up when the run was interrupted. Unscheduled must be 0.
	Requests, Completed, CutShort, Unscheduled int

	Wall, CPU  time.Duration // CPU 0: unknown
	Late       time.Duration // by which ticks were late in all; not in the table
	Schedule   Percentiles   // real time
	FirstToken Percentiles   // simulated time
	MaxWaiting int64

	HitShare float64 // of prompt tokens, 0 to 1
	Balance  float64
	// Leftovers must be 0.
	Leftovers int64
}

// Table holds the cells of all modes and engines.
type Table struct {
	Engines []string
	Modes   []string
	// Cells is indexed by mode, then by engine.
	Cells [][]Cell
}

// NewTable returns a table of cells that were not run.
func NewTable(modes, engines []string) *Table {
	t := &Table{Engines: engines, Modes: modes, Cells: make([][]Cell, len(modes))}
	for i := range t.Cells {
		t.Cells[i] = make([]Cell, len(engines))
	}
	return t
}

// none stands where there is nothing to tell.
const none = "-"

// rows are the lines of each section. All but the last three are told of
// completed requests only.
var rows = []struct {
	name  string
	value func(Cell) string
	all   bool
}{
	{"completions/s", func(c Cell) string { return rate(float64(c.Completed) / c.Wall.Seconds()) }, false},
	{"CPU per completion, µs", func(c Cell) string {
		if c.CPU == 0 {
			return none
		}
		return micros(c.CPU / time.Duration(c.Completed))
	}, false},
	{"Schedule p50, µs", func(c Cell) string { return micros(c.Schedule.P50) }, false},
	{"Schedule p99, µs", func(c Cell) string { return micros(c.Schedule.P99) }, false},
	{"Schedule max, µs", func(c Cell) string { return micros(c.Schedule.Max) }, false},
	{"first token p95, sim ms", func(c Cell) string { return millis(c.FirstToken.P95) }, false},
	{"prefix hits, %", func(c Cell) string { return fixed(100*c.HitShare, 1) }, false},
	{"load balance, max/mean", func(c Cell) string { return fixed(c.Balance, 2) }, false},
	{"most in Schedule at once", func(c Cell) string { return strconv.FormatInt(c.MaxWaiting, 10) }, false},
	{"completed", func(c Cell) string {
		s := fmt.Sprintf("%d/%d", c.Completed, c.Requests)
		if c.CutShort > 0 {
			s += " (cut short)"
		}
		return s
	}, true},
	{"unscheduled (must be 0)", func(c Cell) string { return strconv.Itoa(c.Unscheduled) }, true},
	{"leftovers (must be 0)", func(c Cell) string { return strconv.FormatInt(c.Leftovers, 10) }, true},
}

// lines are those of a mode, each with its name first.
func (t *Table) lines(m int) [][]string {
	var lines [][]string
	for _, row := range rows {
		line := []string{row.name}
		for _, c := range t.Cells[m] {
			switch {
			case !c.Ran || !row.all && c.Completed == 0:
				line = append(line, none)
			default:
				line = append(line, row.value(c))
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Write prints the table.
func (t *Table) Write(w io.Writer) error {
	var lines [][]string // nil is a rule
	for m, mode := range t.Modes {
		lines = append(lines, append([]string{"mode " + mode}, t.Engines...), nil)
		lines = append(lines, t.lines(m)...)
		if m < len(t.Modes)-1 {
			lines = append(lines, []string{})
		}
	}
	_, err := io.WriteString(w, align(lines))
	return err
}

// align puts the first column to the left and the others to the right.
func align(lines [][]string) string {
	var widths []int
	for _, line := range lines {
		for i, s := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(s))
		}
	}
	total := 0
	for _, w := range widths {
		total += w
	}
	var b strings.Builder
	for _, line := range lines {
		if line == nil {
			b.WriteString(strings.Repeat("-", total+3*max(0, len(widths)-1)))
		}
		for i, s := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(s))
			switch {
			case i > 0:
				b.WriteString("   " + space + s)
			case len(line) > 1:
				b.WriteString(s + space)
			default:
				b.WriteString(s)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func fixed(x float64, decimals int) string { return strconv.FormatFloat(x, 'f', decimals, 64) }

// rate keeps three digits or more.
func rate(x float64) string {
	switch {
	case x < 10:
		return fixed(x, 2)
	case x < 1000:
		return fixed(x, 1)
	}
	return grouped(int64(x + 0.5))
}

func micros(d time.Duration) string {
	if us := float64(d) / 1e3; us < 1000 {
		return fixed(us, 1)
	}
	return grouped(int64((d + 500) / 1000))
}

func millis(d time.Duration) string { return grouped(int64((d + 500_000) / 1_000_000)) }

// grouped writes a whole number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
