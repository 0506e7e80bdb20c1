package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOpenAIClients has the official clients do what users do with them. Where they
// are is told by the environment: a Python that has the package openai, and a
// directory whose node_modules has it.
func TestOpenAIClients(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]struct {
		variable string
		command  func(ctx context.Context, where string) *exec.Cmd
	}{
		"python": {"TURNSTILE_OPENAI_PYTHON", func(ctx context.Context, python string) *exec.Cmd {
			return exec.CommandContext(ctx, python, "testdata/clients/client.py")
		}},
		"node": {"TURNSTILE_OPENAI_NODE", func(ctx context.Context, dir string) *exec.Cmd {
			// A module finds its packages beside itself.
			script := filepath.Join(dir, "client.mjs")
			text, err := os.ReadFile("testdata/clients/client.mjs")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(script, text, 0o600))
			return exec.CommandContext(ctx, "node", script)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := os.Getenv(client.variable)
			if where == "" {
				t.Skipf("%s is not set: see .ci/run", client.variable)
			}
			r := start(t, "-demo", "-policy", "policy.yaml")
			command := client.command(t.Context(), where)
			command.Args = append(command.Args, r.url, limited(t, r.url))
			said, err := command.CombinedOutput()
			require.NoError(t, err, "%s", said)
			require.Equal(t, "all is well\n", string(said))
			r.stop()
			require.NoError(t, <-r.done)
		})
	}
}

// limited is a gateway that refuses the first request.
func limited(t *testing.T, gateway string) string {
	to, err := url.Parse(gateway)
	require.NoError(t, err)
	var came atomic.Int64
	transport := &http.Transport{}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if came.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			http.Error(w, `{"error": {"message": "full", "type": "rate_limit_error", "code": "queue_full"}}`, http.StatusTooManyRequests)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
		require.GreaterOrEqual(t, came.Load(), int64(2), "it tried again")
	})
	return server.URL
}
