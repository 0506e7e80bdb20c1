package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// Event tells what became of a change of the file.
type Event struct {
	// Path is the file's.
	Path string
	// Err says why what the file holds was not taken; what was in force before
	// still is. Nil: what it holds is in force.
	Err error
	// Warnings are those of the policy file.
	Warnings []string
}

// Faults returns what is wrong one by one, for a log with a line for each: the
// faults that Err lists, one a line, or Err itself.
func (e Event) Faults() []error { return split(e.Err, nil) }

func split(err error, to []error) []error {
	if err == nil {
		return to
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // a list, not an error with one inside
		texts := make([]string, len(list.Unwrap()))
		for i, each := range list.Unwrap() {
			texts[i] = each.Error()
		}
		// Else it says more than its parts do.
		if strings.Join(texts, "\n") == err.Error() {
			for _, each := range list.Unwrap() {
				to = split(each, to)
			}
			return to
		}
	}
	return append(to, err)
}

// Options says how a file is watched. The zero value is valid.
type Options struct {
	// Interval is the time between looks, default 2 s; it must not be negative.
	Interval time.Duration
	// Current is the text that is in force already: as long as the file holds that,
	// nothing is done. With nil, what the file holds is taken, once settled.
	Current []byte
	// Tell receives each change, once, on the goroutine that watches. Nil logs it with
	// slog.Default().
	Tell func(Event)
	// Clock is the clock of the interval; nil means the system's.
	Clock clock.Clock
}

const defaultInterval = 2 * time.Second

// maxText bounds what is read: a policy may have up to 1 MiB.
const maxText = 1 << 20

// File watches a file until ctx ends, and has take called with what it holds
// whenever that has changed. If take returns an error, the change counts as not
// made, and is not tried again until the file changes. take must not keep or change
// the text.
//
// File returns the context's error, or at once what is wrong with its arguments.
func File(ctx context.Context, path string, take func(text []byte) error, o Options) error {
	if take == nil {
		return errors.New("reload: function to call: must not be nil")
	}
	return watch(ctx, path, func(text []byte) ([]string, error) { return nil, take(text) }, o)
}

func watch(ctx context.Context, path string, take func([]byte) ([]string, error), o Options) error {
	switch {
	case ctx == nil:
		return errors.New("reload: context: must not be nil")
	case path == "":
		return errors.New("reload: path: must not be empty")
	case o.Interval < 0:
		return fmt.Errorf("reload: interval %v: must not be negative", o.Interval)
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Tell == nil {
		o.Tell = logEvent
	}
	w := &watcher{path: path, take: take, tell: o.Tell}
	if o.Current != nil {
		w.force = bytes.Clone(o.Current)
		w.judged = &content{text: w.force}
	}
	for {
		w.look()
		due := make(chan struct{})
		timer := o.Clock.AfterFunc(o.Interval, func() { close(due) })
		select {
		case <-due:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// content is what a look found.
type content struct {
	text []byte
	err  error
}

func (c *content) same(as *content) bool {
	if as == nil || (c.err == nil) != (as.err == nil) {
		return false
	}
	if c.err != nil {
		return c.err.Error() == as.err.Error()
	}
	return bytes.Equal(c.text, as.text)
}

// watcher belongs to the goroutine that watches.
type watcher struct {
	path string
	take func([]byte) ([]string, error)
	tell func(Event)

	seen   *content // by the last look
	judged *content // the last that was taken or refused
	force  []byte   // the last text that was taken
}

func (w *watcher) look() {
	now := read(w.path)
	settled := now.same(w.seen)
	w.seen = now
	if !settled || now.same(w.judged) {
		return
	}
	w.judged = now
	if now.err != nil {
		w.tell(Event{Path: w.path, Err: now.err})
		return
	}
	if w.force != nil && bytes.Equal(now.text, w.force) {
		w.tell(Event{Path: w.path}) // again, after something that was refused
		return
	}
	warnings, err := w.take(now.text)
	if err == nil {
		w.force = now.text
	}
	w.tell(Event{Path: w.path, Err: err, Warnings: warnings})
}

func read(path string) *content {
	info, err := os.Stat(path)
	if err != nil {
		return &content{err: err}
	}
	if !info.Mode().IsRegular() {
		return &content{err: fmt.Errorf("%s: not a regular file", path)} // to read a pipe might take for ever
	}
	f, err := os.Open(path)
	if err != nil {
		return &content{err: err}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return &content{err: err}
	case len(text) > maxText:
		return &content{err: fmt.Errorf("%s: larger than %d bytes", path, maxText)}
	}
	return &content{text: text}
}

func logEvent(e Event) {
	if e.Err != nil {
		for _, fault := range e.Faults() {
			slog.Error("file not reloaded: what was in force still is", "path", e.Path, "reason", fault)
		}
		return
	}
	slog.Info("file reloaded", "path", e.Path)
	for _, warning := range e.Warnings {
		slog.Warn("file reloaded", "path", e.Path, "warning", warning)
	}
}
