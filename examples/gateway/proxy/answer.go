package proxy

import (
	"bufio"
	"io"
	"mime"
	"net/http"
	"time"
)

// answer is the body of a worker's answer on its way to the client. As it passes,
// the booking is told what becomes of the request.
type answer struct {
	t       *try
	from    *bufio.Reader
	body    io.Closer
	events  *events // nil for an answer in one piece
	usage   usage
	ok      bool   // 2xx
	open    bool   // only the end of the connection ends it
	parting []byte // last words, after the worker has failed
	failed  error
}

func newAnswer(t *try, response *http.Response, from *bufio.Reader) *answer {
	a := &answer{t: t, from: from, body: response.Body, ok: response.StatusCode/100 == 2, open: openEnded(response)}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "text/event-stream" {
		a.events = &events{}
	}
	return a
}

// openEnded tells whether HTTP says nothing of where the answer ends, as in HTTP/1.0:
// then a worker that dies looks like one that has finished.
func openEnded(r *http.Response) bool {
	return r.ContentLength < 0 && len(r.TransferEncoding) == 0 && r.ProtoMajor == 1
}

// Read passes on what came.
func (a *answer) Read(to []byte) (int, error) {
	if a.failed != nil {
		n := copy(to, a.parting)
		a.parting = a.parting[n:]
		if len(a.parting) == 0 {
			return n, a.failed
		}
		return n, nil
	}
	n, err := a.from.Read(to)
	if n > 0 {
		a.t.visit.Heard()
	}
	if a.ok && n > 0 {
		a.passed(to[:n])
		a.usage.passed(to[:n])
	}
	switch {
	case err == io.EOF && a.ok && a.open && a.events != nil && !a.events.ended():
		return n, a.broken(io.ErrUnexpectedEOF)
	case err == io.EOF:
		a.told()
		// Released before the client can know that this was the end, so that what
		// it asks for next finds the place free.
		_ = a.t.b.Release()
	case err != nil:
		return n, a.broken(err)
	}
	return n, err
}

// Close closes the worker's answer.
func (a *answer) Close() error { return a.body.Close() }

// passed counts tokens: each event of a stream as one.
func (a *answer) passed(piece []byte) {
	seen := int64(1)
	if a.events != nil {
		seen = a.events.count(piece)
	}
	if seen == 0 {
		return
	}
	if a.t.first.IsZero() {
		a.t.first = time.Now()
		_ = a.t.b.PrefillDone()
		if a.t.b.Err() == nil {
			a.t.line.Cache.Computed(a.t.placement.Rank, a.t.prompt.Blocks)
		}
	}
	if a.events == nil {
		return
	}
	before := a.t.tokens / a.t.p.BlockSize
	a.t.tokens += seen
	for range a.t.tokens/a.t.p.BlockSize - before {
		_ = a.t.b.AddOutputBlock()
	}
}

// told takes over what the engine says of its cache.
func (a *answer) told() {
	if cached, said, told := a.usage.cached(); a.ok && said && a.t.b.Err() == nil {
		a.t.line.Cache.Told(a.t.placement.Rank, a.t.placement.CachedTokens/a.t.p.BlockSize, told, cached)
	}
}

// broken notes that the worker's answer broke off. The reader of an event stream
// is told why by a last event, as clients of the OpenAI API expect it; then its
// stream breaks too. What is read next is that event, or nothing.
func (a *answer) broken(err error) error {
	gone := a.t.r.Context().Err()
	switch {
	case gone != nil:
		a.failed = gone
		a.t.status = statusClientGone
	case a.t.b.Err() != nil:
		a.failed = &backendError{endpoint: a.t.placement.Endpoint, cause: a.t.b.Err()}
	default:
		a.failed = &backendError{endpoint: a.t.placement.Endpoint, cause: err}
	}
	a.t.problem = a.failed
	if a.events == nil || gone != nil {
		return a.failed
	}
	f := refusalFor(a.failed)
	f.message = "the answer broke off"
	a.parting = append(append([]byte("\n\ndata: "), f.body()...), "\n\n"...)
	return nil
}
