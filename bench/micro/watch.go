package micro

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

// watch follows the progress of the callers while a round is measured.
type watch struct {
	driver *driver
	out    *outcome
	before []int64
	until  time.Duration // the end of the last window
	every  time.Duration // the length of one
	least  int64         // waiting, of all that was seen
	sum    int64
	looks  int64
}

func (w *watch) start() {
	if w.driver.trial.shares {
		w.before = w.counts()
	}
}

func (w *watch) counts() []int64 {
	out := make([]int64, len(w.driver.workers))
	for i := range out {
		out[i] = w.driver.workers[i].published.Load()
	}
	return out
}

func (w *watch) look(at time.Duration) {
	t := w.driver.trial
	if t.backlog != nil {
		n := t.backlog()
		w.least, w.sum, w.looks = min(w.least, n), w.sum+n, w.looks+1
	}
	if !t.shares || at-w.until < w.every {
		return
	}
	w.until = at
	now := w.counts()
	diff := make([]float64, len(now))
	var sum float64
	for i := range now {
		diff[i] = float64(now[i] - w.before[i])
		sum += diff[i]
	}
	w.before = now
	if sum == 0 {
		return
	}
	slices.Sort(diff)
	of := func(i int) float64 { return diff[i] * float64(len(diff)) / sum }
	n := len(diff)
	w.out.shares = append(w.out.shares, report.Share{
		Seconds: at.Seconds(), Least: of(0), Tenth: of(n / 10), Ninetieth: of(n - 1 - n/10), Most: of(n - 1),
	})
}

func (w *watch) finish() {
	t := w.driver.trial
	if t.backlog == nil || w.looks == 0 {
		return
	}
	mean := w.sum / w.looks
	if mean < t.least {
		w.out.thin = fmt.Sprintf("only %d waited on average in a round, where %d belong to a backlog, so what it took is left out", mean, t.least)
	}
	w.out.notes = append(w.out.notes, fmt.Sprintf("%d waiting on average, %d at least", mean, w.least))
}
