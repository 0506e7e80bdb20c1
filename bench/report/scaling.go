package report

import (
	"fmt"
	"io"
	"math"
	"slices"
)

// scaling is the scenario whose rows differ in the number of ranks, and whose
// series are operations.
const scaling = "scaling"

// scaled is what an engine's operations cost in pools of different sizes.
type scaled struct {
	engine string
	ranks  []int
	names  []string // of the operations, in the order of the rows
	// cost is the CPU per operation, by name and size; NaN where it is not known.
	cost map[string][]float64
}

// scalings gathers the rows of scaling for each engine.
func (c *Comparison) scalings() []*scaled {
	var rows []*Row
	for i := range c.Rows {
		if c.Rows[i].Scenario == scaling {
			rows = append(rows, &c.Rows[i])
		}
	}
	slices.SortFunc(rows, func(a, b *Row) int { return a.Ranks - b.Ranks })
	var out []*scaled
	for at, r := range rows {
		for i := range r.Series {
			s := &r.Series[i]
			var of *scaled
			if n := slices.IndexFunc(out, func(o *scaled) bool { return o.engine == s.Engine }); n >= 0 {
				of = out[n]
			} else {
				of = &scaled{engine: s.Engine, cost: map[string][]float64{}}
				for _, r := range rows {
					of.ranks = append(of.ranks, r.Ranks)
				}
				out = append(out, of)
			}
			if of.cost[s.Variant] == nil {
				of.names = append(of.names, s.Variant)
				of.cost[s.Variant] = slices.Repeat([]float64{math.NaN()}, len(rows))
			}
			of.cost[s.Variant][at] = s.Median(CPUPerOp)
		}
	}
	return out
}

// writeScaling prints what operations cost by the size of the pool.
func (c *Comparison) writeScaling(w io.Writer) error {
	for _, of := range c.scalings() {
		lines := [][]string{{of.engine + ", CPU per operation at ranks"}}
		for _, n := range of.ranks {
			lines[0] = append(lines[0], grouped(int64(n)))
		}
		lines = append(lines, nil)
		for _, name := range of.names {
			line := []string{"  " + name}
			for _, v := range of.cost[name] {
				line = append(line, Nanos(v))
			}
			lines = append(lines, line)
		}
		if _, err := fmt.Fprintf(w, "%s\n", align(lines)); err != nil {
			return err
		}
	}
	return nil
}

// fillScaling draws what operations cost by the size of the pool, a picture for
// each engine. All share the vertical scale, and a curve has the same sign in each.
func (c *Comparison) fillScaling(d *pageData) {
	all := c.scalings()
	lo, hi := math.Inf(1), math.Inf(-1)
	var names []string
	for _, of := range all {
		for _, name := range of.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			for _, v := range of.cost[name] {
				if v > 0 {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
		}
	}
	if lo > hi {
		return
	}
	for i, name := range names {
		d.ScalingKeys = append(d.ScalingKeys, keyed{name, legend(styleOf(i))})
	}
	for _, of := range all {
		x := axis{title: "ranks", log: true, format: Whole}
		y := axis{log: true, format: tickOf(Nanos)}
		y.cover(lo, hi)
		for _, n := range of.ranks {
			x.ticks = append(x.ticks, float64(n))
		}
		var curves []curve
		for i, name := range names {
			cv := curve{engine: styleOf(i), name: name, marks: true}
			for at, v := range of.cost[name] {
				if !(v > 0) {
					cv.gap()
					continue
				}
				cv.points = append(cv.points, point{float64(of.ranks[at]), v, v, v})
			}
			if len(cv.points) > 0 {
				curves = append(curves, cv)
			}
		}
		if len(curves) == 0 || len(of.ranks) < 2 {
			continue
		}
		d.Scaling = append(d.Scaling, chart{of.engine, lineChart(newSVG(of.engine+": CPU per operation by ranks", scalingWidth, wideHeight), x, y, curves)})
	}
}

const scalingWidth = 540.0

// styles is how many signs there are for curves that are no engines'.
const styles = 8

func styleOf(i int) string { return fmt.Sprintf("v%d", 1+i%styles) }
