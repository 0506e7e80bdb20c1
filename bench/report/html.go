package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

//go:embed *.tmpl
var templates embed.FS

var pages = template.Must(template.ParseFS(templates, "*.tmpl"))

// pageData is what the page is made of.
type pageData struct {
	Machine, Date, Took string
	Rounds              int
	Partial             bool
	About               []string
	Headlines           []Headline
	Replay              []replayed
	Replayed            []string
	Tally               []tallied
	Demands             []demandLine
	Pictures            []pictures
	Scaling             []chart
	ScalingKeys         []keyed
	Waits               template.HTML
	WaitKeys            []keyed
	Shares              []chart
	CPU                 []cpuGroup
	Rows                []rowTable
}

// replayed is one mode of the replay.
type replayed struct {
	Mode    string
	Engines []string
	Lines   [][]string
}

type tallied struct {
	Mark, Class string
	Count       int
}

type demandLine struct {
	First              bool
	Where, What        string
	Need, Reached      string
	Mark, Class, Title string
}

type keyed struct {
	Name string
	Key  template.HTML
}

type pictures struct {
	Title, About string
	Keys         []keyed
	Charts       []chart
}

type chart struct {
	Title string
	SVG   template.HTML
}

type cpuGroup struct {
	Where string
	Bars  []cpuBar
}

type cpuBar struct {
	Name, Engine, Value string
	Percent             string
}

type rowTable struct {
	Where, About string
	Open         bool // without a click
	Notes        []string
	Heads        []string // the columns in which something was taken
	Series       []seriesLine
}

type seriesLine struct {
	Name    string
	Figures []string
}

// figureHeads are the columns of the tables of figures.
var figureHeads = []string{"ops/s", "least", "most", "p50", "p90", "p99", "max", "call CPU", "others", "CPU/op", "allocs/op", "bytes/op", "fairness"}

// WriteHTML writes the report: one page, with all it needs in it.
func (c *Comparison) WriteHTML(w io.Writer) error {
	d := pageData{
		Machine: c.Machine, Date: c.Began.Format("2 January 2006, 15:04 MST"), Rounds: c.Rounds,
		Took: fmt.Sprintf("%.0f s", c.Took.Seconds()),
	}
	d.Partial, d.About, d.Headlines, d.Replayed = c.Partial, c.About, c.Headlines, c.Replayed
	if c.Replay != nil {
		for m, mode := range c.Replay.Modes {
			d.Replay = append(d.Replay, replayed{mode, c.Replay.Engines, c.Replay.lines(m)})
		}
	}
	c.fillDemands(&d)
	for _, scenario := range []struct{ name, title, about string }{
		{"advisory", "Advisory selection", "Where would this request go? Nothing is booked."},
		{"tracked", "Schedule, prefill done, release", "A whole life of a booking where no request has to wait."},
	} {
		if charts := c.sweep(scenario.name); len(charts) > 0 {
			d.Pictures = append(d.Pictures, pictures{scenario.title, scenario.about, c.keys(scenario.name), charts})
		}
	}
	c.fillScaling(&d)
	c.fillSaturated(&d)
	c.fillCPU(&d)
	c.fillRows(&d)
	return pages.ExecuteTemplate(w, "page.tmpl", d)
}

// engineOrder is the order of legends, the engines first.
var engineOrder = []string{"turnstile", "actor", "actor-direct", "actor-index", "mutex", "semaphore", "channel"}

// keys is the legend of a scenario.
func (c *Comparison) keys(scenario string) []keyed {
	var out []keyed
	for _, e := range engineOrder {
		if slices.ContainsFunc(c.Rows, func(r Row) bool { return r.Scenario == scenario && r.Find(e, "") != nil }) {
			out = append(out, keyed{e, legend(e)})
		}
	}
	return out
}

func (c *Comparison) fillDemands(d *pageData) {
	counts := map[string]int{}
	for i := range c.Rows {
		r := &c.Rows[i]
		for j, v := range r.Verdicts {
			counts[v.Mark()]++
			d.Demands = append(d.Demands, demandLine{
				First: j == 0, Where: r.Where(), What: v.What, Need: v.Need, Reached: v.Outcome(),
				Mark: v.Mark(), Class: classOf(v.Mark()), Title: r.About,
			})
		}
	}
	for _, mark := range marks {
		d.Tally = append(d.Tally, tallied{mark, classOf(mark), counts[mark]})
	}
}

// classOf is the style of a mark.
func classOf(mark string) string { return strings.ReplaceAll(mark, " ", "-") }

// sweep draws the rows of a scenario against callers and against ranks.
func (c *Comparison) sweep(scenario string) []chart {
	var out []chart
	for _, by := range []struct {
		name, other string
		of, fixed   func(*Row) int
	}{
		{"callers", "ranks", func(r *Row) int { return r.Callers }, func(r *Row) int { return r.Ranks }},
		{"ranks", "callers", func(r *Row) int { return r.Ranks }, func(r *Row) int { return r.Callers }},
	} {
		rows := c.along(scenario, by.of, by.fixed)
		if len(rows) < 2 {
			continue
		}
		for _, m := range []struct {
			metric Metric
			name   string
			format func(float64) string
		}{{OpsPerSecond, "operations/s", Rate}, {P50, "p50 latency", Nanos}, {P99, "p99 latency", Nanos}} {
			x := axis{title: fmt.Sprintf("%s, at %s %s", by.name, grouped(int64(by.fixed(rows[0]))), by.other), log: true, format: Whole}
			for _, r := range rows {
				x.ticks = append(x.ticks, float64(by.of(r)))
			}
			y := axis{log: true, format: tickOf(m.format)}
			title := m.name + " by " + by.name
			out = append(out, chart{title, lineChart(newSVG(scenario+": "+title, chartWidth, chartHeight), x, y, curvesOf(rows, by.of, m.metric))})
		}
	}
	return out
}

// along returns the rows of a scenario that differ in one dimension only, in its
// order: those with the value of the other that most of them have.
func (c *Comparison) along(scenario string, of, fixed func(*Row) int) []*Row {
	by := map[int][]*Row{}
	best := 0
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Scenario != scenario {
			continue
		}
		f := fixed(r)
		by[f] = append(by[f], r)
		if n, most := len(by[f]), len(by[best]); n > most || n == most && f > best {
			best = f
		}
	}
	rows := by[best]
	slices.SortFunc(rows, func(a, b *Row) int { return of(a) - of(b) })
	return rows
}

func curvesOf(rows []*Row, of func(*Row) int, m Metric) []curve {
	var out []curve
	for _, e := range engineOrder {
		c := curve{engine: e, marks: true}
		for _, r := range rows {
			s := r.Find(e, "")
			if s == nil || math.IsNaN(s.Median(m)) || s.Median(m) <= 0 {
				c.gap() // nothing is drawn over what is not known
				continue
			}
			least, most := s.Range(m)
			if least <= 0 {
				least = s.Median(m) // cannot be drawn on this scale
			}
			c.points = append(c.points, point{float64(of(r)), s.Median(m), least, most})
		}
		if len(c.points) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// Whole writes a whole number.
func Whole(x float64) string { return grouped(int64(math.Round(x))) }

// tickOf shortens what is written at a power of ten.
func tickOf(format func(float64) string) func(float64) string {
	return func(x float64) string {
		number, unit, _ := strings.Cut(format(x), " ")
		if unit != "" {
			unit = " " + unit
		}
		return trim(number) + unit
	}
}

// mostShare is where the pictures of shares end.
const mostShare = 4

// fillSaturated draws the waits and the shares of the row that has them.
func (c *Comparison) fillSaturated(d *pageData) {
	for i := range c.Rows {
		r := &c.Rows[i]
		var curves []curve
		most := 1.5
		for _, e := range engineOrder {
			s := r.Find(e, "")
			if s == nil || len(s.Waits) == 0 {
				continue
			}
			cv := curve{engine: e}
			for _, p := range s.Waits {
				if p.Nanos > 0 {
					cv.points = append(cv.points, point{1 / (1 - p.Quantile), p.Nanos, p.Nanos, p.Nanos})
				}
			}
			curves = append(curves, cv)
			d.WaitKeys = append(d.WaitKeys, keyed{e, legend(e)})
		}
		if len(curves) == 0 {
			continue
		}
		for j := range r.Series {
			for _, p := range r.Series[j].Shares {
				most = max(most, min(p.Most, mostShare))
			}
		}
		x := axis{title: "share of grants that waited at most so long", log: true, format: nines, ticks: []float64{2, 10, 100, 1000, 10_000, 100_000}}
		far := 1.0
		for _, cv := range curves {
			far = max(far, cv.points[len(cv.points)-1].x)
		}
		x.lo, x.hi = 1, far
		x.ticks = slices.DeleteFunc(x.ticks, func(v float64) bool { return v > far })
		d.Waits = lineChart(newSVG("distribution of the wait under a backlog", wideWidth, wideHeight), x, axis{log: true, format: tickOf(Nanos)}, curves)
		for _, e := range engineOrder {
			if s := r.Find(e, ""); s != nil && len(s.Shares) > 1 {
				d.Shares = append(d.Shares, chart{e, shareChart(e, s.Shares, most)})
			}
		}
		return
	}
}

// nines writes the quantile that belongs to 1/(1−q).
func nines(x float64) string {
	return trim(fixed(100*(1-1/x), 3)) + " %"
}

func (c *Comparison) fillCPU(d *pageData) {
	for i := range c.Rows {
		r := &c.Rows[i]
		if r.Sweep {
			continue
		}
		g := cpuGroup{Where: r.Where()}
		most := 0.0
		for j := range r.Series {
			if v := r.Series[j].Median(CPUPerOp); v > most {
				most = v
			}
		}
		for j := range r.Series {
			s := &r.Series[j]
			v := s.Median(CPUPerOp)
			if math.IsNaN(v) {
				continue
			}
			g.Bars = append(g.Bars, cpuBar{s.Name(), s.Engine, Nanos(v), fixed(100*v/most, 1)})
		}
		if len(g.Bars) > 1 {
			d.CPU = append(d.CPU, g)
		}
	}
}

func (c *Comparison) fillRows(d *pageData) {
	for i := range c.Rows {
		r := &c.Rows[i]
		t := rowTable{Where: r.Where(), About: r.About, Open: !r.Sweep, Notes: r.Notes}
		for j := range r.Series {
			s := &r.Series[j]
			least, most := s.Range(OpsPerSecond)
			t.Series = append(t.Series, seriesLine{s.Name(), []string{
				Rate(s.Median(OpsPerSecond)), Rate(least), Rate(most),
				Nanos(s.Median(P50)), Nanos(s.Median(P90)), Nanos(s.Median(P99)), Nanos(s.Median(Max)),
				Nanos(s.Median(CallCPU)), Count(s.Median(Others)), Nanos(s.Median(CPUPerOp)),
				Count(s.Median(AllocsPerOp)), Count(s.Median(BytesPerOp)), Count(s.Median(Fairness)),
			}})
		}
		t.dropEmpty()
		d.Rows = append(d.Rows, t)
	}
}

// dropEmpty takes out the columns in which nothing was taken.
func (t *rowTable) dropEmpty() {
	lines := [][]string{append([]string{""}, figureHeads...)}
	for _, s := range t.Series {
		lines = append(lines, append([]string{""}, s.Figures...))
	}
	dropEmpty(lines)
	t.Heads = lines[0][1:]
	for i := range t.Series {
		t.Series[i].Figures = lines[i+1][1:]
	}
}
