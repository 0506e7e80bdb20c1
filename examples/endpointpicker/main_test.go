package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is what the program writes.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// TestExample: the one command, and its one curl.
func TestExample(t *testing.T) {
	t.Parallel()
	if os.Getenv("TURNSTILE_ENVOY") == "" {
		t.Skip("TURNSTILE_ENVOY names no Envoy")
	}
	listen := free(t)
	ctx, stop := context.WithCancel(t.Context())
	var said output
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-listen", listen, "-status-listen", "127.0.0.1:0"}, &said, &said)
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(said.String(), "curl -iN http://"+listen) || len(ended) > 0
	}, time.Minute, 10*time.Millisecond)
	require.Empty(t, ended, "%s", &said)

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(prompt string) (engine string) {
		body := fmt.Sprintf(`{"model": "demo", "stream": true, "max_tokens": 3, "messages": [{"role": "user", "content": %q}]}`, prompt)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listen+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		response, err := client.Do(r)
		require.NoError(t, err)
		defer func() { assert.NoError(t, response.Body.Close()) }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode, "%s", text)
		require.True(t, strings.HasSuffix(string(text), "data: [DONE]\n\n"), "%s", text)
		return response.Header.Get("X-Engine")
	}
	for _, prompt := range []string{"a", "b", "c"} {
		prompt = strings.Repeat(prompt, 1000)
		first := ask(prompt)
		require.Contains(t, []string{"1", "2"}, first)
		for range 3 {
			require.Equal(t, first, ask(prompt), "where the prompt is cached")
		}
	}
	stop()
	require.NoError(t, <-ended, "%s", &said)
	require.Contains(t, said.String(), "finishing what was begun")
	_, err := net.Dial("tcp", listen)
	require.Error(t, err, "Envoy has ended, too")
}

func TestEnvoyThatDoesNotStart(t *testing.T) {
	t.Parallel()
	bad := filepath.Join(t.TempDir(), "envoy")
	require.NoError(t, os.WriteFile(bad, []byte("#!/bin/sh\necho broken\nexit 1\n"), 0o700))
	var said output
	err := run(t.Context(), []string{"-envoy", bad, "-listen", free(t), "-status-listen", "127.0.0.1:0"}, &said, &said)
	require.ErrorContains(t, err, "broken")
	require.Error(t, run(t.Context(), []string{"-envoy", "/none", "-status-listen", "127.0.0.1:0"}, &said, &said))
	require.Error(t, run(t.Context(), []string{"-what"}, &said, &said))
}

func TestFill(t *testing.T) {
	t.Parallel()
	_, err := addresses{listen: "x", picker: "h:1", engines: [2]string{"h:1", "h:1"}}.fill(documented)
	require.Error(t, err)
	_, err = addresses{listen: "h:1", picker: "h:1", engines: [2]string{"h:1", "h:1"}}.fill("nothing")
	require.Error(t, err)
	file, err := addresses{listen: "[::1]:1", picker: "h:2", engines: [2]string{"h:3", "h:4"}}.fill(documented)
	require.NoError(t, err)
	for _, want := range []string{`"::1", port_value: 1}`, `"h", port_value: 2}`, `"h", port_value: 3}`, `"h", port_value: 4}`} {
		require.Contains(t, file, want)
	}
}
