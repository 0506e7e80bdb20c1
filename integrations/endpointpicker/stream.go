package endpointpicker

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// stream is one request and its response. It belongs to the goroutine that serves it;
// while the request waits for its turn, a second one receives the next message.
//
//	headers, body to its end → Schedule → choice → response: head, body, end → Release
//
// The deferred release and the stream's context are all that ends a booking: a stream
// that breaks off, at whatever point, needs nothing else.
type stream struct {
	s    *Server
	grpc extproc.ExternalProcessor_ProcessServer
	next chan received // what the second goroutine received; nil if there was none

	// What the gateway said in its first message.
	begun             bool
	request, response mode

	header http.Header // of the client
	body   []byte
	read   bool // the body has come to its end
	subset []string
	hinted bool

	decided bool // an address was chosen, or the gateway gave up before
	refused bool // the client has its answer, and nothing more comes
	asked   *sched.Request
	booking *sched.Booking // nil if there is none
	address string         // where it was sent first
	freed   bool           // the booking was released

	answer answer
}

type received struct {
	message *extproc.ProcessingRequest
	err     error
}

// Process serves one stream.
func (s *Server) Process(g extproc.ExternalProcessor_ProcessServer) (err error) {
	x := &stream{s: s, grpc: g}
	if !s.open.enter() {
		if _, err := g.Recv(); err != nil {
			return nil
		}
		return x.refuse(errDraining)
	}
	defer s.open.leave()
	defer x.end()
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
			err = x.refuse(errInternal)
		}
	}()
	for !x.refused {
		m, err := x.receive()
		if err == nil {
			err = x.handle(m)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), g.Context().Err() != nil:
			return nil // the end of the response, or of the client: x.end looks at which
		default:
			return err
		}
	}
	return nil
}

// panicked notes a panic of a callback.
func (s *Server) panicked(p any) {
	s.count.panics.Add(1)
	s.config.Logger.Error("a callback panicked", "panic", p, "stack", string(debug.Stack()))
}

// end lets go of what the stream has. Where the body is not shown the end of the stream
// is that of the response, unless it has trailers.
func (x *stream) end() {
	if a := &x.answer; x.response == none && a.begun && !a.ended && x.booking != nil {
		x.computed()
		if a.good && a.stream {
			x.s.sawEnd(time.Since(a.at))
		}
	}
	x.release()
}

func (x *stream) release() {
	if x.booking == nil || x.freed {
		return
	}
	x.freed = true
	_ = x.booking.Release() // what ended it before is told below
	if err := x.booking.Err(); err != nil {
		x.s.count.dropped.Add(1)
		x.s.config.Logger.Warn("the booking ended before the response", "id", x.asked.ID, "rank", x.booking.Placement().Rank.String(), "reason", err)
	}
}

func (x *stream) receive() (*extproc.ProcessingRequest, error) {
	if x.next == nil {
		return x.grpc.Recv()
	}
	r := <-x.next
	x.next = nil
	return r.message, r.err
}

func (x *stream) send(r *extproc.ProcessingResponse) error { return x.grpc.Send(r) }

// refuse answers the client. The gateway expects nothing after that.
func (x *stream) refuse(r *RefusalError) error {
	x.refused = true
	x.s.count.refused.Add(1)
	return x.send(r.answer())
}

// handle takes one message of the gateway's.
func (x *stream) handle(m *extproc.ProcessingRequest) error {
	if !x.begun {
		x.begin(m)
	}
	if m.GetObservabilityMode() {
		return status.Error(codes.FailedPrecondition, "observability_mode: a picker that is not heard can choose nothing")
	}
	if !x.hinted {
		x.subset, x.hinted = subset(m.GetMetadataContext())
	}
	switch r := m.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return x.requestHeaders(r.RequestHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		return x.requestBody(r.RequestBody)
	case *extproc.ProcessingRequest_RequestTrailers:
		return x.requestTrailers()
	case *extproc.ProcessingRequest_ResponseHeaders:
		return x.responseHeaders(r.ResponseHeaders, servedBy(m.GetMetadataContext()))
	case *extproc.ProcessingRequest_ResponseBody:
		return x.responseBody(r.ResponseBody)
	case *extproc.ProcessingRequest_ResponseTrailers:
		return x.responseTrailers()
	default:
		return status.Errorf(codes.InvalidArgument, "a message of a kind that is not known: %T", r)
	}
}

// begin notes how the bodies are sent. A gateway that does not say sends them as the
// protocol of endpoint pickers demands.
func (x *stream) begin(m *extproc.ProcessingRequest) {
	x.begun, x.request, x.response = true, duplex, duplex
	if config := m.GetProtocolConfig(); config != nil {
		x.request, x.response = config.GetRequestBodyMode(), config.GetResponseBodyMode()
	}
}

func (x *stream) requestHeaders(h *extproc.HttpHeaders) error {
	if x.header != nil {
		return status.Error(codes.InvalidArgument, "request headers came twice")
	}
	x.header = fromMap(h.GetHeaders())
	switch {
	case h.GetEndOfStream():
		x.read = true
	case x.request == duplex:
		return nil // answered when the choice is made
	case x.request == buffered, x.request == bufferedPartial:
		return x.send(requestHeaders(nil))
	default:
		// The body is not shown, or not before the headers have gone on.
		x.s.warnStreamed.Do(func() {
			x.s.config.Logger.Warn("requests are placed without a look at their bodies: set request_body_mode to FULL_DUPLEX_STREAMED or BUFFERED",
				"request_body_mode", x.request.String())
		})
	}
	c, err := x.choose()
	if c == nil {
		return err
	}
	return x.send(x.chosen(c, requestHeaders))
}

func (x *stream) requestBody(b *extproc.HttpBody) error {
	switch {
	case x.header == nil:
		return status.Error(codes.FailedPrecondition, "the body came without headers: set request_header_mode to SEND")
	case x.decided && x.request == duplex:
		return nil // Envoy repeats the last piece of a long body at times
	case x.decided:
		return x.send(requestBody(nil))
	case int64(len(x.body))+int64(len(b.GetBody())) > x.s.config.MaxBody,
		// It holds as much as the gateway could keep.
		x.request == bufferedPartial && !b.GetEndOfStream():
		return x.refuse(tooLarge(x.s.config.MaxBody))
	}
	x.body = append(x.body, b.GetBody()...)
	if !b.GetEndOfStream() && x.request == duplex {
		return nil
	}
	return x.bodyEnded(b.GetEndOfStream())
}

// bodyEnded chooses, now that the body has come. last tells that nothing comes after
// it, such as trailers.
func (x *stream) bodyEnded(last bool) error {
	x.read = true
	c, err := x.choose()
	if c == nil {
		return err
	}
	if x.request != duplex {
		return x.send(x.chosen(c, requestBody))
	}
	if err := x.send(x.chosen(c, requestHeaders)); err != nil {
		return err
	}
	body := x.body
	x.body = nil // a response may take minutes
	if len(body) == 0 && !last {
		return nil
	}
	return pieces(body, last, func(r *extproc.CommonResponse) error { return x.send(requestBody(r)) })
}

func (x *stream) chosen(c *choice, kind func(*extproc.CommonResponse) *extproc.ProcessingResponse) *extproc.ProcessingResponse {
	x.s.count.chosen.Add(1)
	answer := kind(c.common(x.s.config.Hidden))
	answer.DynamicMetadata = c.metadata()
	return answer
}

func (x *stream) requestTrailers() error {
	if !x.decided {
		if x.header == nil || x.request != duplex {
			return x.refuse(errNoBody)
		}
		if err := x.bodyEnded(false); err != nil || x.refused || x.booking == nil {
			return err
		}
	}
	return x.send(requestTrailers())
}

// choose has the scheduler book a rank. It returns nil if there is no choice to
// answer with: the request was refused, or the gateway has given it up.
func (x *stream) choose() (*choice, error) {
	x.decided = true
	var body []byte
	if x.read && len(x.body) > 0 {
		body = x.body
	}
	r, err := x.s.config.Request(x.grpc.Context(), x.header, body)
	switch {
	case err != nil:
		return nil, x.refuse(invalid(err))
	case r == nil:
		x.s.config.Logger.Error("Config.Request returned neither a request nor an error")
		return nil, x.refuse(errInternal)
	}
	if x.hinted {
		allowed := x.s.workers(x.subset, r.Allowed)
		if len(allowed) == 0 {
			return nil, x.refuse(errSubset)
		}
		r.Allowed = allowed
	}
	x.asked = r
	x.booking, err = x.schedule(r)
	switch {
	case x.grpc.Context().Err() != nil:
		return nil, x.grpc.Context().Err()
	case errors.Is(err, errGivenUp):
		return nil, nil
	case err != nil:
		return nil, x.refuse(x.s.refusal(err))
	}
	return x.choice()
}

// choice says where the booking is, and where else the request may go.
func (x *stream) choice() (*choice, error) {
	c := &choice{}
	var address string
	address, c.header = x.s.config.Endpoint(x.booking.Placement())
	if address == "" {
		x.s.config.Logger.Error("a worker has no address", "rank", x.booking.Placement().Rank.String())
		return nil, x.refuse(errInternal)
	}
	x.address = address
	c.endpoints = append([]string{address}, x.fallbacks()...)
	return c, nil
}

// fallbacks are the addresses where the request would go next, the cheapest first.
func (x *stream) fallbacks() (addresses []string) {
	if x.asked.Pin != nil {
		return nil
	}
	r := *x.asked
	r.Excluded = slices.Clone(r.Excluded) // the callback's is not ours to write to
	last := x.booking.Placement().Rank.Worker
	for range x.s.config.Fallbacks {
		r.Excluded = append(r.Excluded, last)
		p, err := x.s.config.Scheduler.Select(x.grpc.Context(), &r)
		if err != nil {
			break // there are no more
		}
		if address, _ := x.s.config.Endpoint(p); address != "" {
			addresses = append(addresses, address)
		}
		last = p.Rank.Worker
	}
	return addresses
}

// errGivenUp is why a request stops waiting whose gateway has gone on without it.
var errGivenUp = errors.New("the gateway has given the request up")

// maxID is the length of the longest id that a client may choose.
const maxID = 128

// schedule waits for a booking. The stream's context ends with most of what can
// happen to the client; a gateway may also close its side, or have answered by itself.
func (x *stream) schedule(r *sched.Request) (*sched.Booking, error) {
	ctx, cancel := context.WithCancelCause(x.grpc.Context())
	defer cancel(nil)
	next := make(chan received, 1)
	x.next = next
	go func() {
		m, err := x.grpc.Recv()
		if err != nil || m.GetResponseHeaders() != nil {
			cancel(errGivenUp)
		}
		next <- received{m, err}
	}()
	if r.ID == "" {
		r.ID = x.header.Get("X-Request-Id")
	}
	if r.ID == "" || len(r.ID) > maxID {
		r.ID = rand.Text()
	}
	wanted := r.ID
	for {
		b, err := x.s.config.Scheduler.Schedule(ctx, r)
		switch {
		case errors.Is(err, sched.ErrDuplicate): // clients that try again repeat their id
			r.ID = wanted + "~" + rand.Text()[:8]
		case err != nil && errors.Is(context.Cause(ctx), errGivenUp):
			return nil, errGivenUp
		default:
			return b, err
		}
	}
}

// workers returns those of the addresses' workers that are allowed; nil for allowed
// means all.
func (s *Server) workers(addresses []string, allowed []uint64) []uint64 {
	var found []uint64
	for _, rank := range s.book.find(addresses...) {
		if !slices.Contains(found, rank.Worker) && (allowed == nil || slices.Contains(allowed, rank.Worker)) {
			found = append(found, rank.Worker)
		}
	}
	return found
}
