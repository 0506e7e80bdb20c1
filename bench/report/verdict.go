package report

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// Headline is what a reader is to take away from a row: how often one engine does
// something in a second, and how often the others do.
type Headline struct {
	What, Row string
	Rate      string
	Against   []Versus
}

// Versus is the ratio to another engine: that of the medians, and the least and
// the most of the rounds.
type Versus struct {
	Engine             string
	Ratio, Least, Most float64
}

// Headline makes the headline of a row.
func (r *Row) Headline(what, engine string, others ...string) Headline {
	h := Headline{What: what, Row: r.Where(), Rate: none}
	of := r.Find(engine, "")
	if of == nil {
		return h
	}
	h.Rate = Rate(of.Median(OpsPerSecond))
	for _, name := range others {
		other := r.Find(name, "")
		if other == nil {
			continue
		}
		v := Versus{Engine: name, Ratio: of.Median(OpsPerSecond) / other.Median(OpsPerSecond), Least: math.NaN(), Most: math.NaN()}
		var each []float64
		for i := range min(len(of.Rounds), len(other.Rounds)) {
			if x := of.Rounds[i][OpsPerSecond] / other.Rounds[i][OpsPerSecond]; !math.IsNaN(x) {
				each = append(each, x)
			}
		}
		if len(each) > 0 {
			v.Least, v.Most = slices.Min(each), slices.Max(each)
		}
		h.Against = append(h.Against, v)
	}
	return h
}

// String is the ratio with its spread.
func (v Versus) String() string {
	if math.IsNaN(v.Ratio) {
		return none
	}
	return fmt.Sprintf("%s (%s to %s)", Times(v.Ratio), trim(fixed(v.Least, 2)), trim(fixed(v.Most, 2)))
}

// WriteHeadlines prints the headlines, a line each.
func WriteHeadlines(w io.Writer, engine string, lines []Headline) error {
	if len(lines) == 0 {
		return nil
	}
	head := []string{"", engine}
	for _, v := range lines[0].Against {
		head = append(head, "× "+v.Engine)
	}
	table := [][]string{head, nil}
	for _, h := range lines {
		line := []string{h.What, h.Rate + "/s"}
		for _, v := range h.Against {
			line = append(line, v.String())
		}
		table = append(table, line)
	}
	_, err := io.WriteString(w, align(table))
	return err
}
