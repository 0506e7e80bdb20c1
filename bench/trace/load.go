package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/workload"
)

// keptErrors bounds how many errors about lines a Trace keeps.
const keptErrors = 5

// Options says how Load treats what it finds.
type Options struct {
	// SkipBad passes over bad lines, counting them, instead of failing.
	SkipBad bool
	// Sort accepts lines out of the order of time and sorts them, keeping the
	// order of equals.
	Sort bool
	// Limit ends the reading after so many requests; 0 is no limit.
	Limit int
}

// Trace is a trace that was read to the end.
type Trace struct {
	Kind     Kind
	Start    time.Time // of an Azure trace
	Requests []workload.Request
	// Bad counts the lines passed over; Errors are about the first of them.
	Bad    int
	Errors []error
}

// Load reads a whole trace. The first arrival is at 0.
func Load(src io.Reader, name string, o Options) (*Trace, error) {
	var options []Option
	if o.Sort {
		options = append(options, Unsorted())
	}
	r, err := NewReader(src, name, options...)
	if err != nil {
		return nil, err
	}
	t := &Trace{Kind: r.Kind()}
	for o.Limit == 0 || len(t.Requests) < o.Limit {
		request, err := r.Read()
		var bad *LineError
		switch {
		case err == nil:
			t.Requests = append(t.Requests, request)
		case errors.Is(err, io.EOF):
			return t.finish(r), nil
		case errors.As(err, &bad) && o.SkipBad:
			t.Bad++
			if len(t.Errors) < keptErrors {
				t.Errors = append(t.Errors, err)
			}
		case errors.Is(err, ErrNoRequests) && t.Bad > 0:
			return nil, fmt.Errorf("%w: each of its %d lines is bad, the first: %w", err, t.Bad, t.Errors[0])
		default:
			return nil, err
		}
	}
	return t.finish(r), nil
}

func (t *Trace) finish(r *Reader) *Trace {
	t.Start = r.Start()
	if len(t.Requests) == 0 {
		return t
	}
	slices.SortStableFunc(t.Requests, func(a, b workload.Request) int { return cmp.Compare(a.At, b.At) })
	first := t.Requests[0].At
	if !t.Start.IsZero() {
		t.Start = t.Start.Add(first)
	}
	for i := range t.Requests {
		t.Requests[i].At -= first
	}
	return t
}
