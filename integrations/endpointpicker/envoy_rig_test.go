package endpointpicker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/seed-3c5df8a4/turnstile/integrations/endpointpicker"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// envoyBinary names an Envoy to try the picker with.
const envoyBinary = "TURNSTILE_ENVOY"

// documentedFile is the file that users get.
const documentedFile = "../../examples/endpointpicker/envoy.yaml"

func needEnvoy(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(documentedFile); err != nil {
		t.Skip("this is the module alone, without the example")
	}
	if os.Getenv(envoyBinary) == "" {
		t.Skipf("%s names no Envoy", envoyBinary)
	}
}

// envoy is a process with the documented file, changed only where it must be.
type envoy struct {
	t   *testing.T
	cmd *exec.Cmd
	log string
	url string
}

// Changes to the documented file, as pairs of old and new.
var (
	trailersOnly = []string{"response_body_mode: FULL_DUPLEX_STREAMED", "response_body_mode: NONE"}
	inBuffers    = []string{"request_body_mode: FULL_DUPLEX_STREAMED", "request_body_mode: BUFFERED", "response_body_mode: FULL_DUPLEX_STREAMED", "response_body_mode: STREAMED"}
	byMetadata   = []string{"                  - header: x-gateway-destination-endpoint\n", ""}
	byHeader     = []string{"                  - metadata: {key: envoy.lb, path: [{key: x-gateway-destination-endpoint}]}\n", ""}
	// noTrailers is a mistake that is easy to make.
	noTrailers = append([]string{"response_trailer_mode: SEND", "response_trailer_mode: SKIP"}, trailersOnly...)
	// hinted takes the subset from a header: a google.protobuf.Value.
	hinted = []string{"                http_filters:\n", `                http_filters:
                  - name: envoy.filters.http.header_to_metadata
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
                      request_rules:
                        - header: x-subset
                          remove: true
                          on_header_present:
                            metadata_namespace: envoy.lb.subset_hint
                            key: x-gateway-destination-endpoint-subset
                            type: PROTOBUF_VALUE
                            encode: BASE64
`}
)

// documented returns the file for these addresses.
func documented(t *testing.T, listen, picker string, engines [2]string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(documentedFile)
	require.NoError(t, err)
	file := string(text)
	change := func(from, to string) {
		require.Contains(t, file, from)
		file = strings.Replace(file, from, to, 1)
	}
	for name, address := range map[string]string{"8080": listen, "9002": picker, "8001": engines[0], "8002": engines[1]} {
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		change("port_value: "+name+"}", "port_value: "+port+"}")
	}
	for i := 0; i < len(changes); i += 2 {
		change(changes[i], changes[i+1])
	}
	return file
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

func startEnvoy(t *testing.T, listen, file string) *envoy {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "envoy.yaml")
	require.NoError(t, os.WriteFile(name, []byte(file), 0o600))
	e := &envoy{t: t, log: filepath.Join(dir, "log"), url: "http://" + listen}
	// Not t.Context: it ends before what is cleaned up.
	e.cmd = exec.CommandContext(context.Background(), os.Getenv(envoyBinary),
		"-c", name, "--disable-hot-restart", "--concurrency", "2", "--log-path", e.log, "--log-level", "warning")
	var said bytes.Buffer
	e.cmd.Stdout, e.cmd.Stderr = &said, &said
	require.NoError(t, e.cmd.Start())
	exited := make(chan struct{})
	go func() {
		_ = e.cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = e.cmd.Process.Kill()
		<-exited
		if t.Failed() {
			logged, _ := os.ReadFile(e.log)
			t.Logf("Envoy said: %s%s", said.String(), logged)
		}
	})
	require.Eventually(t, func() bool {
		select {
		case <-exited:
			t.Errorf("Envoy did not start: %s", said.String())
			return true
		default:
		}
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.False(t, t.Failed())
	return e
}

// engine answers as the request asks it to.
type engine struct {
	*httptest.Server
	held atomic.Int64 // requests that are held
}

// The queries that an engine knows: events=n sends so many, every=d with such a pause;
// hold=head or hold=events stops before the head or after the first event, until the
// client leaves; status=n answers so.
func newEngine(t *testing.T) *engine {
	e := &engine{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		q := r.URL.Query()
		hold := func() {
			e.held.Add(1)
			<-r.Context().Done()
			e.held.Add(-1)
		}
		h := w.Header()
		h.Set("X-Engine", e.address())
		h.Set("X-Told", r.Header.Get("X-Gateway-Destination-Endpoint"))
		h.Set("X-Length", strconv.FormatInt(n, 10))
		h.Set("X-Class", r.Header.Get(endpointpicker.HeaderClass))
		if q.Get("hold") == "head" {
			hold()
			return
		}
		if q.Get("hold") == "" && q.Get("events") == "" {
			status, _ := strconv.Atoi(q.Get("status"))
			w.WriteHeader(max(status, 200))
			_, _ = io.WriteString(w, `{"ok":true}`)
			return
		}
		events, _ := strconv.Atoi(q.Get("events"))
		every, _ := time.ParseDuration(q.Get("every"))
		h.Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(max(every, time.Microsecond))
		defer tick.Stop()
		for i := range max(events, 1) {
			if i > 0 && every > 0 {
				<-tick.C
			}
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"choices\":[{\"index\":0,\"text\":\"token %d\"}]}\n\n", i)
			w.(http.Flusher).Flush()
		}
		if q.Get("hold") == "events" {
			hold()
			return
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *engine) address() string { return strings.TrimPrefix(e.URL, "http://") }

// pool is a picker, two engines and an Envoy before them.
type pool struct {
	*rig
	addr    string // of the picker
	engines [2]*engine
	envoy   *envoy
	client  *http.Client
}

func newPool(t *testing.T, rules string, config endpointpicker.Config, changes ...string) *pool {
	t.Helper()
	needEnvoy(t)
	p := &pool{rig: &rig{t: t, s: newScheduler(t, rules, 0), log: &log{lines: make(chan string, 1000)}}}
	config.Scheduler, config.Logger = p.s, slog.New(slog.NewTextHandler(p.log, nil))
	var addresses [2]string
	for i := range p.engines {
		p.engines[i] = newEngine(t)
		addresses[i] = p.engines[i].address()
		require.NoError(t, p.s.UpsertWorker(sched.Worker{ID: uint64(i + 1), Ranks: 1, Endpoint: p.engines[i].URL}))
	}
	var err error
	p.picker, err = endpointpicker.New(config)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.addr = listener.Addr().String()
	p.server = grpc.NewServer(endpointpicker.ServerOptions()...)
	p.picker.Register(p.server)
	go func() { _ = p.server.Serve(listener) }()
	t.Cleanup(p.server.Stop)
	listen := freePort(t)
	p.envoy = startEnvoy(t, listen, documented(t, listen, p.addr, addresses, changes...))
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	p.client = &http.Client{Transport: transport}
	return p
}

// post asks Envoy and reads the whole answer.
func (p *pool) post(query, body string, pairs ...string) (*http.Response, string) {
	p.t.Helper()
	response, err := p.send(context.Background(), query, body, pairs...)
	require.NoError(p.t, err)
	defer func() { require.NoError(p.t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response, string(text)
}

func (p *pool) send(ctx context.Context, query, body string, pairs ...string) (*http.Response, error) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, p.envoy.url+"/v1/completions?"+query, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Set(pairs[i], pairs[i+1])
	}
	return p.client.Do(r)
}

// held waits until the engines hold so many requests.
func (p *pool) held(n int64) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.engines[0].held.Load()+p.engines[1].held.Load() == n }, time.Minute, time.Millisecond)
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func readAll(response *http.Response) (string, error) {
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
