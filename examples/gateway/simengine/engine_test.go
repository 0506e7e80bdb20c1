package simengine_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKillAndRevive(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(simengine.New(simengine.Config{Model: "m", PerToken: time.Millisecond}))
	t.Cleanup(server.Close)
	ask := func(method, path, body string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		return server.Client().Do(r)
	}
	done := func(method, path, body string) string {
		t.Helper()
		response, err := ask(method, path, body)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
		return string(text)
	}
	prompt := `{"max_tokens": 1, "prompt": "` + strings.Repeat("x", 64) + `"}`
	assert.Contains(t, done("POST", "/v1/completions", prompt), `"cached_tokens":0`)
	assert.Contains(t, done("POST", "/v1/completions", prompt), `"cached_tokens":16`)
	done("POST", "/revive", "") // lives already
	assert.Contains(t, done("POST", "/v1/completions", prompt), `"cached_tokens":16`)

	long, err := ask("POST", "/v1/completions", `{"prompt": "x", "stream": true, "max_tokens": 4096}`)
	require.NoError(t, err)
	from := bufio.NewReader(long.Body)
	_, err = from.ReadString('\n')
	require.NoError(t, err)
	done("POST", "/kill", "")
	_, err = io.ReadAll(from)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, long.Body.Close())
	for _, path := range []string{"/health", "/v1/models"} {
		_, err := ask("GET", path, "") //nolint:bodyclose // there is none
		require.Error(t, err)
	}
	done("POST", "/kill", "")

	done("POST", "/revive", "")
	done("GET", "/health", "")
	assert.Contains(t, done("POST", "/v1/completions", prompt), `"cached_tokens":0`, "what it held is lost")
}
