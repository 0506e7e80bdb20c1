package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sample is a comparison with a bit of everything.
func sample() *Comparison {
	row := func(scenario string, callers, ranks int, series ...Series) Row {
		for i := range series {
			series[i].Callers, series[i].Ranks = callers, ranks
		}
		return Row{Scenario: scenario, About: "one thing & another", Callers: callers, Ranks: ranks, Series: series}
	}
	first := row("advisory", 16, 16, seriesOf("turnstile", 1e6, 2e6, 3e6), seriesOf("actor", 2e5, 2e5, 2.5e5), seriesOf("mutex", 2e7))
	for i := range first.Series[0].Rounds {
		r := &first.Series[0].Rounds[i]
		r[CPUPerOp], r[AllocsPerOp], r[BytesPerOp] = 1000, 0, 16
	}
	first.Series[1].Rounds[0][CPUPerOp] = 4000
	first.Verdicts = []Verdict{
		AtLeast(8).Judge("operations/s against actor", 10, Times),
		AtMost(0).Judge("allocations", 0.5, Short),
		{What: "CPU", Need: "≤ 0.6 ×", Untold: "machine busy"},
	}
	second := row("advisory", 256, 16, seriesOf("turnstile", 2e6), seriesOf("actor", 1e5))
	third := row("advisory", 256, 2048, seriesOf("turnstile", 1e6), seriesOf("actor", 1e3))
	third.Sweep = true
	saturated := row("saturated", 256, 16, seriesOf("turnstile", 1e5), seriesOf("actor", 5e4))
	for i := range saturated.Series {
		s := &saturated.Series[i]
		s.Waits = []Point{{0, 1e5}, {0.5, 1e6}, {0.99, 2e6}, {0.999, 1e7}}
		s.Shares = []Share{{0.1, 0.5, 0.9, 1.1, 1.4}, {0.2, 0.6, 0.9, 1.1, 9}}
		s.Rounds[0][Fairness] = 0.85
	}
	idle := row("own/idle", 0, 16, Series{Engine: "turnstile", Rounds: []Round{NewRound()}})
	idle.Series[0].Rounds[0][BytesPerOp] = 16_000
	idle.Verdicts = []Verdict{{What: "order", Need: "<as they came>"}}
	idle.Notes = []string{"a note"}
	lanes := row("lanes", 1, 1024, seriesOf("turnstile", 5e5), seriesOf("turnstile", 6e5))
	lanes.Series[1].Variant = "one lane"
	return &Comparison{
		Machine: "go1.99 <test>", Began: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Took: 59 * time.Second, Rounds: 5,
		Rows: []Row{first, second, third, saturated, idle, lanes},
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	c := sample()
	for i := range c.Rows {
		require.NoError(t, c.Rows[i].WriteText(&b))
	}
	require.NoError(t, c.WriteSummary(&b))
	golden(t, "comparison.txt", b.Bytes())
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	c := sample()
	for i := range c.Rows {
		require.NoError(t, c.Rows[i].WriteJSON(&b))
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	require.Len(t, lines, 12)
	for _, text := range lines {
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &object))
		var names []string
		for name := range object {
			names = append(names, name)
		}
		sort.Strings(names)
		require.Equal(t, []string{
			"allocs_per_op", "bytes_per_op", "call_cpu_ns", "callers", "cpu_ns_per_op", "engine", "fairness", "max_ns",
			"ops_per_s", "others", "p50_ns", "p90_ns", "p99_ns", "ranks", "rounds", "scenario", "spread",
		}, names)
	}
	require.JSONEq(t, `{"scenario": "advisory", "engine": "turnstile", "ranks": 16, "callers": 16, "ops_per_s": 2000000, "p50_ns": 100,
		"p99_ns": 200, "max_ns": 300, "allocs_per_op": 0, "bytes_per_op": 16, "cpu_ns_per_op": 1000, "fairness": null, "p90_ns": null, "call_cpu_ns": null, "others": null, "rounds": 3, "spread": 1}`, lines[0])
	require.Contains(t, lines[11], `"scenario":"lanes/one-lane"`)
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample().WriteHTML(&b))
	text := b.String()
	golden(t, "comparison.html", b.Bytes())
	require.NotRegexp(t, regexp.MustCompile(`(?i)<script|<link|<img|@import|url\(|https?:`), text, "must be readable offline")
	require.NotContains(t, text, "NaN")
	require.NotContains(t, text, "Inf")
	require.Contains(t, text, "go1.99 &lt;test&gt;")
	require.Contains(t, text, "&lt;as they came&gt;")
	// Three pictures against callers, three against ranks, waits, two of shares.
	require.Equal(t, 6+1+2, strings.Count(text, `role="img"`))
	require.Equal(t, strings.Count(text, "<svg"), strings.Count(text, "</svg>"))
	require.Equal(t, strings.Count(text, "<g "), strings.Count(text, "</g>"))
	require.Equal(t, strings.Count(text, "<section"), strings.Count(text, "</section>"))

	b.Reset()
	require.NoError(t, (&Comparison{}).WriteHTML(&b), "nothing was run")
	b.Reset()
	require.NoError(t, (&Comparison{}).WriteSummary(&b))
	require.Empty(t, b.String())
}

// TestGaps: no line is drawn over what is not known.
func TestGaps(t *testing.T) {
	of := func(ranks int, rate float64) *Row {
		r := &Row{Ranks: ranks, Series: []Series{seriesOf("actor", rate)}}
		return r
	}
	unknown := math.NaN()
	curves := curvesOf([]*Row{of(1, unknown), of(2, 10), of(3, 20), of(4, unknown), of(5, unknown), of(6, 30)},
		func(r *Row) int { return r.Ranks }, OpsPerSecond)
	require.Len(t, curves, 1)
	require.Len(t, curves[0].points, 3)
	require.Equal(t, []int{2}, curves[0].gaps)
	chart := lineChart(newSVG("", 100, 100), axis{format: Whole}, axis{log: true, format: Whole}, curves)
	require.Equal(t, 2, strings.Count(string(chart), "<polyline"))
}

func TestAxis(t *testing.T) {
	a := axis{log: true}
	a.cover(300, 20_000)
	require.Equal(t, []float64{100, 1000, 10_000, 100_000}, a.ticks)
	require.InDelta(t, 1.0/3, a.at(1000), 1e-9)
	a = axis{log: true}
	a.cover(1, 1)
	require.Equal(t, []float64{1, 10}, a.ticks)
	a = axis{log: true}
	a.cover(1, 1e12)
	require.Len(t, a.ticks, 7, "not every power of ten")
	a = axis{}
	a.cover(0, 1.3)
	require.Equal(t, []float64{0, 0.5, 1, 1.5}, a.ticks)
	require.Equal(t, 1.0, niceStep(0))
	require.Equal(t, 20.0, niceStep(11))
	require.Equal(t, 10.0, niceStep(6))
}
