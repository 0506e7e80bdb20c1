package proxy_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// oneAtATime lets a rank compute one prompt at a time, and one request wait for
// each worker.
const oneAtATime = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1}
`

// rig is a gateway with real connections on both sides. The workers are numbered
// from 1 in the order of the backends, and among equals the lowest is chosen.
type rig struct {
	t      *testing.T
	s      *sched.Scheduler
	fleet  *fleet.Fleet
	proxy  *proxy.Proxy
	server *httptest.Server
	client *http.Client
	checks checks
}

type setup struct {
	policy   string
	config   proxy.Config
	backends []fleet.Backend
	aside    time.Duration
	fleetLog *slog.Logger
}

func newRig(t *testing.T, set setup) *rig {
	t.Helper()
	file, err := policy.Parse([]byte(set.policy))
	require.NoError(t, err)
	s, err := sched.New(sched.Config{BlockSize: 16, Policy: file, Ties: selector.TiesLowest})
	require.NoError(t, err)
	r := &rig{t: t, s: s}
	quiet := slog.New(slog.DiscardHandler)
	cache := prompt.NewCache(1024)
	r.fleet = fleet.New(s, fleet.Config{
		Log: cmp.Or(set.fleetLog, quiet), Lost: cache.Forget, Transport: &r.checks,
		Aside: set.aside, AsideMax: max(set.aside, time.Minute),
	})
	require.NoError(t, r.fleet.Set(set.backends))
	c := set.config
	c.Lines, c.BlockSize, c.Log = &proxy.Line{Scheduler: s, Fleet: r.fleet, Cache: cache}, 16, cmp.Or(c.Log, quiet)
	c.Reader = prompt.NewReader(16)
	r.proxy = proxy.New(c)
	r.server = httptest.NewServer(r.proxy)
	r.client = r.server.Client()
	t.Cleanup(func() {
		if t.Failed() {
			r.server.CloseClientConnections() // or the clean-up waits for what never comes
		}
		r.idle()
		r.server.Close()
		r.proxy.CloseIdle()
	})
	return r
}

// checks makes the health checks. They succeed but for those of the hosts that fail.
type checks struct{ failing sync.Map }

func (c *checks) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, fails := c.failing.Load(r.URL.Host); fails {
		return nil, context.DeadlineExceeded
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// fail has the checks of some backends fail from now on.
func (c *checks) fail(backends ...fleet.Backend) {
	for _, b := range backends {
		c.failing.Store(strings.TrimPrefix(b.URL, "http://"), nil)
	}
}

// fail has the checks of some backends fail until it is noticed.
func (r *rig) fail(backends ...fleet.Backend) {
	r.checks.fail(backends...)
	for range 3 {
		r.fleet.CheckHealth(r.t.Context())
	}
}

// mend has all checks succeed.
func (r *rig) mend() {
	r.checks.failing.Clear()
	r.fleet.CheckHealth(r.t.Context())
}

// lines is a logger whose lines go to a channel.
func lines(to chan<- string) *slog.Logger { return slog.New(slog.NewTextHandler(lineWriter(to), nil)) }

type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// backend starts a backend that ends with the test.
func backend(t *testing.T, h http.Handler) fleet.Backend {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return fleet.Backend{URL: server.URL}
}

// deadBackend returns a backend that refuses connections. A port that was closed
// could be another test's by now; nobody listens on port 1.
func deadBackend(*testing.T) fleet.Backend {
	return fleet.Backend{URL: fmt.Sprintf("http://127.0.0.1:1/%d", dead.Add(1))}
}

var dead atomic.Int32

// until waits for what must come.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); runtime.Gosched() {
		if time.Now().After(deadline) {
			require.Fail(t, "waited in vain until "+what)
		}
	}
}

// idle waits until nothing is booked and nobody waits, and checks that nothing is
// left.
func (r *rig) idle() {
	r.t.Helper()
	until(r.t, "nothing is booked", func() bool {
		stats := r.s.Stats()
		return stats.Live == 0 && stats.Waiting == 0
	})
	for _, load := range r.s.Loads() {
		require.Zero(r.t, load.PrefillTokens, "%v", load)
		require.Zero(r.t, load.Blocks, "%v", load)
		require.Zero(r.t, load.Requests, "%v", load)
	}
	for _, class := range r.s.Stats().Classes {
		require.Zero(r.t, class.Pending)
		require.Zero(r.t, class.Tokens)
	}
}

// waiting waits until n requests have their place in line.
func (r *rig) waiting(n int64) {
	r.t.Helper()
	until(r.t, "they wait", func() bool {
		pending := int64(0)
		for _, class := range r.s.Stats().Classes {
			pending += class.Pending
		}
		return pending == n
	})
}

type header map[string]string

// send sends a request and returns when the head of its answer is there.
func (r *rig) send(ctx context.Context, method, path, body string, h header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.server.URL+path, strings.NewReader(body))
	require.NoError(r.t, err)
	for name, value := range h {
		request.Header.Set(name, value)
	}
	return r.client.Do(request)
}

// post sends a request and returns its whole answer.
func (r *rig) post(path, body string, h header) (*http.Response, string) {
	r.t.Helper()
	response, err := r.send(r.t.Context(), http.MethodPost, path, body, h)
	require.NoError(r.t, err)
	return response, all(r.t, response)
}

func (r *rig) get(path string) (*http.Response, string) {
	r.t.Helper()
	response, err := r.send(r.t.Context(), http.MethodGet, path, "", nil)
	require.NoError(r.t, err)
	return response, all(r.t, response)
}

// all returns what an answer's body holds.
func all(t *testing.T, response *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return string(text)
}

// problem is the error that a JSON body tells.
type problem struct {
	Message, Type, Code string
	Param               *string
}

func problemOf(t *testing.T, body string) problem {
	t.Helper()
	var wrapped struct{ Error *problem }
	require.NoError(t, json.Unmarshal([]byte(body), &wrapped), "%q", body)
	require.NotNil(t, wrapped.Error, "%q", body)
	return *wrapped.Error
}

// line returns the next line of a stream that is not empty.
func line(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	for {
		text, err := from.ReadString('\n')
		require.NoError(t, err)
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
}

// gate is a backend that answers what the test says, when the test says it. With
// several requests at a time, which of them answers is not defined.
type gate struct {
	came chan *http.Request
	body chan string
	say  chan string   // pieces of the answer; breakOff; the last ends with end
	gone chan struct{} // the gateway gave the request up
}

const (
	breakOff = "\x00break off"
	end      = "\x00end"
	// streamHead begins an event stream without saying anything.
	streamHead = "\x00stream"
)

func newGate() *gate {
	return &gate{
		came: make(chan *http.Request, 100), body: make(chan string, 100), say: make(chan string), gone: make(chan struct{}, 100),
	}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.body <- string(body)
	g.came <- r
	for {
		select {
		case text := <-g.say:
			text, last := strings.CutSuffix(text, end)
			switch text {
			case breakOff:
				panic(http.ErrAbortHandler)
			case streamHead:
				w.Header().Set("Content-Type", "text/event-stream")
			default:
				_, _ = io.WriteString(w, text)
			}
			if last {
				return
			}
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			g.gone <- struct{}{}
			return
		}
	}
}

// chatBody is a chat request whose prompt is about that many blocks long.
func chatBody(stream bool, text string, blocks int) string {
	body, _ := json.Marshal(map[string]any{
		"model": "m", "stream": stream, "max_tokens": 20,
		"messages": []any{map[string]any{"role": "user", "content": text + strings.Repeat(" blah blah blah!", 4*blocks)}},
	})
	return string(body)
}
