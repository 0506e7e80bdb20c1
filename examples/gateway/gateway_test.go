package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = time.Minute

// output keeps what a gateway says. It is written by the gateway, read by the test.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// running is a gateway that was started as main starts it.
type running struct {
	t      *testing.T
	url    string
	log    output
	stop   func()
	done   chan error
	client *http.Client
	stdout output
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, stop: stop, done: make(chan error, 1), client: &http.Client{Transport: &http.Transport{}}}
	go func() { r.done <- run(ctx, append(args, "-listen", "127.0.0.1:0"), &r.stdout, &r.log) }()
	t.Cleanup(func() {
		stop()
		r.client.CloseIdleConnections()
	})
	r.until("it serves", func() bool {
		_, after, found := strings.Cut(r.stdout.String(), "serving on ")
		r.url, _, _ = strings.Cut(after, "\n")
		select {
		case err := <-r.done:
			require.Fail(t, "it did not start", "%v", err)
		default:
		}
		return found
	})
	return r
}

func (r *running) until(what string, done func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !done(); runtime.Gosched() {
		if time.Now().After(deadline) {
			require.Fail(r.t, "waited in vain until "+what, "log: %s", r.log.String())
		}
	}
}

func (r *running) send(method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	return r.client.Do(request)
}

// ask returns the status and the body of an answer.
func (r *running) ask(method, path, body string) (int, string) {
	r.t.Helper()
	response, err := r.send(method, path, body)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	return response.StatusCode, string(text)
}

const chat = `{"model": "demo", "stream": true, "max_tokens": 8, "messages": [{"role": "user", "content": "Hello."}]}`

func TestDemo(t *testing.T) {
	t.Parallel()
	r := start(t, "-demo", "-v")
	status, text := r.ask(http.MethodPost, "/v1/chat/completions", chat)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, 8, strings.Count(text, `"delta":{"content":"`)-strings.Count(text, `"role"`), text)
	assert.Contains(t, text, "data: [DONE]")

	_, text = r.ask(http.MethodGet, "/v1/models", "")
	assert.Contains(t, text, `"id":"demo"`)
	_, text = r.ask(http.MethodGet, "/metrics", "")
	assert.Contains(t, text, "\nturnstile_admissions_total 1\n")
	assert.Contains(t, text, "\nturnstile_waiting_requests{class=\"interactive-any\"} 0\n")
	status, text = r.ask(http.MethodGet, "/status?view=json", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `"interactive-any"`)

	response, err := r.send(http.MethodPost, "/v1/chat/completions", strings.Replace(chat, `: 8`, `: 20`, 1))
	require.NoError(t, err)
	r.stop() // as a signal does, in the middle of the answer
	from := bufio.NewReader(response.Body)
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Contains(t, string(rest), "data: [DONE]")
	require.NoError(t, <-r.done)
	assert.Contains(t, r.log.String(), "first_token")
}

// The demo says what can be tried, and it works: an engine dies, and nobody notices.
func TestDemoFailover(t *testing.T) {
	t.Parallel()
	r := start(t, "-demo", "-health-interval", "1h")
	r.until("it says what can be tried", func() bool { return strings.Contains(r.stdout.String(), "/metrics show") })
	_, after, found := strings.Cut(r.stdout.String(), "curl -X POST ")
	require.True(t, found)
	kill, _, _ := strings.Cut(after, " ")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, kill, http.NoBody)
	require.NoError(t, err)
	response, err := r.client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	tries := make(map[string]bool)
	for range 500 { // some go to the dead engine first
		response, err := r.send(http.MethodPost, "/v1/chat/completions", strings.Replace(chat, `: 8`, `: 1`, 1))
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Contains(t, string(text), "[DONE]")
		tries[response.Header.Get("X-Turnstile-Tries")] = true
		if tries["2"] {
			break
		}
	}
	assert.True(t, tries["2"], "tries: %v", tries)
	r.stop()
	require.NoError(t, <-r.done)
}

func TestFilesAreTakenUp(t *testing.T) {
	t.Parallel()
	engine := func(model string) string {
		server := httptest.NewServer(simengine.New(simengine.Config{Model: model}))
		t.Cleanup(server.Close)
		return server.URL
	}
	dir := t.TempDir()
	backends, policy := filepath.Join(dir, "backends.yaml"), filepath.Join(dir, "policy.yaml")
	write := func(path, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(backends, "backends: [{url: "+engine("first")+"}]")
	write(policy, string(demoPolicy))
	r := start(t, "-backends", backends, "-policy", policy, "-reload", "1ms", "-health-interval", "1ms", "-v")
	_, text := r.ask(http.MethodGet, "/v1/models", "")
	assert.Contains(t, text, `"first"`)

	asked := strings.Replace(chat, "demo", "second", 1)
	write(backends, "backends: [{url: "+engine("second")+"}]")
	r.until("the first backend has been removed", func() bool { return strings.Contains(r.log.String(), "backend removed") })
	_, text = r.ask(http.MethodGet, "/v1/models", "")
	assert.NotContains(t, text, `"first"`)
	assert.Contains(t, text, `"second"`)
	status, _ := r.ask(http.MethodPost, "/v1/chat/completions", asked)
	assert.Equal(t, http.StatusOK, status)

	for _, bad := range []struct{ path, text, reason string }{
		{backends, "backends: [{url: 7}]", `reason="backends[0].url`},
		{backends, "", `reason="backends: must name at least one"`},
		{policy, "policy_classes: 7", `reason="invalid policy: line 1: policy_classes`},
		{backends, "backends: [{url: x}, {url: y}]", `reason="backends[1].url \"y\"`},
		{policy, "", `reason="no profile in the file: it is empty`},
	} {
		write(bad.path, bad.text)
		r.until("it says why not", func() bool {
			return strings.Contains(r.log.String(), `level=ERROR msg="file not taken: what was in force still is" path=`+bad.path+" "+bad.reason)
		})
		status, _ = r.ask(http.MethodPost, "/v1/chat/completions", asked)
		assert.Equal(t, http.StatusOK, status)
	}
	write(policy, strings.ReplaceAll(string(demoPolicy), "-any", "-renamed"))
	r.until("the new classes are there", func() bool {
		_, text := r.ask(http.MethodGet, "/metrics", "")
		return strings.Contains(text, `class="batch-renamed"`) && !strings.Contains(text, `class="batch-any"`)
	})
	r.stop()
	require.NoError(t, <-r.done)
}

func TestStopsAfterTheDrainTime(t *testing.T) {
	t.Parallel()
	came := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			close(came)
			<-r.Context().Done()
		}
	}))
	t.Cleanup(engine.Close)
	r := start(t, "-backend", engine.URL, "-drain", "1ms")
	cut := make(chan error)
	go func() {
		response, err := r.send(http.MethodPost, "/v1/chat/completions", chat)
		if err == nil {
			err = fmt.Errorf("answered %s", response.Status)
			_ = response.Body.Close()
		}
		cut <- err
	}()
	<-came
	r.stop()
	require.EqualError(t, <-r.done, "not all was finished in 1ms: requests cut off: 1")
	err := <-cut
	require.Error(t, err)
	require.NotContains(t, err.Error(), "answered")
}

func TestFlags(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("a: b"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	both := filepath.Join(t.TempDir(), "both")
	require.NoError(t, os.WriteFile(both, []byte("a: 1\nb: 2"), 0o600))
	for args, want := range map[string]string{
		"":                                  "exactly one of",
		"-demo -backend http://a":           "exactly one of",
		"-demo x":                           `unexpected argument "x"`,
		"-demo -drain 0s":                   "greater than 0",
		"-demo -tries 0":                    "greater than 0",
		"-demo -prefill-rate -1":            "must not be negative",
		"-demo -block-size 0":               "block size 0",
		"-demo -policy " + missing:          "no such file",
		"-demo -policy " + bad:              bad + ": invalid policy: line 1",
		"-demo -policy " + empty:            empty + ": no profile in the file",
		"-backends " + missing:              "no such file",
		"-backends " + bad:                  bad + ": backends file",
		"-backends " + both:                 both + `: backends file: line 1: unknown key "a"` + "\n" + both + `: backends file: line 2: unknown key "b"`,
		"-backend gpu-1":                    `url "gpu-1"`,
		"-backend http://a -listen nowhere": "nowhere",
		"-nonsense":                         "not defined",
		"-h":                                "help requested",
	} {
		err := run(t.Context(), strings.Fields(args), io.Discard, io.Discard)
		require.ErrorContains(t, err, want, args)
	}
}

// The files in this directory are what the README says: examples that load.
func TestExampleFilesLoad(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-backends", "backends.yaml", "-policy", "policy.yaml"}, io.Discard)
	require.NoError(t, err)
	g := &gateway{options: o, log: slog.New(slog.DiscardHandler)}
	file, err := g.readPolicy()
	require.NoError(t, err)
	assert.Empty(t, file.Warnings)
	for _, class := range file.For("").Config().Classes {
		assert.InDelta(t, 1.0, *class.BusyThresholdFrac, 0, class.Name)
		assert.Positive(t, class.GuardAfter, "%s: a class that waits beside others is never left behind", class.Name)
		assert.Positive(t, class.EndpointWait, class.Name)
	}
	assert.Positive(t, o.maxBatched)
	assert.Positive(t, o.prefillRate)
	require.NoError(t, g.readBackends())
	assert.Len(t, o.backends, 2)
}
