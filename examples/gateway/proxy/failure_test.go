package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
)

const streamed = `{"prompt":"hello","stream":true}`

// begin sends a request that streams, and returns its answer once the first event
// has come through.
func (r *rig) begin(ctx context.Context, g *gate) (*http.Response, *bufio.Reader) {
	r.t.Helper()
	go func() {
		g.say <- streamHead
		g.say <- "data: {\"n\":1}\n\n"
	}()
	response, err := r.send(ctx, http.MethodPost, "/v1/completions", streamed, nil)
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusOK, response.StatusCode)
	from := bufio.NewReader(response.Body)
	require.Equal(r.t, `data: {"n":1}`, line(r.t, from))
	return response, from
}

// brokenOff reads the last event of a stream that broke off.
func brokenOff(t *testing.T, response *http.Response, from *bufio.Reader) problem {
	t.Helper()
	text, found := strings.CutPrefix(line(t, from), "data: ")
	require.True(t, found)
	rest, err := io.ReadAll(from)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "the stream breaks off for clients that do not look at events")
	assert.Empty(t, strings.TrimSpace(string(rest)))
	require.NoError(t, response.Body.Close())
	return problemOf(t, text)
}

func TestBackendDiesMidStream(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g)}})
	response, from := r.begin(t.Context(), g)
	g.say <- breakOff
	p := brokenOff(t, response, from)
	assert.Equal(t, "backend_failed", p.Code)
	assert.Equal(t, "the answer broke off", p.Message, "addresses are no business of the client's")
	r.idle()
}

// plainly is a backend that answers as HTTP/1.0 does: the end of the connection is
// the end of the answer.
func plainly(t *testing.T, kind, body string) fleet.Backend {
	return backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		connection, buffered, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = buffered.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " + kind + "\r\n\r\n" + body)
		_ = buffered.Flush()
		_ = connection.Close()
	}))
}

func TestStreamThatOnlyItsConnectionEnds(t *testing.T) {
	t.Parallel()
	const stream, one = "text/event-stream", "data: {\"n\":1}\n\n"
	for body, whole := range map[string]bool{
		one + "data: [DONE]\n\n": true, one + "data: [DONE]": true,
		one: false, one + "data: [DO": false, one + ": [DONE]\n\n": false,
	} {
		r := newRig(t, setup{backends: []fleet.Backend{plainly(t, stream, body)}})
		response, err := r.send(t.Context(), http.MethodPost, "/v1/completions", streamed, nil)
		require.NoError(t, err)
		if whole {
			assert.Equal(t, body, all(t, response))
			continue
		}
		from := bufio.NewReader(response.Body)
		got := make([]byte, len(body))
		_, err = io.ReadFull(from, got)
		require.NoError(t, err)
		assert.Equal(t, body, string(got))
		assert.Equal(t, "backend_failed", brokenOff(t, response, from).Code)
		r.idle()
	}
	r := newRig(t, setup{backends: []fleet.Backend{plainly(t, stream, ""), plainly(t, "application/json", ""), engine(t)}})
	response, text := r.post("/v1/completions", streamed, nil)
	assert.Equal(t, "3", response.Header.Get(proxy.HeaderTries), "nothing came yet: others are tried")
	assert.Contains(t, text, "[DONE]")

	r = newRig(t, setup{backends: []fleet.Backend{plainly(t, "application/json", "{}")}})
	_, text = r.post("/v1/completions", `{"prompt":"x"}`, nil)
	assert.Equal(t, "{}", text)

	g := newGate() // whose answers have an end by themselves
	r = newRig(t, setup{backends: []fleet.Backend{backend(t, g)}})
	response, from := r.begin(t.Context(), g)
	g.say <- end
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	assert.Empty(t, strings.TrimSpace(string(rest)))
	require.NoError(t, response.Body.Close())
}

func TestBackendDiesInAPlainAnswer(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g)}})
	go func() {
		g.say <- `{"half":`
		g.say <- breakOff
	}()
	response, err := r.send(t.Context(), http.MethodPost, "/v1/completions", `{"prompt":"x"}`, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, `{"half":`, string(text))
	require.NoError(t, response.Body.Close())
	r.idle()
}

func TestWorkerRemovedMidStream(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g)}})
	response, from := r.begin(t.Context(), g)
	require.NoError(t, r.s.RemoveWorker(1))
	<-g.gone
	p := brokenOff(t, response, from)
	assert.Equal(t, "backend_failed", p.Code)
	r.idle()
}

func TestWorkerRemovedBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g), engine(t)}})
	go func() {
		<-g.came
		assert.NoError(t, r.s.RemoveWorker(1))
	}()
	response, _ := r.post("/v1/completions", streamed, nil)
	assert.Equal(t, "2/0", response.Header.Get(proxy.HeaderWorker))
	<-g.gone
	r.idle()
}

func TestClientGoesMidStream(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g)}})
	ctx, cancel := context.WithCancel(t.Context())
	response, _ := r.begin(ctx, g)
	cancel()
	<-g.gone
	r.idle()
	require.NoError(t, response.Body.Close())
}

func TestClientGoesBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	g, other := newGate(), newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g), backend(t, other)}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-g.came
		cancel()
	}()
	_, err := r.send(ctx, http.MethodPost, "/v1/completions", streamed, nil)
	require.ErrorIs(t, err, context.Canceled)
	<-g.gone
	r.idle()
	assert.Empty(t, other.came, "nobody else computes what nobody waits for")
}

func TestClientGoesWhileItWaits(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{policy: oneAtATime, backends: []fleet.Backend{backend(t, g)}})
	held := make(chan *http.Response)
	go func() {
		response, err := r.send(t.Context(), http.MethodPost, "/v1/completions", streamed, nil)
		assert.NoError(t, err)
		held <- response
	}()
	<-g.came
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := r.send(ctx, http.MethodPost, "/v1/completions", streamed, nil)
		gone <- err
	}()
	r.waiting(1)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	r.waiting(0)
	g.say <- "data: 1\n\n" + end
	all(t, <-held)
	r.idle()
	assert.EqualValues(t, 1, r.s.Stats().Admitted)
}

func TestTriesElsewhereBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	status := func(code int) func(*testing.T) fleet.Backend {
		return func(t *testing.T) fleet.Backend {
			return backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		}
	}
	for name, c := range map[string]struct {
		bad    func(*testing.T) fleet.Backend
		status int // when there is nowhere else
		code   string
	}{
		"connection refused": {deadBackend, 502, "backend_failed"},
		"502":                {status(http.StatusBadGateway), 502, "backend_failed"},
		"503":                {status(http.StatusServiceUnavailable), 503, "backend_unavailable"},
		"hangs up": {func(t *testing.T) fleet.Backend {
			return backend(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		}, 502, "backend_failed"},
		"hangs up after the head": {func(t *testing.T) fleet.Backend {
			return backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}))
		}, 502, "backend_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, body := range []string{streamed, `{"prompt":"hello"}`} {
				// One sound worker may be failed at; these never were.
				r := newRig(t, setup{config: proxy.Config{Tries: 1}, backends: []fleet.Backend{c.bad(t), c.bad(t), engine(t)}})
				response, text := r.post("/v1/completions", body, nil)
				assert.Equal(t, http.StatusOK, response.StatusCode, text)
				assert.Equal(t, "3", response.Header.Get(proxy.HeaderTries))
				assert.Equal(t, "3/0", response.Header.Get(proxy.HeaderWorker))
				assert.Equal(t, 16, len(strings.Fields(textOf(t, text))))
				r.idle()
			}

			r := newRig(t, setup{backends: []fleet.Backend{c.bad(t)}})
			response, text := r.post("/v1/completions", streamed, nil)
			assert.Equal(t, c.status, response.StatusCode)
			assert.Equal(t, c.code, problemOf(t, text).Code)
			assert.NotContains(t, text, "127.0.0.1", "addresses are no business of the client's")
			r.idle()
		})
	}
}

func TestDeadBackendIsSetAside(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backends: []fleet.Backend{deadBackend(t), engine(t)}})
	response, _ := r.post("/v1/completions", streamed, nil)
	assert.Equal(t, "2", response.Header.Get(proxy.HeaderTries))
	response, _ = r.post("/v1/completions", streamed, nil)
	assert.Equal(t, "1", response.Header.Get(proxy.HeaderTries))
}

func TestHealthFollowsTheBackends(t *testing.T) {
	t.Parallel()
	dead := deadBackend(t)
	r := newRig(t, setup{backends: []fleet.Backend{dead}})
	healthy := func(want int, says string) {
		t.Helper()
		response, text := r.get("/healthz")
		assert.Equal(t, want, response.StatusCode)
		assert.Equal(t, says, text)
		response, text = r.get("/livez")
		assert.Equal(t, http.StatusOK, response.StatusCode, "to start it again would not help")
		assert.Equal(t, "ok\n", text)
	}
	healthy(http.StatusOK, "ok\n")
	for range 3 {
		r.post("/v1/completions", streamed, nil)
	}
	healthy(http.StatusServiceUnavailable, "no backend is up\n")
	require.NoError(t, r.fleet.Set([]fleet.Backend{dead, engine(t)}))
	healthy(http.StatusOK, "ok\n")
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{backends: []fleet.Backend{backend(t, g)}})
	response, text := r.post("/v1/completions", streamed, header{proxy.HeaderTimeout: "1ms"})
	assert.Equal(t, http.StatusGatewayTimeout, response.StatusCode)
	assert.Equal(t, "timeout", problemOf(t, text).Code)
	r.idle()
}

func TestTimeoutMidStream(t *testing.T) {
	t.Parallel()
	// How long the first event takes depends on the machine.
	for timeout := 100 * time.Millisecond; ; timeout *= 2 {
		require.Less(t, timeout, patience)
		g := newGate()
		r := newRig(t, setup{config: proxy.Config{Timeout: timeout}, backends: []fleet.Backend{backend(t, g)}})
		said := make(chan struct{})
		go func() {
			defer close(said)
			for _, text := range []string{streamHead, "data: {}\n\n"} {
				select {
				case g.say <- text:
				case <-g.gone:
					return
				}
			}
		}()
		response, err := r.send(t.Context(), http.MethodPost, "/v1/completions", streamed, nil)
		require.NoError(t, err)
		if response.StatusCode == http.StatusGatewayTimeout {
			all(t, response)
			r.idle()
			close(g.gone)
			<-said
			continue
		}
		from := bufio.NewReader(response.Body)
		require.Equal(t, "data: {}", line(t, from))
		assert.Equal(t, "timeout", brokenOff(t, response, from).Code)
		<-g.gone
		r.idle()
		return
	}
}
