package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Pictures are SVG with classes instead of colours, so that the page's style
// sheet fits them to light and dark. Engines differ by colour, marker and dash.

const (
	chartWidth  = 360.0
	wideWidth   = 720.0
	chartHeight = 230.0
	wideHeight  = 320.0
	marginLeft  = 58.0
	marginRight = 20.0
	marginTop   = 12.0
	marginDown  = 40.0
)

// point is one point of a curve, with the range over the rounds.
type point struct{ x, y, least, most float64 }

// curve is what a chart shows of one engine.
type curve struct {
	engine string // or a style
	name   string // if not that of the engine
	points []point
	// gaps are the places in points before which the line is broken.
	gaps  []int
	marks bool
}

func (c *curve) gap() {
	if n := len(c.points); n > 0 && !slices.Contains(c.gaps, n) {
		c.gaps = append(c.gaps, n)
	}
}

// axis is one of a chart's two.
type axis struct {
	title  string
	log    bool
	ticks  []float64
	format func(float64) string
	lo, hi float64
}

// at returns where between 0 and 1 a value lies.
func (a *axis) at(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	if hi == lo {
		return 0.5
	}
	return (v - lo) / (hi - lo)
}

// cover has the axis reach from the least to the most, and puts ticks on it.
func (a *axis) cover(lo, hi float64) {
	if !a.log {
		step := niceStep((hi - lo) / 4)
		a.lo, a.hi = math.Floor(lo/step)*step, math.Ceil(hi/step)*step
		for v := a.lo; v <= a.hi+step/2; v += step {
			a.ticks = append(a.ticks, v)
		}
		return
	}
	a.lo, a.hi = math.Pow(10, math.Floor(math.Log10(lo))), math.Pow(10, math.Ceil(math.Log10(hi)))
	if a.lo == a.hi {
		a.hi *= 10
	}
	decades := math.Round(math.Log10(a.hi / a.lo))
	every := math.Pow(10, math.Ceil(decades/6))
	for v := a.lo; v <= a.hi*1.001; v *= every {
		a.ticks = append(a.ticks, v)
	}
}

// niceStep is 1, 2 or 5 times a power of ten, not below x.
func niceStep(x float64) float64 {
	if x <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*base >= x {
			return m * base
		}
	}
	return 10 * base
}

// lineChart draws curves. What the axes lack of bounds follows from them.
func lineChart(s *svg, x, y axis, curves []curve) template.HTML {
	lo, hi := math.Inf(1), math.Inf(-1)
	xlo, xhi := math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for _, p := range c.points {
			lo, hi = min(lo, p.least, p.y), max(hi, p.most, p.y)
			xlo, xhi = min(xlo, p.x), max(xhi, p.x)
		}
	}
	if lo > hi {
		return ""
	}
	if y.lo == y.hi {
		y.cover(lo, hi)
	}
	if x.lo == x.hi {
		x.lo, x.hi = xlo, xhi
	}
	s.frame(&x, &y)
	for _, c := range curves {
		s.curve(&x, &y, &c)
	}
	return s.done()
}

type svg struct {
	strings.Builder
	width, height float64
}

func newSVG(label string, width, height float64) *svg {
	s := &svg{width: width, height: height}
	fmt.Fprintf(s, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, width, height, html.EscapeString(label))
	return s
}

func (s *svg) done() template.HTML {
	s.WriteString("</svg>")
	return template.HTML(s.String()) //nolint:gosec // every text in it is escaped
}

func (s *svg) text(x, y float64, class, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

func (s *svg) px(a *axis, v float64) float64 {
	return marginLeft + a.at(v)*(s.width-marginLeft-marginRight)
}

func (s *svg) py(a *axis, v float64) float64 {
	return s.height - marginDown - min(1, max(0, a.at(v)))*(s.height-marginDown-marginTop)
}

// frame draws grid, ticks and titles.
func (s *svg) frame(x, y *axis) {
	left, right, down := marginLeft, s.width-marginRight, s.height-marginDown
	for _, v := range y.ticks {
		s.line(left, s.py(y, v), right, s.py(y, v), "grid")
		s.text(left-6, s.py(y, v)+3.5, "tick end", y.format(v))
	}
	s.line(left, down, right, down, "axis")
	for _, v := range x.ticks {
		s.line(s.px(x, v), down, s.px(x, v), down+4, "axis")
		s.text(s.px(x, v), down+16, "tick mid", x.format(v))
	}
	s.text((left+right)/2, s.height-6, "title mid", x.title)
}

func (s *svg) curve(x, y *axis, c *curve) {
	fmt.Fprintf(s, `<g class="e-%s"><title>%s</title>`, html.EscapeString(c.engine), html.EscapeString(cmp.Or(c.name, c.engine)))
	if c.marks {
		for _, p := range c.points {
			if p.most > p.least {
				s.line(s.px(x, p.x), s.py(y, p.least), s.px(x, p.x), s.py(y, p.most), "range")
			}
		}
	}
	s.WriteString(`<polyline class="curve" points="`)
	for i, p := range c.points {
		switch {
		case slices.Contains(c.gaps, i):
			s.WriteString(`"/><polyline class="curve" points="`)
		case i > 0:
			s.WriteByte(' ')
		}
		fmt.Fprintf(s, "%.1f,%.1f", s.px(x, p.x), s.py(y, p.y))
	}
	s.WriteString(`"/>`)
	if c.marks {
		for _, p := range c.points {
			s.marker(c.engine, s.px(x, p.x), s.py(y, p.y))
		}
	}
	s.WriteString("</g>")
}

// marker draws the engine's sign.
func (s *svg) marker(engine string, x, y float64) {
	const r = 3.6
	poly := func(points ...float64) {
		s.WriteString(`<polygon class="mark" points="`)
		for i := 0; i < len(points); i += 2 {
			fmt.Fprintf(s, "%.1f,%.1f ", x+points[i], y+points[i+1])
		}
		s.WriteString(`"/>`)
	}
	switch engine {
	case "turnstile", "v1", "v6":
		fmt.Fprintf(s, `<circle class="mark" cx="%.1f" cy="%.1f" r="%g"/>`, x, y, r)
	case "actor", "v2", "v7":
		poly(-r, -r, r, -r, r, r, -r, r)
	case "actor-direct", "v3", "v8":
		poly(0, -r-1, r+1, r, -r-1, r)
	case "actor-index", "v4":
		poly(0, -r-1, r+1, 0, 0, r+1, -r-1, 0)
	default:
		s.line(x-r, y-r, x+r, y+r, "cross")
		s.line(x-r, y+r, x+r, y-r, "cross")
	}
}

// legend draws the sign of an engine.
func legend(engine string) template.HTML {
	s := &svg{}
	fmt.Fprintf(s, `<svg class="key" viewBox="0 0 28 12" aria-hidden="true"><g class="e-%s"><polyline class="curve" points="1,6 27,6"/>`, html.EscapeString(engine))
	s.marker(engine, 14, 6)
	s.WriteString("</g>")
	return s.done()
}

// shareChart draws how even the callers of one engine fared over time.
func shareChart(engine string, shares []Share, most float64) template.HTML {
	x := axis{title: "seconds", format: func(v float64) string { return trim(fixed(v, 2)) }}
	x.cover(0, shares[len(shares)-1].Seconds)
	x.hi = shares[len(shares)-1].Seconds
	for len(x.ticks) > 0 && x.ticks[len(x.ticks)-1] > x.hi*1.001 {
		x.ticks = x.ticks[:len(x.ticks)-1]
	}
	y := axis{format: func(v float64) string { return trim(fixed(v, 2)) + "×" }}
	y.cover(0, most)
	s := newSVG(engine+": operations of the callers in each window, as multiples of the mean", chartWidth, chartHeight-50)
	s.frame(&x, &y)
	fmt.Fprintf(s, `<g class="e-%s">`, html.EscapeString(engine))
	band := func(class string, low, high func(Share) float64) {
		fmt.Fprintf(s, `<polygon class="%s" points="`, class)
		for _, p := range shares {
			fmt.Fprintf(s, "%.1f,%.1f ", s.px(&x, p.Seconds), s.py(&y, high(p)))
		}
		for i := len(shares) - 1; i >= 0; i-- {
			fmt.Fprintf(s, "%.1f,%.1f ", s.px(&x, shares[i].Seconds), s.py(&y, low(shares[i])))
		}
		s.WriteString(`"/>`)
	}
	band("band", func(p Share) float64 { return p.Least }, func(p Share) float64 { return p.Most })
	band("core", func(p Share) float64 { return p.Tenth }, func(p Share) float64 { return p.Ninetieth })
	s.WriteString("</g>")
	s.line(marginLeft, s.py(&y, 1), s.width-marginRight, s.py(&y, 1), "mean")
	return s.done()
}
