package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// try is one attempt to have a worker answer.
type try struct {
	*exchange
	b         *sched.Booking
	placement sched.Placement
	visit     *fleet.Visit
	target    *url.URL
	failed    error // before the first byte of the answer

	// begun ends what may still end the try before its first byte. It returns false
	// if that has happened.
	begun func() bool
}

// errSilent is why a try ends whose worker has said nothing for too long.
var errSilent = errors.New("no first byte in time")

// try forwards the request to the worker that was booked. An error means that
// nothing was sent to the client yet; an answer that breaks off later is a panic
// with http.ErrAbortHandler, by which the server breaks the client's stream too.
func (x *exchange) try(whole context.Context, b *sched.Booking) error {
	t := &try{exchange: x, b: b, placement: b.Placement()}
	// A timer that has fired may still be about to end the context, in the middle of an
	// answer: then the turn has come too late.
	if x.waiting != nil && !x.waiting.Stop() {
		return errWaited
	}
	x.waiting = nil
	x.tries++
	x.booked = time.Now()
	x.class, x.rank, x.cached = b.Class(), t.placement.Rank, t.placement.CachedTokens
	var err error
	if t.target, err = url.Parse(t.placement.Endpoint); err != nil {
		return err
	}
	t.visit = x.line.Fleet.Visit(t.placement.Rank.Worker)
	ctx, cancel := context.WithCancelCause(whole)
	defer cancel(nil)
	patience := x.p.FirstByteWhole
	if x.prompt.Stream {
		patience = x.p.FirstByte
	}
	late := time.AfterFunc(patience, func() { cancel(errSilent) })
	stay := context.AfterFunc(t.visit.GivenUp(), func() { cancel(context.Cause(t.visit.GivenUp())) })
	t.begun = func() bool { return late.Stop() && stay() }
	defer t.begun()
	forward := httputil.ReverseProxy{
		Rewrite: t.rewrite, ModifyResponse: t.answered, Transport: x.p.transport, BufferPool: &x.p.buffers,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { t.failed = err },
		ErrorLog:     log.New(io.Discard, "", 0), // what went wrong is logged with the request
	}
	forward.ServeHTTP(x.w, x.r.WithContext(ctx))
	switch {
	case t.failed == nil:
		return nil
	case b.Err() != nil && errors.Is(context.Cause(whole), b.Err()):
		x.tried = append(x.tried, t.placement.Rank.Worker)
		return sched.RetryElsewhere(b.Err()) // the worker was removed
	case whole.Err() != nil:
		return whole.Err()
	case ctx.Err() != nil:
		t.failed = context.Cause(ctx)
	}
	return t.elsewhere(t.failed)
}

// elsewhere tells of a failure before the first byte, and has another worker tried.
// To repeat a completion that may have begun is safe: it costs work and changes
// nothing. Only a request that has failed at many workers that were sound until then
// is let go: it may be what they failed of.
func (t *try) elsewhere(err error) error {
	var failure *backendError
	if !errors.As(err, &failure) {
		failure = &backendError{endpoint: t.placement.Endpoint, cause: err}
	}
	worker := t.placement.Rank.Worker
	t.tried = append(t.tried, worker)
	if after := failure.retryAfter; after > 0 && (t.after == 0 || after < t.after) {
		t.after = after
	}
	if sound := t.visit.Failed(failure, failure.retryAfter); sound && failure.suspicious() {
		t.faults++
	}
	if t.faults >= t.p.Tries {
		return failure
	}
	t.p.Log.Warn("trying elsewhere", "id", t.id, "worker", t.placement.Rank.String(), "reason", failure)
	return sched.RetryElsewhere(failure)
}

// rewrite makes the request to the worker out of the client's.
func (t *try) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(t.target)
	out := r.Out
	// A fresh copy of the body for each try, also for the transport's own, which it
	// makes when an idle connection turns out to be dead.
	out.Body = io.NopCloser(bytes.NewReader(t.body))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(t.body)), nil }
	out.ContentLength, out.TransferEncoding, out.Trailer = int64(len(t.body)), nil, nil

	for name := range out.Header {
		if private(name) {
			delete(out.Header, name)
		}
	}
	// The tokens are counted on the way, and nothing else than HTTP is spoken.
	for _, name := range []string{"Accept-Encoding", "Expect", "Upgrade", "Connection", "X-Data-Parallel-Rank"} {
		out.Header.Del(name)
	}
	out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	r.SetXForwarded()
	out.Header.Set("X-Request-Id", t.id)
	if w, err := t.b.Worker(); err == nil && w.Ranks > 1 {
		out.Header.Set("X-Data-Parallel-Rank", strconv.FormatUint(uint64(t.placement.Rank.Rank), 10))
	}
}

// answered looks at the head of the worker's answer. An error from here has the
// answer dropped, and is the try's failure.
func (t *try) answered(response *http.Response) error {
	switch status := response.StatusCode; {
	case status == http.StatusNotImplemented: // it is well, and will never do that
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests,
		// The request asked for no other protocol; and what comes then is no body that the
		// end of the context would close.
		status == http.StatusSwitchingProtocols:
		return newBackendError(t.placement.Endpoint, response)
	}
	// Nothing is sent to the client before there is something to send: until then
	// another worker can be tried.
	body := bufio.NewReader(response.Body)
	switch _, err := body.Peek(1); {
	case err == io.EOF && openEnded(response) && response.StatusCode/100 == 2:
		return io.ErrUnexpectedEOF
	case err != nil && err != io.EOF:
		return err
	}
	if !t.begun() {
		ctx := response.Request.Context()
		<-ctx.Done() // whatever ends the try has begun to, and may not be there yet
		return context.Cause(ctx)
	}
	t.visit.Served()
	t.status = response.StatusCode
	for name := range response.Header {
		if private(name) {
			delete(response.Header, name)
		}
	}
	h := response.Header
	h.Set("X-Request-Id", t.id)
	h.Set(HeaderClass, t.class)
	h.Set(HeaderWorker, t.placement.Rank.String())
	h.Set(HeaderCached, strconv.FormatInt(t.placement.CachedTokens, 10))
	h.Set(HeaderTries, strconv.Itoa(t.tries))
	if t.p.closing.Load() {
		h.Set("Connection", "close")
	}
	response.Body = newAnswer(t, response, body)
	return nil
}
