package proxy_test

import (
	"bufio"
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

// TestWaitingStreamsAreKeptAlive: comments come while a stream waits, and then its
// answer, or an event that says why not.
func TestWaitingStreamsAreKeptAlive(t *testing.T) {
	t.Parallel()
	g := newGate()
	r := newRig(t, setup{
		policy: oneAtATime, backends: []fleet.Backend{backend(t, g)}, config: proxy.Config{KeepAlive: time.Millisecond},
	})
	letGo := r.hold(g)
	// One that waits too long is told in its stream.
	late, text := r.post("/v1/completions", streamed, header{proxy.HeaderMaxWait: "20ms"})
	assert.Equal(t, http.StatusOK, late.StatusCode)
	events := strings.Split(strings.TrimSpace(text), "\n\n")
	require.True(t, strings.HasPrefix(events[0], ": "), events[0])
	last := events[len(events)-1]
	assert.True(t, strings.HasPrefix(last, `data: {"error":{`) && strings.Contains(last, `"wait_exceeded"`), last)
	// A plain answer is no stream.
	plain, text := r.post("/v1/completions", `{"prompt":"x"}`, header{proxy.HeaderMaxWait: "20ms"})
	assert.Equal(t, http.StatusTooManyRequests, plain.StatusCode)
	assert.Equal(t, "wait_exceeded", problemOf(t, text).Code)

	response, err := r.send(t.Context(), http.MethodPost, "/v1/completions", streamed, header{"X-Request-Id": "waits"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	assert.Equal(t, "waits", response.Header.Get("X-Request-Id"))
	from := bufio.NewReader(response.Body)
	for range 3 {
		line, err := from.ReadString('\n')
		require.NoError(t, err)
		require.True(t, line == "\n" || strings.HasPrefix(line, ": "), line)
	}
	letGo()
	<-g.came
	g.say <- streamHead
	g.say <- "data: x\n\ndata: [DONE]\n\n" + end
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	before, found := strings.CutSuffix(string(rest), "data: x\n\ndata: [DONE]\n\n")
	assert.True(t, found, "%.200q", rest)
	assert.NotContains(t, before, "data", "the answer follows, with nothing in it")
}
