package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/micro"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

// The verdict: three closed loops in which the scheduler is the bottleneck and not
// the simulated ranks, so that they tell what each engine can do. With the engines'
// turns they take about 15 s.

const (
	verdictRounds = 5
	verdictRound  = 220 * time.Millisecond
	// verdictBudget is the time after which a loop begins no further round, on a
	// machine that is busy.
	verdictBudget = 7 * time.Second
)

// verdicts are the loops, and what they are called.
var verdicts = []struct {
	scenario, what string
	callers, ranks int
}{
	{"advisory", "choose a rank, book nothing", 256, 16},
	{"tracked", "book, prefill done, release", 256, 16},
	{"saturated", "wait for a rank, book, release", 256, 16},
}

// whatTheyAre is the one line about the engines.
const whatTheyAre = "turnstile is this library. actor is the design of the published routers: one goroutine owns all state and is asked by message. " +
	"actor-direct is the best form of it: callers change and read loads themselves, only the queue is the goroutine's."

// whatReplayIs stands above the replay.
const whatReplayIs = "Below, a check that all serve alike: the same workload replayed through each engine. The simulated ranks are the bottleneck there, " +
	"so all complete the same work; what differs is what the engine itself takes of CPU and time."

// verdict is the loops of one run.
type verdict struct {
	specs     []micro.Spec
	whats     []string
	rows      []report.Row
	headlines []report.Headline
	faults    []error
}

// newVerdict prepares the loops for the engines that are to run.
func newVerdict(names []string) *verdict {
	v := &verdict{}
	for _, want := range verdicts {
		for _, spec := range micro.Rows(want.scenario, microEngines()) {
			if spec.Scenario != want.scenario || spec.Callers != want.callers || spec.Ranks != want.ranks {
				continue
			}
			if spec.Only(names) {
				v.specs = append(v.specs, spec.Bare())
				v.whats = append(v.whats, want.what)
			}
		}
	}
	return v
}

// seconds is about how long the loops take.
func (v *verdict) seconds() float64 {
	sum := 0.0
	for i := range v.specs {
		sum += v.specs[i].Seconds(micro.Settings{Rounds: verdictRounds, Duration: verdictRound})
	}
	return sum
}

// run runs the loops until ctx ends, and tells of each.
func (v *verdict) run(ctx context.Context, step func(string), done func(*report.Row) error) error {
	for i := range v.specs {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // an interrupt ends the loops, and what was measured stands
		}
		began := time.Now()
		row, err := micro.Run(ctx, &v.specs[i], micro.Settings{Rounds: verdictRounds, Duration: verdictRound, Budget: verdictBudget}, step)
		if err != nil {
			v.faults = append(v.faults, err)
		}
		row.Took = time.Since(began)
		v.rows = append(v.rows, row)
		v.headlines = append(v.headlines, row.Headline(v.whats[i], micro.Turnstile, micro.Actor, micro.ActorDirect))
		if err := done(&row); err != nil {
			return err
		}
	}
	return nil
}

// write prints the verdict, and the tables it comes from.
func (v *verdict) write(w io.Writer) error {
	if len(v.rows) == 0 {
		return nil
	}
	fmt.Fprintf(w, "%s\n\nHow often in a second, with %d callers and %d ranks on %d processors, and how many times as often as the actors\n"+
		"(ratio of the medians of %d rounds; in brackets the least and the most of one round):\n\n",
		wrap(whatTheyAre), verdicts[0].callers, verdicts[0].ranks, micro.Processors, verdictRounds)
	if err := report.WriteHeadlines(w, micro.Turnstile, v.headlines); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for i := range v.rows {
		if err := v.rows[i].WriteText(w); err != nil {
			return err
		}
	}
	for _, f := range v.faults {
		fmt.Fprintf(w, "FAULT     %v\n", f)
	}
	return nil
}

// wrap breaks a text into lines.
func wrap(text string) string {
	const width = 120
	out, column := "", 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			out += "\n"
			column = 0
		default:
			out += " "
			column++
		}
		out += word
		column += len(word)
	}
	return out
}
