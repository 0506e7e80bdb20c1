// Package proxy is the HTTP side of the gateway: it takes OpenAI-style requests,
// has the scheduler say when and where each may run, and passes it on.
//
//	read body ─ Do: wait for the turn, book ─ forward ─ first token: PrefillDone ─ a block of tokens: AddOutputBlock ─ end: Release
//	                 ▲                            │ failed before the first byte
//	                 └────────────────────────────┘ without the workers already tried
//
// The forwarding itself is httputil.ReverseProxy's: hop-by-hop headers, flushing of
// event streams and the many small rules of HTTP are there. Each try gets one of
// its own, as that is only a struct, and its hooks can then be methods of the try.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
)

// The request headers that steer the scheduling. They are not passed on.
const (
	// HeaderClass names the policy class or family. In an answer it names the class
	// that the request was admitted in; an unknown name is the default family's.
	HeaderClass = "X-Turnstile-Class"
	// HeaderPriority is a whole number; higher goes first within the class.
	HeaderPriority = "X-Turnstile-Priority"
	// HeaderMaxWait is how long the request may wait for its turn, such as 500ms. It
	// is a bound, and does not move the request forward.
	HeaderMaxWait = "X-Turnstile-Max-Wait"
	// HeaderTimeout is how long the whole request may take, such as 30s; the
	// gateway's own timeout holds as well.
	HeaderTimeout = "X-Turnstile-Timeout"
	// HeaderNoQueue, if true, refuses a request that would have to wait.
	HeaderNoQueue = "X-Turnstile-No-Queue"
)

// The response headers that say what was decided.
const (
	// HeaderWorker is the rank that served the request, as worker/rank.
	HeaderWorker = "X-Turnstile-Worker"
	// HeaderCached is how many prompt tokens were expected in its cache.
	HeaderCached = "X-Turnstile-Cached-Tokens"
	// HeaderTries is how many workers were tried.
	HeaderTries = "X-Turnstile-Tries"
)

// Config is what a proxy is made from. The zero value of a limit means its
// default.
type Config struct {
	Lines  Lines
	Reader *prompt.Reader
	// BlockSize is the scheduler's, in tokens.
	BlockSize int64
	// Timeout bounds a request from its first byte to its last, default 10 min.
	Timeout time.Duration
	// BodyTimeout bounds the reading of a request's body, default 30 s.
	BodyTimeout time.Duration
	// MaxBody is the greatest length of a request's body, default 32 MiB.
	MaxBody int64
	// FirstByte bounds the wait for the first byte of a stream, default 1 min, and
	// FirstByteWhole that of a plain answer, which shows none until it is whole,
	// default half of Timeout.
	FirstByte, FirstByteWhole time.Duration
	// Tries is at how many sound workers a request may fail, default 4.
	Tries int
	// KeepAlive is the time after which a comment line is sent on a stream that has not
	// begun, and again; 0 for none.
	KeepAlive time.Duration
	// Count receives what became of each request, if it is not nil.
	Count func(Outcome)
	// Log is told of each request; nil means slog.Default().
	Log *slog.Logger
}

// Proxy is the http.Handler of the API.
type Proxy struct {
	Config
	mux       *http.ServeMux
	transport *http.Transport
	buffers   buffers
	flight    flight
	closing   atomic.Bool
}

// New returns a proxy. Close its idle connections with CloseIdle when done.
func New(config Config) *Proxy {
	config.Timeout = cmp.Or(config.Timeout, 10*time.Minute)
	config.BodyTimeout = cmp.Or(config.BodyTimeout, 30*time.Second)
	config.MaxBody = cmp.Or(config.MaxBody, 32<<20)
	config.FirstByte = cmp.Or(config.FirstByte, time.Minute)
	config.FirstByteWhole = cmp.Or(config.FirstByteWhole, config.Timeout/2)
	config.Tries = cmp.Or(config.Tries, 4)
	if config.Log == nil {
		config.Log = slog.Default()
	}
	p := &Proxy{Config: config, mux: http.NewServeMux(), transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		// A pool of engines behind one proxy: keep what was opened for a burst.
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
		// Tokens are counted on the way, so they must come as they are.
		DisableCompression: true,
	}}
	p.routes()
	return p
}

// Handle adds a handler beside the API, such as a status page.
func (p *Proxy) Handle(pattern string, h http.Handler) { p.mux.Handle(pattern, h) }

// ServeHTTP serves the API.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// Shutdown has /healthz say so, refuses new requests, lets the waiters have their turn,
// and returns when all answers are finished or ctx has ended. Keep the server listening
// until then: a request that comes meanwhile is told to go elsewhere, which is more than a refused
// connection says.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.closing.Store(true)
	var wg sync.WaitGroup
	lines := p.Lines.Lines()
	errs := make([]error, len(lines))
	for i, line := range lines {
		wg.Go(func() { errs[i] = line.Scheduler.Shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(errors.Join(errs...), p.flight.landed(ctx))
}

// Serving returns how many requests are being served.
func (p *Proxy) Serving() int { return p.flight.count() }

// CloseIdle closes the connections to backends that are not in use.
func (p *Proxy) CloseIdle() { p.transport.CloseIdleConnections() }

// health tells a load balancer whether to send requests here.
func (p *Proxy) health(w http.ResponseWriter, r *http.Request) {
	switch {
	case p.closing.Load():
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
	case len(p.up()) == 0:
		http.Error(w, "no backend is up", http.StatusServiceUnavailable)
	default:
		p.alive(w, r)
	}
}

// alive tells a supervisor, which would restart the process, that it runs: to do so would not
// bring a backend back.
func (p *Proxy) alive(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// buffers lends the copy buffers of the reverse proxies.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return buffer[:]
	}
	return new([bufferSize]byte)[:]
}

func (b *buffers) Put(buffer []byte) { b.pool.Put((*[bufferSize]byte)(buffer)) }
