// Package trace reads recorded workloads: Mooncake JSON lines and Azure LLM
// CSV, told apart by what is in the file. It is pure: it reads from an
// io.Reader, one line at a time, and opens nothing.
//
// Both kinds hold one request a line. Lines end in LF or CRLF, the last may have
// no end; a byte order mark at the start and lines of white space alone are
// passed over.
package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/workload"
)

// MooncakeBlock is the block size of Mooncake traces, in tokens.
const MooncakeBlock = 512

// maxTokens bounds a length, so that sums and times derived from it are safe.
const maxTokens = 1_000_000_000

// Kind is the form of a trace.
type Kind int

// The kinds of traces.
const (
	Mooncake Kind = iota + 1
	Azure
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Mooncake:
		return "Mooncake JSONL"
	case Azure:
		return "Azure LLM CSV"
	default:
		return "unknown"
	}
}

// Block returns the block size the kind is bound to, 0 for any.
func (k Kind) Block() int64 {
	if k == Mooncake {
		return MooncakeBlock
	}
	return 0
}

// Errors about a file as a whole.
var (
	ErrEmpty      = errors.New("the file is empty")
	ErrNoRequests = errors.New("no request in the file")
	ErrUnknown    = errors.New("neither a Mooncake trace (JSON objects, one a line) nor an Azure LLM trace (a CSV header with TIMESTAMP, ContextTokens, GeneratedTokens)")
)

// LineError is the error about one line.
type LineError struct {
	File   string
	Line   int // from 1
	Reason string
	// Header is set when the line is the header, without which nothing can be
	// read on.
	Header bool
}

// Error returns file, line and reason.
func (e *LineError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason) }

// entry is a request as it stands in a line, its time absolute.
type entry struct {
	at       int64 // nanoseconds from whatever the trace counts from
	isl, osl int64
	blocks   []uint64
}

// parser reads the lines of one kind; reason is empty if the line is good.
type parser interface {
	parse(line []byte) (e entry, reason string)
}

// Reader reads the requests of a trace.
type Reader struct {
	name     string
	kind     Kind
	lines    *lines
	parser   parser
	first    []byte // a line read for recognition and not yet parsed
	unsorted bool

	began      bool
	base, last int64 // times of the first good line and of the last
	good       int
}

// Option changes how a Reader reads.
type Option func(*Reader)

// Unsorted accepts lines out of the order of time. Offsets are from the first
// line, and so may be negative.
func Unsorted() Option { return func(r *Reader) { r.unsorted = true } }

// NewReader recognises the trace in src, whose name is used in errors.
func NewReader(src io.Reader, name string, options ...Option) (*Reader, error) {
	r := &Reader{name: name, lines: newLines(src)}
	for _, o := range options {
		o(r)
	}
	line, err := r.nextLine()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, ErrEmpty)
	}
	if err != nil {
		return nil, err
	}
	if line[0] == '{' {
		r.kind, r.parser, r.first = Mooncake, mooncake{}, line
		return r, nil
	}
	columns, known, reason := azureHeader(line)
	switch {
	case !known:
		return nil, fmt.Errorf("%s:%d: %w", name, r.lines.number, ErrUnknown)
	case reason != "":
		return nil, &LineError{File: name, Line: r.lines.number, Reason: reason, Header: true}
	}
	r.kind, r.parser = Azure, columns
	return r, nil
}

// Kind returns the form of the trace.
func (r *Reader) Kind() Kind { return r.kind }

// Start returns the time of the first good line; only Azure traces tell one.
func (r *Reader) Start() time.Time {
	if r.kind != Azure || !r.began {
		return time.Time{}
	}
	return time.Unix(0, r.base).UTC()
}

// Read returns the next request, At counted from the first good line, or io.EOF.
// After a *LineError it may be called again and reads on with the next line.
func (r *Reader) Read() (workload.Request, error) {
	line := r.first
	r.first = nil
	if line == nil {
		var err error
		if line, err = r.nextLine(); err != nil {
			if errors.Is(err, io.EOF) && r.good == 0 {
				err = fmt.Errorf("%s: %w", r.name, ErrNoRequests)
			}
			return workload.Request{}, err
		}
	}
	e, reason := r.parser.parse(line)
	if reason == "" {
		reason = r.place(e.at)
	}
	if reason != "" {
		return workload.Request{}, &LineError{File: r.name, Line: r.lines.number, Reason: reason}
	}
	r.good++
	return workload.Request{
		At:     time.Duration(e.at - r.base),
		ISL:    e.isl,
		OSL:    e.osl,
		Blocks: e.blocks,
	}, nil
}

// place takes the time of a line that is good in itself, or says why not.
func (r *Reader) place(at int64) string {
	if !r.began {
		r.began, r.base, r.last = true, at, at
		return ""
	}
	if at < r.last && !r.unsorted {
		return fmt.Sprintf("time goes back: %v before the line above it", time.Duration(r.last-at))
	}
	// Both are valid times, but their difference need not fit.
	if d := float64(at) - float64(r.base); math.Abs(d) > float64(math.MaxInt64/2) {
		return "time is too far from that of the first line"
	}
	r.last = at
	return ""
}

// nextLine returns the next line that is not blank, without the white space
// around it. The line is good until the next call.
func (r *Reader) nextLine() ([]byte, error) {
	for {
		line, err := r.lines.next()
		if errors.Is(err, errTooLong) {
			return nil, &LineError{File: r.name, Line: r.lines.number, Reason: err.Error()}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}
