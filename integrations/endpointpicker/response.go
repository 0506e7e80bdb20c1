package endpointpicker

import (
	"errors"
	"mime"
	"strconv"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// answer is what was seen of the response.
type answer struct {
	begun, ended bool
	at           time.Time // its head came
	good         bool      // 2xx
	stream       bool      // server-sent events
	events       events
	tokens       int64
	first        bool // a token has come
	told         bool // Config.Computed was
}

func (x *stream) responseHeaders(h *extproc.HttpHeaders, served string) error {
	a := &x.answer
	a.begun, a.at = true, time.Now()
	code := 0
	for _, header := range h.GetHeaders().GetHeaders() {
		switch header.GetKey() {
		case ":status":
			code, _ = strconv.Atoi(valueOf(header))
		case "content-type":
			kind, _, _ := mime.ParseMediaType(valueOf(header))
			a.stream = kind == "text/event-stream"
		}
	}
	a.good = code/100 == 2
	x.served(served)
	if code >= 500 {
		x.release()
	}
	if a.good && a.stream && x.response == none && x.asked != nil && x.asked.ExpectedPrefill == nil {
		x.s.warnEstimate.Do(func() {
			x.s.config.Logger.Warn("first tokens are not seen, as the body of the response is not sent: " +
				"without sched.WithPrefillEstimator or Request.ExpectedPrefill the load of a prompt stays to the end")
		})
	}
	if h.GetEndOfStream() {
		x.over()
	}
	return x.send(responseHeaders())
}

// served moves the booking to the endpoint that served, if that is not the chosen one.
func (x *stream) served(address string) {
	if address == "" || address == x.address || x.booking == nil || x.freed {
		return
	}
	if found := x.s.book.find(address); len(found) > 0 {
		switch _, err := x.booking.Transfer(found[0]); {
		case err == nil:
			x.s.count.transferred.Add(1)
			return
		case !errors.Is(err, sched.ErrNoEndpoints):
			return // it is there already, or the booking has ended
		}
	}
	x.s.count.strange.Add(1)
	x.s.config.Logger.Warn("served by an address that is none of ours", "id", x.asked.ID, "address", address)
	x.release()
}

func (x *stream) responseBody(b *extproc.HttpBody) error {
	a := &x.answer
	if a.ended && x.response == duplex {
		return nil // repeated
	}
	if a.good && a.stream {
		x.passed(b.GetBody())
	}
	if b.GetEndOfStream() {
		x.over()
	}
	if x.response != duplex {
		return x.send(responseBody(nil))
	}
	return pieces(b.GetBody(), b.GetEndOfStream(), func(r *extproc.CommonResponse) error { return x.send(responseBody(r)) })
}

func (x *stream) responseTrailers() error {
	if x.response == none {
		x.s.count.cut.Store(0) // a gateway that sends trailers is configured well
	}
	x.over()
	return x.send(responseTrailers())
}

// passed counts tokens: each event of a stream as one.
func (x *stream) passed(piece []byte) {
	a := &x.answer
	if x.booking == nil || x.freed {
		return
	}
	seen := a.events.count(piece)
	if a.events.any && !a.first {
		a.first = true
		_ = x.booking.PrefillDone()
		x.computed()
	}
	before := a.tokens / x.s.config.BlockSize
	a.tokens += seen
	for range a.tokens/x.s.config.BlockSize - before {
		_ = x.booking.AddOutputBlock()
	}
}

// over releases the booking before the gateway, and so the client, can know that this
// was the end: what it asks for next finds the place free.
func (x *stream) over() {
	x.answer.ended = true
	x.computed()
	x.release()
}

// computed calls the hook that says where the prompt was computed.
func (x *stream) computed() {
	a := &x.answer
	if a.told || !a.good || x.booking == nil || x.freed || x.booking.Err() != nil || x.s.config.Computed == nil {
		return
	}
	a.told = true
	defer func() {
		if p := recover(); p != nil { // the response goes on
			x.s.panicked(p)
		}
	}()
	x.s.config.Computed(x.booking.Placement().Rank, x.asked)
}
