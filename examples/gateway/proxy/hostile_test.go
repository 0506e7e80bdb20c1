package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
)

const onePrompt = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`

// rawBackend answers the first request of each connection with a text, and then
// says nothing.
func rawBackend(t *testing.T, text string) fleet.Backend {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go func() {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = io.WriteString(c, text)
			}()
		}
	}()
	return fleet.Backend{URL: "http://" + l.Addr().String()}
}

// waitUntilNothingIsLive waits, with patience, for what must happen by itself.
func (r *rig) waitUntilNothingIsLive(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return r.s.Stats().Live == 0 }, time.Minute, time.Millisecond)
}

// Nobody asked for another protocol, and what comes after the change is no body
// that the end of a context closes.
func TestBackendThatSwitchesProtocolsHoldsNobody(t *testing.T) {
	r := newRig(t, setup{config: proxy.Config{Timeout: 500 * time.Millisecond, Tries: 1}, backends: []fleet.Backend{
		rawBackend(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL+"/v1/chat/completions", strings.NewReader(onePrompt))
	require.NoError(t, err)
	answer, err := r.client.Do(q)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.GreaterOrEqual(t, answer.StatusCode, 500)
	r.waitUntilNothingIsLive(t)
}

// A client that does not read does not hold its booking beyond the timeout.
func TestClientThatDoesNotReadHoldsNothingForLong(t *testing.T) {
	b := backend(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		line := "data: " + strings.Repeat("x", 8000) + "\n\n"
		for range 20_000 { // 160 MB: more than any socket holds
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}))
	r := newRig(t, setup{config: proxy.Config{Timeout: 500 * time.Millisecond, Tries: 1}, backends: []fleet.Backend{b}})
	c, err := net.Dial("tcp", r.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(onePrompt), onePrompt)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.s.Stats().Admitted > 0 }, time.Minute, time.Millisecond)
	r.waitUntilNothingIsLive(t)
}
