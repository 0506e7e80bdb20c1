package main

import (
	"fmt"
	"io"
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
