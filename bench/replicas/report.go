package replicas

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// At returns a quantile of what is sorted.
func At(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// rows are the table, the first its head.
func (r *Result) rows() [][]string {
	rows := [][]string{{"", "p50", "p90", "p99", "most", "samples"}}
	for _, of := range []struct {
		name  string
		waits []time.Duration
	}{{"visible at a peer, nothing else to do", r.Quiet}, {"visible at a peer, all book", r.Busy}} {
		rows = append(rows, []string{
			of.name, milliseconds(At(of.waits, .5)), milliseconds(At(of.waits, .9)), milliseconds(At(of.waits, .99)),
			milliseconds(At(of.waits, 1)), fmt.Sprint(len(of.waits)),
		})
	}
	return rows
}

func (r *Result) doubledRows() [][]string {
	rows := [][]string{{"load of the ranks", "loads shared", "bookings", "on a rank that was taken", "most on a rank"}}
	for i := range r.Doubled {
		d := &r.Doubled[i]
		shared := "no"
		if d.Shared {
			shared = "yes"
		}
		rows = append(rows, []string{
			fmt.Sprintf("%.0f %%", d.Load*100), shared, fmt.Sprint(d.Bookings),
			fmt.Sprintf("%d (%.2f %%)", d.Double, d.Share()*100), fmt.Sprint(d.Most),
		})
	}
	return rows
}

// about says what was measured.
func (r *Result) about() string {
	return fmt.Sprintf("%d replicas in one process, each with a NATS server of its own, clustered on loopback; %d ranks.",
		r.Settings.Replicas, r.Settings.Ranks)
}

func (r *Result) cost() string {
	return fmt.Sprintf("All book: %.0f bookings and %.0f messages received in a second, over all; %.1f µs of CPU for each message received, servers included.",
		r.Bookings, r.Messages, float64(r.PerMessage)/float64(time.Microsecond))
}

func (r *Result) meaning() string {
	return fmt.Sprintf("Requests come at random at all replicas, wait for a rank without prefill and have it for %v in the mean. One at a time would be right; a rank that was taken meanwhile has two.",
		r.Settings.Prefill)
}

// WriteText writes the tables.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	table := func(rows [][]string) {
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range rows {
			fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		_ = t.Flush() // into memory
	}
	fmt.Fprintf(&b, "%s\n\n", r.about())
	table(r.rows())
	fmt.Fprintf(&b, "\n%s\n\n%s\n\n", r.cost(), r.meaning())
	table(r.doubledRows())
	_, err := io.WriteString(w, b.String())
	return err
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Turnstile: replicas</title>
<style>
:root{--fg:#1f2328;--soft:#59636e;--line:#d1d9e0;--a:#0969da;--b:#9a6700;--bg:#fff}
@media (prefers-color-scheme:dark){:root{--fg:#f0f6fc;--soft:#9198a1;--line:#3d444d;--a:#4493f8;--b:#d29922;--bg:#0d1117}}
body{font:15px/1.5 -apple-system,"Segoe UI",Helvetica,Arial,sans-serif;color:var(--fg);background:var(--bg);max-width:760px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:1em 0}th,td{border:1px solid var(--line);padding:.3em .7em;text-align:right}th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto}text{fill:var(--soft);font-size:12px}.grid{stroke:var(--line)}.a,.b{fill:none;stroke-width:2}.a{stroke:var(--a)}.b{stroke:var(--b);stroke-dasharray:6 3}.ta{fill:var(--a)}.tb{fill:var(--b)}
</style></head><body>
<h1>Replicas that count each other's load</h1>
<p>{{.About}}</p>
{{template "table" .Rows}}
{{.Picture}}
<p>{{.Cost}}</p>
<p>{{.Meaning}}</p>
{{template "table" .Doubled}}
</body></html>
{{define "table"}}<table>{{range $i, $row := .}}<tr>{{range $row}}{{if eq $i 0}}<th>{{.}}</th>{{else}}<td>{{.}}</td>{{end}}{{end}}</tr>{{end}}</table>{{end}}`))

// WriteHTML writes a page with the tables and a picture.
func (r *Result) WriteHTML(w io.Writer) error {
	return page.Execute(w, map[string]any{
		"About": r.about(), "Cost": r.cost(), "Meaning": r.meaning(),
		"Rows": r.rows(), "Doubled": r.doubledRows(), "Picture": r.picture(),
	})
}

const width, height, left, down = 720.0, 300.0, 60.0, 36.0

// picture shows which part of the bookings is visible after how long.
func (r *Result) picture() template.HTML {
	const lo, hi = -5.0, -1.0 // decimal logarithms of seconds: 10 µs to 100 ms
	x := func(seconds float64) float64 {
		at := (math.Log10(max(seconds, 1e-9)) - lo) / (hi - lo)
		return left + min(max(at, 0), 1)*(width-left-20)
	}
	y := func(share float64) float64 { return 10 + (1-share)*(height-10-down) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %g %g" role="img"><title>Time until a booking is visible</title>`, width, height)
	for e, label := range []string{"10 µs", "100 µs", "1 ms", "10 ms", "100 ms"} {
		at := x(math.Pow(10, lo+float64(e)))
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="10" x2="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`,
			at, at, height-down, at, height-down+18, label)
	}
	for _, share := range []float64{0, .25, .5, .75, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" y1="%.1f" x2="%g" y2="%.1f"/><text x="%g" y="%.1f" text-anchor="end">%.0f %%</text>`,
			left, y(share), width-20, y(share), left-8, y(share)+4, share*100)
	}
	for i, waits := range [][]time.Duration{r.Quiet, r.Busy} {
		class := "ab"[i : i+1]
		fmt.Fprintf(&b, `<polyline class="%s" points="`, class)
		for step := range 201 {
			q := float64(step) / 200
			fmt.Fprintf(&b, "%.1f,%.1f ", x(At(waits, q).Seconds()), y(q))
		}
		fmt.Fprintf(&b, `"/><text class="t%s" x="%g" y="%d">%s</text>`, class, left+12, 30+i*18, []string{"nothing else to do", "all book"}[i])
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // of numbers only
}
