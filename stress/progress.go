package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progress shows how a command stands: on a terminal on one line, else a line
// from time to time.
type progress struct {
	w        io.Writer
	terminal bool
	last     time.Time
	shown    bool
}

// How often the line is renewed, and how often one is printed where there is no
// terminal.
const (
	renewEvery = 100 * time.Millisecond
	linesEvery = 10 * time.Second
)

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), last: time.Now()}
}

// line shows the text, if it is time to.
func (p *progress) line(text func() string) {
	every := linesEvery
	if p.terminal {
		every = renewEvery
	}
	if time.Since(p.last) < every {
		return
	}
	p.last, p.shown = time.Now(), true
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", text())
	} else {
		fmt.Fprintln(p.w, text())
	}
}

// end removes the line from a terminal.
func (p *progress) end() {
	if p.terminal && p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
