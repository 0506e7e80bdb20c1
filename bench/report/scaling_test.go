package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScaling: a table and a picture for each engine, a curve for each operation.
func TestScaling(t *testing.T) {
	row := func(ranks int, cost float64) Row {
		r := Row{Scenario: "scaling", Ranks: ranks, Callers: 1}
		for _, s := range []struct {
			engine, variant string
			cost            float64
		}{{"turnstile", "plain", 400}, {"turnstile", "half allowed", cost}, {"actor-direct", "plain", 10 * cost}} {
			round := NewRound()
			round[CPUPerOp] = s.cost
			r.Series = append(r.Series, Series{Engine: s.engine, Variant: s.variant, Ranks: ranks, Rounds: []Round{round}})
		}
		return r
	}
	c := &Comparison{Rows: []Row{row(2048, 20_000), row(64, 900), row(512, math.NaN())}}
	var text, page bytes.Buffer
	require.NoError(t, c.WriteSummary(&text))
	require.Equal(t, `turnstile, CPU per operation at ranks       64      512    2,048
----------------------------------------------------------------
  plain                                 400 ns   400 ns   400 ns
  half allowed                          900 ns        -    20 µs

actor-direct, CPU per operation at ranks       64   512    2,048
----------------------------------------------------------------
  plain                                    9.0 µs     -   200 µs

`, text.String())
	require.NoError(t, c.WriteHTML(&page))
	_, section, _ := strings.Cut(page.String(), "<h2>Cost by the size of the pool</h2>")
	section, _, _ = strings.Cut(section, "</section>")
	require.Equal(t, 2, strings.Count(section, `role="img"`))
	require.Equal(t, 2, strings.Count(section, "<title>plain</title>"))
	require.Equal(t, 1, strings.Count(section, "<title>half allowed</title>"))
	require.Contains(t, section, "half allowed</li>")
	require.Contains(t, page.String(), `<th scope="col">CPU/op</th>`, "where it was taken")
	require.NotContains(t, page.String(), "fairness</th>", "else a table has no such column")
}

// TestHeadlines: the ratio is that of the medians, the spread that of the rounds.
func TestHeadlines(t *testing.T) {
	row := &Row{Scenario: "x", Callers: 2, Ranks: 3, Series: []Series{seriesOf("turnstile", 100, 300, 200), seriesOf("actor", 100, 100, 50)}}
	h := row.Headline("do it", "turnstile", "actor", "nobody")
	require.Equal(t, Headline{What: "do it", Row: "x 2 × 3", Rate: "200.0", Against: []Versus{{"actor", 2, 1, 4}}}, h)
	require.Equal(t, "2 × (1 to 4)", h.Against[0].String())
	var b bytes.Buffer
	require.NoError(t, WriteHeadlines(&b, "turnstile", []Headline{h}))
	require.Equal(t, "        turnstile        × actor\n--------------------------------\ndo it     200.0/s   2 × (1 to 4)\n", b.String())
	b.Reset()
	require.NoError(t, WriteHeadlines(&b, "turnstile", nil))
	require.Empty(t, b.String())
	require.Equal(t, "-", row.Headline("", "nobody").Rate)
	require.Equal(t, "-", Versus{Ratio: math.NaN()}.String())
}
