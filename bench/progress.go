package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// quiet is how long a comparison may run before it shows its progress.
const quiet = 2 * time.Second

// progress shows how far a comparison has come on one line of a terminal; nil
// shows nothing.
type progress struct {
	w        io.Writer
	began    time.Time
	requests int // of each run
	run      int // from 0
	runs     int
	label    string
	shown    bool
}

// start begins the next run.
func (p *progress) start(run int, label string) {
	if p != nil {
		p.run, p.label = run, label
	}
}

// update shows how many requests of the current run have ended.
func (p *progress) update(ended int) {
	if p == nil || time.Since(p.began) < quiet {
		return
	}
	p.shown = true
	share := 100 * (p.run*p.requests + ended) / max(1, p.runs*p.requests)
	fmt.Fprintf(p.w, "\r\x1b[K%3d%%  %s: %d/%d requests", share, p.label, ended, p.requests)
}

// clear removes the line.
func (p *progress) clear() {
	if p != nil && p.shown {
		p.shown = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// bar shows on a terminal how far a run of closed loops has come, and what runs.
type bar struct {
	w     io.Writer // nil shows nothing
	began time.Time
	whole time.Duration // about what the run takes
	done  float64       // the share that was done before this row
}

func newBar(w io.Writer, terminal bool, whole time.Duration) *bar {
	if !terminal {
		w = nil
	}
	return &bar{w: w, began: time.Now(), whole: whole}
}

// left says about how long the rest takes.
func (b *bar) left(rest time.Duration) {
	if b.whole > 0 {
		b.done = 1 - rest.Seconds()/b.whole.Seconds()
	}
}

const barWidth = 24

// step shows what runs next.
func (b *bar) step(what string) {
	if b.w == nil {
		return
	}
	// Within a row the clock tells, but not further than the row goes.
	share := min(max(b.done, time.Since(b.began).Seconds()/max(0.001, b.whole.Seconds())), 0.99)
	full := int(share * barWidth)
	fmt.Fprintf(b.w, "\r\x1b[K[%s%s] %2.0f%%  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*share, what)
}

func (b *bar) clear() {
	if b.w != nil {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}
