package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
)

// hold has a request keep the only worker busy, until the returned function lets
// it go.
func (r *rig) hold(g *gate) (letGo func()) {
	r.t.Helper()
	held := make(chan *http.Response)
	go func() {
		response, err := r.send(r.t.Context(), http.MethodPost, "/v1/completions", streamed, nil)
		assert.NoError(r.t, err)
		held <- response
	}()
	<-g.came
	return func() {
		g.say <- "done" + end
		response := <-held
		assert.Equal(r.t, http.StatusOK, response.StatusCode)
		all(r.t, response)
	}
}

func TestRefusesWhenTheLineIsFull(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{policy: oneAtATime, backends: []fleet.Backend{backend(t, g)}})
	letGo := r.hold(g)

	response, text := r.post("/v1/completions", streamed, header{proxy.HeaderNoQueue: "true"})
	assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	assert.Equal(t, "1", response.Header.Get("Retry-After"))
	assert.Equal(t, "would_queue", problemOf(t, text).Code)

	response, text = r.post("/v1/completions", streamed, header{proxy.HeaderMaxWait: "1ms"})
	assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	assert.Equal(t, "1", response.Header.Get("Retry-After"))
	assert.Equal(t, "wait_exceeded", problemOf(t, text).Code)

	waited := make(chan string)
	go func() {
		_, text := r.post("/v1/completions", `{"prompt":"waited"}`, nil)
		waited <- text
	}()
	r.waiting(1)
	response, text = r.post("/v1/completions", streamed, nil)
	assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	assert.Equal(t, "1", response.Header.Get("Retry-After"))
	p := problemOf(t, text)
	assert.Equal(t, "queue_full", p.Code)
	assert.Equal(t, "rate_limit_error", p.Type)
	assert.Equal(t, "too many requests wait already", p.Message)

	letGo()
	<-g.came
	g.say <- "mine" + end
	assert.Equal(t, "mine", <-waited)
}

func TestHigherPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	g := newGate()
	policy := strings.ReplaceAll(oneAtATime, "per_worker: 1", "per_worker: 10")
	r := newRig(t, setup{policy: policy, backends: []fleet.Backend{backend(t, g)}})
	letGo := r.hold(g)
	<-g.body
	answers := make(chan string)
	for i, priority := range []string{"0", "5", "2"} {
		go func() {
			_, text := r.post("/v1/completions", `{"prompt":"priority `+priority+`"}`, header{proxy.HeaderPriority: priority})
			answers <- text
		}()
		r.waiting(int64(i + 1))
	}
	letGo()
	for _, priority := range []string{"5", "2", "0"} {
		<-g.came
		assert.Contains(t, <-g.body, "priority "+priority)
		g.say <- priority + end
		assert.Equal(t, priority, <-answers)
	}
}

func TestRefusesWithoutWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backends: []fleet.Backend{engine(t)}})
	expect := func(code string) {
		t.Helper()
		response, text := r.post("/v1/completions", streamed, nil)
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		assert.Equal(t, "1", response.Header.Get("Retry-After"))
		assert.Equal(t, code, problemOf(t, text).Code)
		assert.Equal(t, "server_error", problemOf(t, text).Type)
		assert.NotContains(t, text, "turnstile", "what the library says is for the log")
		assert.NotContains(t, text, response.Header.Get("X-Request-Id"))
	}
	require.NoError(t, r.s.SetOverloaded([]uint64{1}))
	expect("overloaded")
	require.NoError(t, r.s.SetOverloaded(nil))
	require.NoError(t, r.s.SetAvailable([]uint64{}))
	expect("no_endpoints")
	require.NoError(t, r.s.RemoveWorker(1))
	expect("no_endpoints")
}

func TestRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{config: proxy.Config{MaxBody: 100}, backends: []fleet.Backend{engine(t)}})
	const chat, plain = "/v1/chat/completions", "/v1/completions"
	for _, c := range []struct {
		method, path, body string
		header             header
		status             int
		code, param        string
	}{
		{"POST", chat, ``, nil, 400, "invalid_value", ""},
		{"POST", chat, `{`, nil, 400, "invalid_value", ""},
		{"POST", chat, `[]`, nil, 400, "invalid_value", ""},
		{"POST", chat, `{}`, nil, 400, "invalid_value", "messages"},
		{"POST", chat, `{"messages":"x"}`, nil, 400, "invalid_value", "messages"},
		{"POST", chat, `{"messages":[{"content":"x"}]}`, nil, 400, "invalid_value", "messages[0].role"},
		{"POST", chat, `{"messages":[{"role":"user","content":3}]}`, nil, 400, "invalid_value", "messages[0].content"},
		{"POST", plain, `{}`, nil, 400, "invalid_value", "prompt"},
		{"POST", plain, `{"prompt":[1,"x"]}`, nil, 400, "invalid_value", "prompt"},
		{"POST", plain, `{"prompt":"x","stream":1}`, nil, 400, "invalid_value", "stream"},
		{"POST", plain, `{"prompt":"x"}`, header{proxy.HeaderPriority: "-1"}, 400, "invalid_value", proxy.HeaderPriority},
		{"POST", plain, `{"prompt":"x"}`, header{proxy.HeaderMaxWait: "soon"}, 400, "invalid_value", proxy.HeaderMaxWait},
		{"POST", plain, `{"prompt":"x"}`, header{proxy.HeaderTimeout: "0s"}, 400, "invalid_value", proxy.HeaderTimeout},
		{"POST", plain, `{"prompt":"x"}`, header{proxy.HeaderNoQueue: "perhaps"}, 400, "invalid_value", proxy.HeaderNoQueue},
		{"POST", plain, `{"prompt":"` + strings.Repeat("x", 100) + `"}`, nil, 413, "request_too_large", ""},
		{"GET", plain, ``, nil, 405, "method_not_allowed", ""},
		{"POST", "/v1/models", ``, nil, 405, "method_not_allowed", ""},
		{"POST", "/v1/audio", `{}`, nil, 404, "unknown_url", ""},
	} {
		response, err := r.send(t.Context(), c.method, c.path, c.body, c.header)
		require.NoError(t, err)
		text := all(t, response)
		assert.Equal(t, c.status, response.StatusCode, "%+v", c)
		p := problemOf(t, text)
		assert.Equal(t, c.code, p.Code, "%+v", c)
		assert.Equal(t, "invalid_request_error", p.Type, "%+v", c)
		if c.param == "" {
			assert.Nil(t, p.Param, "%+v", c)
		} else if assert.NotNil(t, p.Param, "%+v: %s", c, text) {
			assert.Equal(t, c.param, *p.Param)
		}
	}
	assert.Zero(t, r.s.Stats().Admitted)
}

func TestShutdownFinishesWhatWasBegun(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{policy: oneAtATime, backends: []fleet.Backend{backend(t, g)}})
	response, text := r.get("/healthz")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, "ok\n", text)

	letGo := r.hold(g)
	waited := make(chan string)
	go func() {
		_, text := r.post("/v1/completions", `{"prompt":"waited"}`, nil)
		waited <- text
	}()
	r.waiting(1)
	down := make(chan error, 1)
	go func() { down <- r.proxy.Shutdown(t.Context()) }()
	until(t, "it says that it goes", func() bool {
		response, _ := r.get("/healthz")
		return response.StatusCode == http.StatusServiceUnavailable
	})
	until(t, "new requests are refused", func() bool {
		response, text := r.post("/v1/completions", streamed, header{proxy.HeaderNoQueue: "true"})
		if response.StatusCode == http.StatusTooManyRequests {
			return false
		}
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		assert.True(t, response.Close, "the next request is better off elsewhere")
		return assert.Equal(t, "shutting_down", problemOf(t, text).Code)
	})
	letGo()
	<-g.came
	assert.Empty(t, down, "it waits for the last answer")
	g.say <- "had its turn" + end
	assert.Equal(t, "had its turn", <-waited)
	require.NoError(t, <-down)
}

func TestShutdownWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{policy: oneAtATime, backends: []fleet.Backend{backend(t, g)}})
	letGo := r.hold(g)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, r.proxy.Shutdown(ctx), context.Canceled)
	letGo()
}
