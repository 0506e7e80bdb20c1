package endpointpicker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Config is what a server is made from. Only Scheduler must be set. What Request,
// Computed and Endpoint panic with becomes an answer 500 or a line in the log.
type Config struct {
	// Scheduler decides. Its workers carry as their Endpoint the address that the
	// gateway knows them by, as host:port or as a URL.
	Scheduler *sched.Scheduler
	// BlockSize is the scheduler's, in tokens, default 16.
	BlockSize int64

	// Request makes a request out of the client's headers, with the pseudo headers
	// such as ":path" among them, and of the body, which is nil if the gateway does not
	// show it. An empty ID stands for the client's X-Request-Id, and Allowed is cut down
	// to what the gateway allows. An error is an answer 400 with its text, or as a
	// *RefusalError says. Nil is Request and Computed of Texts.
	Request func(ctx context.Context, header http.Header, body []byte) (*sched.Request, error)
	// Computed is told which rank has computed the prompt of which request: at the
	// first token, or if that is not seen at the end of a good response.
	Computed func(rank sched.RankID, r *sched.Request)
	// Endpoint returns the address to send to, as the gateway knows it, and headers to
	// set on the request. Nil is host and port of the worker's Endpoint.
	Endpoint func(p sched.Placement) (address string, header http.Header)

	// MaxBody is the greatest length of a request's body, default 32 MiB, at most
	// 1 GiB; a longer one is refused.
	MaxBody int64
	// Fallbacks is how many further addresses are named, the cheapest first, for a
	// gateway that tries again. The default is none. A pinned request has none.
	Fallbacks int
	// Hidden are headers that are not passed on to the engines. Nil means those that
	// Texts reads.
	Hidden []string
	// Logger is told what should be rare; nil means slog.Default().
	Logger *slog.Logger
}

const (
	defaultBlock   = 16
	defaultMaxBody = 32 << 20
	greatestBody   = 1 << 30
)

// validate returns every fault at once.
func (c *Config) validate() error {
	var faults []error
	fault := func(broken bool, format string, args ...any) {
		if broken {
			faults = append(faults, fmt.Errorf("endpointpicker: "+format, args...))
		}
	}
	fault(c.Scheduler == nil, "Scheduler must be set")
	fault(c.BlockSize < 0, "BlockSize %d: must not be negative", c.BlockSize)
	fault(c.MaxBody < 0 || c.MaxBody > greatestBody, "MaxBody %d: must be 0 to %d", c.MaxBody, greatestBody)
	fault(c.Fallbacks < 0, "Fallbacks %d: must not be negative", c.Fallbacks)
	return errors.Join(faults...)
}

// Server answers gateways. It is safe for concurrent use; each stream of a gateway is
// served by the goroutine that gRPC has for it, and by a second one while the request
// waits for its turn, which notices that the gateway has given it up.
type Server struct {
	extproc.UnimplementedExternalProcessorServer
	config Config
	health *health.Server
	book   book
	waits  waits
	open   gate
	count  counters

	warnStreamed, warnEstimate sync.Once
}

// counters are written by streams and read by Stats.
type counters struct {
	chosen, refused, transferred, strange, dropped, panics atomic.Int64
	// cut counts streams that ended at the head of a response since one last did not: see
	// sawEnd.
	cut atomic.Int64
}

// New returns a server.
func New(config Config) (*Server, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config.BlockSize = cmp.Or(config.BlockSize, defaultBlock)
	config.MaxBody = cmp.Or(config.MaxBody, defaultMaxBody)
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Request == nil {
		texts := NewTexts(config.BlockSize, 0)
		config.Request = texts.Request
		also := config.Computed
		config.Computed = func(rank sched.RankID, r *sched.Request) {
			texts.Computed(rank, r)
			if also != nil {
				also(rank, r)
			}
		}
	}
	if config.Endpoint == nil {
		config.Endpoint = func(p sched.Placement) (string, http.Header) { return hostPort(p.Endpoint), nil }
	}
	if config.Hidden == nil {
		config.Hidden = []string{HeaderClass, HeaderPriority, HeaderNoQueue}
	}
	s := &Server{config: config, health: health.NewServer()}
	s.book = book{scheduler: config.Scheduler, address: func(p sched.Placement) string {
		address, _ := config.Endpoint(p)
		return address
	}}
	for _, service := range []string{Liveness, Readiness, extproc.ExternalProcessor_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVING)
	}
	return s, nil
}

// Register adds the picker and its health checks to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	extproc.RegisterExternalProcessorServer(r, s)
	healthpb.RegisterHealthServer(r, &checks{s.health, s})
}

// Drain has the health checks say that the picker is not ready, refuses new requests,
// and returns when the streams that are open have ended or ctx has. Requests that wait
// go on to wait. Stop the gRPC server afterwards: a stream that comes meanwhile is told to come
// again, which is more than a refused connection says.
func (s *Server) Drain(ctx context.Context) error {
	for _, service := range []string{"", Readiness, extproc.ExternalProcessor_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(service, healthpb.HealthCheckResponse_NOT_SERVING)
	}
	select {
	case <-s.open.close():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats are figures of a server. Counters start at 0 and only grow.
type Stats struct {
	// Open are the streams now, one for each request that waits or is answered.
	Open int64
	// Chosen counts requests that were given an address, Refused those that were not.
	Chosen, Refused int64
	// Transferred counts requests that another worker served than the one that was
	// booked; Strange those that were served by none of ours.
	Transferred, Strange int64
	// Dropped counts requests whose worker was removed while it answered.
	Dropped int64
	// Panics counts those of callbacks.
	Panics int64
	// Misconfigured says what is wrong with how the gateway is set; empty if nothing is
	// known to be.
	Misconfigured string
}

// Stats returns the figures as they are now.
func (s *Server) Stats() Stats {
	return Stats{
		Open:        s.open.count(),
		Chosen:      s.count.chosen.Load(),
		Refused:     s.count.refused.Load(),
		Transferred: s.count.transferred.Load(), Strange: s.count.strange.Load(),
		Dropped: s.count.dropped.Load(), Panics: s.count.panics.Load(),
		Misconfigured: s.misconfigured(),
	}
}

// A gateway that shows neither the body nor the trailers ends the stream at the head of
// the response; one that shows trailers ends it with the response, which may have none.
// Only the time tells these apart, and only for streams of events, whose head comes
// before their tokens are made.
const (
	atOnce    = 20 * time.Millisecond
	enoughCut = 3 // in a row: there are short responses, and clients leave
)

const misconfigured = "streams end at the head of the response, so that bookings are released too early: " +
	"set response_trailer_mode to SEND, or have the body of the response sent"

func (s *Server) misconfigured() string {
	if s.count.cut.Load() < enoughCut {
		return ""
	}
	return misconfigured
}

// sawEnd notes how long after its head a stream of events was over, where the body is
// not shown.
func (s *Server) sawEnd(after time.Duration) {
	switch {
	case after >= atOnce:
		s.count.cut.Store(0)
	case s.count.cut.Add(1) == enoughCut:
		s.config.Logger.Error("the gateway is misconfigured: " + misconfigured)
	}
}

// ServerOptions are for the gRPC server: they find out within 15 s that a gateway has
// vanished, take whole bodies, and as many streams as a gateway opens. Without
// them the limit for a body that comes in one piece is 4 MiB.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(greatestBody + 1<<20),
		grpc.MaxConcurrentStreams(1 << 20),
	}
}

// gate counts the streams that are open, and can be closed. Unlike a sync.WaitGroup it
// can be waited for no longer than one cares to.
type gate struct {
	mu struct {
		sync.Mutex
		open   int64
		closed bool
		none   chan struct{} // closed when the gate is, and no stream is open
	}
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return false
	}
	g.mu.open++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.open--; g.mu.open == 0 && g.mu.closed {
		close(g.mu.none)
	}
}

func (g *gate) close() (none <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.closed {
		g.mu.closed, g.mu.none = true, make(chan struct{})
		if g.mu.open == 0 {
			close(g.mu.none)
		}
	}
	return g.mu.none
}

func (g *gate) count() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.open
}
