package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Comparison is all rows of one run.
type Comparison struct {
	Machine string
	Began   time.Time
	Took    time.Duration
	Rounds  int
	Rows    []Row
	// About are sentences above everything, Headlines what to take away.
	About     []string
	Headlines []Headline
	// Replay is the replay of a workload, nil if there was none; Replayed says of
	// what, and what to read in it.
	Replay   *Table
	Replayed []string
	// Partial: the run has not ended, or was interrupted.
	Partial bool
}

// WriteSummary prints what is required and what was reached, a line for each demand.
func (c *Comparison) WriteSummary(w io.Writer) error {
	if err := c.writeScaling(w); err != nil {
		return err
	}
	lines := [][]string{}
	counts := map[string]int{}
	for i := range c.Rows {
		r := &c.Rows[i]
		for _, v := range r.Verdicts {
			counts[v.Mark()]++
			lines = append(lines, []string{r.Where() + ": " + v.What, v.Need, v.Outcome(), v.Mark()})
		}
	}
	if len(lines) == 0 {
		return nil
	}
	lines = append([][]string{{"required", "", "reached", ""}, nil}, lines...)
	var tally []string
	for _, mark := range marks {
		tally = append(tally, fmt.Sprintf("%d %s", counts[mark], mark))
	}
	_, err := fmt.Fprintf(w, "%s\n%s, in %.0f s\n", align(lines), strings.Join(tally, ", "), c.Took.Seconds())
	return err
}

// Where is the scenario with the callers and ranks.
func (r *Row) Where() string {
	if r.Callers == 0 {
		return r.Scenario
	}
	return fmt.Sprintf("%s %s × %s", r.Scenario, grouped(int64(r.Callers)), grouped(int64(r.Ranks)))
}
