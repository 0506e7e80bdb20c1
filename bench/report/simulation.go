package report

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"
)

// Simulation is what several settings made of one workload, in virtual time. It
// holds nothing of the machine or the day: the same input gives the same pages.
type Simulation struct {
	// Workload and Ranks describe what was simulated, a sentence each.
	Workload, Ranks string
	Settings        []Simulated
}

// Simulated is what one setting made of it.
type Simulated struct {
	Name, About string
	// Requests is how many there were; Refused those that ended with an error.
	Requests, Completed, Refused int
	// FirstToken is the time from arrival to first token; Short and Long that of
	// those requests with few and with many new tokens.
	FirstToken, Short, Long Percentiles
	// PerToken is the time from the first token to the end, by output token.
	PerToken Percentiles
	// HitShare is the share of the prompt tokens found in the cache of their rank.
	HitShare float64
	// Balance is the number of requests on the busiest rank to the mean, on average.
	Balance float64
	// Queued is the share of the requests that had to stand in line, Waited how long
	// they did.
	Queued float64
	Waited Percentiles
	// Leftovers is what should be 0.
	Leftovers int64
}

// figure of the table and the pictures.
type simulatedFigure struct {
	head, title, about string
	value              func(*Simulated) float64 // NaN: none
	format             func(float64) string
	// picture says that there is a picture of it.
	picture bool
}

func seconds(pick func(*Simulated) Percentiles, of func(Percentiles) time.Duration) func(*Simulated) float64 {
	return func(s *Simulated) float64 {
		if p := pick(s); p.Max > 0 {
			return of(p).Seconds()
		}
		return math.NaN()
	}
}

// ofCompleted is for what there is none of unless some requests ran.
func ofCompleted(value func(*Simulated) float64) func(*Simulated) float64 {
	return func(s *Simulated) float64 {
		if s.Completed == 0 {
			return math.NaN()
		}
		return value(s)
	}
}

func p50(p Percentiles) time.Duration { return p.P50 }
func p95(p Percentiles) time.Duration { return p.P95 }

func inSeconds(x float64) string      { return fixed(x, 3) }
func inMilliseconds(x float64) string { return fixed(1000*x, 1) }
func inPercent(x float64) string      { return fixed(100*x, 1) }
func twoDigits(x float64) string      { return fixed(x, 2) }

var (
	hits    = ofCompleted(func(s *Simulated) float64 { return s.HitShare })
	balance = ofCompleted(func(s *Simulated) float64 { return s.Balance })
)

func firstToken(s *Simulated) Percentiles { return s.FirstToken }

var simulatedFigures = []simulatedFigure{
	{"TTFT p50, s", "Time to first token, p50, s", "", seconds(firstToken, p50), inSeconds, true},
	{"p95, s", "Time to first token, p95, s", "", seconds(firstToken, p95), inSeconds, true},
	{"short p95", "Time to first token of short requests, p95, s", "The half of the requests that bring fewer new tokens.",
		seconds(func(s *Simulated) Percentiles { return s.Short }, p95), inSeconds, true},
	{"long p95", "Time to first token of long requests, p95, s", "The other half.",
		seconds(func(s *Simulated) Percentiles { return s.Long }, p95), inSeconds, true},
	{"/token p95, ms", "Time per output token after the first, p95, ms", "",
		seconds(func(s *Simulated) Percentiles { return s.PerToken }, p95), inMilliseconds, true},
	{"hits, %", "Prefix hit rate, %", "Prompt tokens found in the cache of their rank.",
		hits, inPercent, true},
	{"balance", "Balance, max/mean", "Requests on the busiest rank to their mean, on average over time; 1 is even.",
		balance, twoDigits, true},
	{"queued, %", "Queued, %", "Requests that had to stand in line.",
		func(s *Simulated) float64 { return s.Queued }, inPercent, true},
	{"wait p95, s", "Wait in line, p95, s", "Of those that stood in line; it is part of the time to first token.",
		seconds(func(s *Simulated) Percentiles { return s.Waited }, p95), inSeconds, true},
	{"refused", "", "", func(s *Simulated) float64 { return float64(s.Refused) }, Whole, false},
	{"left", "", "", func(s *Simulated) float64 { return float64(s.Leftovers) }, Whole, false},
}

func (f *simulatedFigure) of(s *Simulated) string {
	if v := f.value(s); !math.IsNaN(v) {
		return f.format(v)
	}
	return none
}

// WriteText prints the table.
func (s *Simulation) WriteText(w io.Writer) error {
	lines := [][]string{{"setting"}, nil}
	for i := range simulatedFigures {
		lines[0] = append(lines[0], simulatedFigures[i].head)
	}
	for i := range s.Settings {
		line := []string{s.Settings[i].Name}
		for j := range simulatedFigures {
			line = append(line, simulatedFigures[j].of(&s.Settings[i]))
		}
		lines = append(lines, line)
	}
	_, err := io.WriteString(w, align(lines))
	return err
}

// WriteJSON writes one object a line for each setting. Times are in seconds; what
// there is none of is null.
func (s *Simulation) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	for i := range s.Settings {
		r := &s.Settings[i]
		of := func(p Percentiles, at func(Percentiles) time.Duration) *float64 {
			if p.Max <= 0 {
				return nil
			}
			return figure(at(p).Seconds())
		}
		if err := enc.Encode(struct {
			Setting     string   `json:"setting"`
			Requests    int      `json:"requests"`
			Completed   int      `json:"completed"`
			Refused     int      `json:"refused"`
			TTFT50      *float64 `json:"ttft_p50_s"`
			TTFT95      *float64 `json:"ttft_p95_s"`
			Short95     *float64 `json:"ttft_short_p95_s"`
			Long95      *float64 `json:"ttft_long_p95_s"`
			PerToken95  *float64 `json:"per_token_p95_s"`
			HitRate     *float64 `json:"hit_rate"`
			Balance     *float64 `json:"balance"`
			QueuedShare *float64 `json:"queued_share"`
			Wait95      *float64 `json:"wait_p95_s"`
			Leftovers   int64    `json:"leftovers"`
		}{
			r.Name, r.Requests, r.Completed, r.Refused, of(r.FirstToken, p50), of(r.FirstToken, p95), of(r.Short, p95), of(r.Long, p95),
			of(r.PerToken, p95), figure(hits(r)), figure(balance(r)), figure(r.Queued), of(r.Waited, p95), r.Leftovers,
		}); err != nil {
			return err
		}
	}
	return nil
}

type simulationPage struct {
	Workload, Ranks string
	Tradeoff        template.HTML
	Pictures        []simulationPicture
	Heads           []string
	Rows            []simulationRow
}

type simulationPicture struct {
	Title, About string
	Bars         []simulationBar
}

type simulationBar struct {
	Name, Value string
	Percent     string // empty: no bar
}

type simulationRow struct {
	Name, About string
	Figures     []string
}

// WriteHTML writes the report: one page, with all it needs in it.
func (s *Simulation) WriteHTML(w io.Writer) error {
	d := simulationPage{Workload: s.Workload, Ranks: s.Ranks, Tradeoff: s.tradeoff()}
	for i := range simulatedFigures {
		f := &simulatedFigures[i]
		d.Heads = append(d.Heads, f.head)
		if p := s.picture(f); f.picture && p != nil {
			d.Pictures = append(d.Pictures, *p)
		}
	}
	for i := range s.Settings {
		r := &s.Settings[i]
		row := simulationRow{Name: r.Name, About: r.About}
		for j := range simulatedFigures {
			row.Figures = append(row.Figures, simulatedFigures[j].of(r))
		}
		d.Rows = append(d.Rows, row)
	}
	return pages.ExecuteTemplate(w, "simulation.tmpl", d)
}

// picture is a bar for each setting; nil if there is nothing to show.
func (s *Simulation) picture(f *simulatedFigure) *simulationPicture {
	most := 0.0
	for i := range s.Settings {
		if v := f.value(&s.Settings[i]); v > most {
			most = v
		}
	}
	if most == 0 {
		return nil
	}
	p := &simulationPicture{Title: f.title, About: f.about}
	for i := range s.Settings {
		v := f.value(&s.Settings[i])
		bar := simulationBar{Name: s.Settings[i].Name, Value: f.of(&s.Settings[i])}
		if v > 0 {
			bar.Percent = fixed(100*v/most, 1)
		}
		p.Bars = append(p.Bars, bar)
	}
	return p
}

// tradeoff draws each setting by its prefix hits and its time to first token: what
// a selector has to weigh against each other.
func (s *Simulation) tradeoff() template.HTML {
	x := axis{title: "prefix hit rate, %", format: func(v float64) string { return trim(fixed(100*v, 1)) }}
	y := axis{log: true, format: func(v float64) string { return trim(fixed(v, 3)) + " s" }}
	type dot struct {
		number int
		x, y   float64
	}
	var dots []dot
	xlo, xhi, ylo, yhi := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for i := range s.Settings {
		r := &s.Settings[i]
		d := dot{i + 1, r.HitShare, r.FirstToken.P95.Seconds()}
		if d.y <= 0 {
			continue
		}
		dots = append(dots, d)
		xlo, xhi, ylo, yhi = min(xlo, d.x), max(xhi, d.x), min(ylo, d.y), max(yhi, d.y)
	}
	if len(dots) < 2 {
		return ""
	}
	if xlo == xhi {
		xlo, xhi = xlo-0.01, xhi+0.01
	}
	x.cover(xlo, xhi)
	y.spread(ylo, yhi)
	svg := newSVG("time to first token, p95, by prefix hit rate", wideWidth, wideHeight+60)
	svg.frame(&x, &y)
	points := make([]spot, len(dots))
	for i, d := range dots {
		points[i] = spot{svg.px(&x, d.x), svg.py(&y, d.y)}
	}
	numbers := labels(points, spot{marginLeft, marginTop}, spot{svg.width - marginRight, svg.height - marginDown})
	// Lines lie below points, and these below numbers.
	svg.WriteString(`<g class="e-turnstile">`)
	for i, p := range points {
		if at := numbers[i]; at != p {
			svg.line(p.x, p.y, at.x, at.y, "cross")
		}
	}
	for _, p := range points {
		fmt.Fprintf(svg, `<circle class="dot" cx="%.1f" cy="%.1f" r="%g"/>`, p.x, p.y, pointRadius)
	}
	for i, d := range dots {
		at := numbers[i]
		fmt.Fprintf(svg, `<g><title>%s</title><circle class="dot" cx="%.1f" cy="%.1f" r="%g"/>`,
			template.HTMLEscapeString(s.Settings[d.number-1].Name), at.x, at.y, labelRadius)
		svg.text(at.x, at.y+4, "number mid", fmt.Sprint(d.number))
		svg.WriteString("</g>")
	}
	svg.WriteString("</g>")
	return svg.done()
}

// spread is cover for a logarithmic axis whose values may lie within a decade.
func (a *axis) spread(lo, hi float64) {
	a.lo, a.hi = lo/1.25, hi*1.25
	decade := math.Pow(10, math.Floor(math.Log10(a.lo)))
	var steps []float64
	for _, m := range [][]float64{{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}} {
		steps = m
		if n := math.Log10(a.hi/a.lo) * float64(len(m)); n >= 4 {
			break
		}
	}
	for ; decade <= a.hi; decade *= 10 {
		for _, m := range steps {
			if v := decade * m; v >= a.lo && v <= a.hi {
				a.ticks = append(a.ticks, v)
			}
		}
	}
}

// Legend says what the columns of the table are.
func (s *Simulation) Legend() string {
	return strings.TrimPrefix(`
TTFT: time from arrival to first token, with all waiting in line and on the rank; short and long: of the half of the requests
that brings fewer new tokens, and of the other. Per token: time after the first token, by output token. Hits: prompt tokens
found in the cache of their rank. Balance: requests on the busiest rank to the mean, on average. Queued: requests that had to
stand in line; wait: how long those did. Refused: by a limit of their class. Left: what should be 0 when all has ended.
`, "\n")
}
