package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stalling is an engine that answers a completion when it is told to.
func stalling(t *testing.T) (url string, came <-chan struct{}, answer chan<- string) {
	t.Helper()
	arrivals, answers := make(chan struct{}, 100), make(chan string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return // a check
		}
		_, _ = io.Copy(io.Discard, r.Body)
		arrivals <- struct{}{}
		select {
		case text := <-answers:
			_, _ = io.WriteString(w, text)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, arrivals, answers
}

// quick is an engine that answers at once, with its name.
func quick(t *testing.T, name string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// replace writes a file as a whole, as whoever edits it should.
func replace(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

const onePerRank = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0, request_queue_limit_per_worker: 1}
models:
  c:
    default_policy_family: chat
    uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
    policy_classes:
      - {name: own-of-c, policy_family: chat, cache_bucket: all, quantum: 8192}
`

func TestALineForEachModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, backends := filepath.Join(dir, "policy"), filepath.Join(dir, "backends")
	slow, came, answer := stalling(t)
	list := fmt.Sprintf("backends:\n- {url: %s, models: [a, adapter]}\n- {url: %s, models: [b/7B]}\n", slow, quick(t, "b"))
	replace(t, policy, onePerRank)
	replace(t, backends, list)
	r := start(t, "-backends", backends, "-policy", policy, "-reload", "1ms", "-health-interval", "10ms", "-prefill-rate", "0", "-v")
	ask := func(model string) (int, string) {
		return r.ask(http.MethodPost, "/v1/completions", `{"prompt":"x","model":"`+model+`"}`)
	}
	got := make(chan string)
	for range 3 { // one is served, two wait
		go func() {
			status, text := ask("adapter")
			got <- fmt.Sprint(status, text)
		}()
	}
	<-came
	waits := func(n int) func() bool {
		return func() bool {
			_, text := r.ask(http.MethodGet, "/metrics", "")
			return strings.Contains(text, fmt.Sprintf("turnstile_waiting_requests{class=\"chat\",model=\"a\"} %d\n", n))
		}
	}
	full := <-got // the line holds one
	assert.Contains(t, full, "429")
	r.until("one waits", waits(1))
	status, text := ask("a")
	assert.Equal(t, http.StatusTooManyRequests, status, "what the same engines serve has one line: %s", text)
	for range 10 {
		status, text = ask("b/7B")
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, "b", text, "the other model has nothing to do with that")
	}
	status, text = ask("nowhere")
	assert.Equal(t, http.StatusNotFound, status)
	assert.Contains(t, text, "model_not_found")
	status, text = ask("")
	assert.Equal(t, http.StatusBadRequest, status)
	assert.Contains(t, text, "must name a model")
	_, text = r.ask(http.MethodGet, "/v1/models", "")
	assert.Equal(t, 3, strings.Count(text, `"object":"model"`), text)

	// Each has a status page.
	status, text = r.ask(http.MethodGet, "/status", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, text, `<a href="/status/b/7B">`)
	_, text = r.ask(http.MethodGet, "/status/a?view=json", "")
	assert.Contains(t, text, slow)
	status, _ = r.ask(http.MethodGet, "/status/nowhere", "")
	assert.Equal(t, http.StatusNotFound, status)

	// A model more, with a profile of its own; the others stay as they are, and so do
	// those who wait.
	replace(t, backends, list+fmt.Sprintf("- {url: %s, models: [c]}\n", quick(t, "c")))
	r.until("c is there", func() bool {
		status, text := ask("c")
		return status == http.StatusOK && text == "c"
	})
	_, text = r.ask(http.MethodGet, "/metrics", "")
	assert.Contains(t, text, `class="own-of-c",model="c"`)
	assert.True(t, waits(1)())
	answer <- "first"
	assert.Equal(t, "200first", <-got)
	<-came
	answer <- "second"
	assert.Equal(t, "200second", <-got)

	// The policy is taken up by all, and a file that lacks one for some by none.
	replace(t, policy, "models:\n  c: {default_policy_family: f, uncached_isl_buckets: [{min_tokens: 0, bucket: all}], policy_classes: [{name: new, policy_family: f, cache_bucket: all, quantum: 1}]}")
	r.until("it says why not", func() bool {
		return strings.Contains(r.log.String(), `no profile for the model \"a\" in the policy`)
	})
	replace(t, policy, strings.ReplaceAll(strings.ReplaceAll(onePerRank, "own-of-c", "new-of-c"), "name: chat", "name: new"))
	r.until("the new classes are there", func() bool {
		_, text := r.ask(http.MethodGet, "/metrics", "")
		return strings.Contains(text, `class="new-of-c",model="c"`) && strings.Contains(text, `class="new",model="a"`) &&
			strings.Contains(text, `class="new",model="b/7B"`)
	})

	// A model that leaves: what is being answered is finished, others are told.
	go func() {
		status, text := ask("a")
		got <- fmt.Sprint(status, text)
	}()
	<-came
	replace(t, backends, fmt.Sprintf("backends: [{url: %s, models: [b/7B]}]", quick(t, "other")))
	r.until("a is gone", func() bool {
		_, text := r.ask(http.MethodGet, "/v1/models", "")
		return !strings.Contains(text, `"adapter"`)
	})
	answer <- "third"
	assert.Equal(t, "200third", <-got)
	_, text = ask("b/7B")
	assert.Equal(t, "other", text)
	r.stop()
	require.NoError(t, <-r.done)
}

// The backends file names others while requests wait, and none of them is refused.
func TestReloadReplacesAllBackends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, backends := filepath.Join(dir, "policy"), filepath.Join(dir, "backends")
	slow, came, answer := stalling(t)
	replace(t, policy, strings.Replace(onePerRank, "per_worker: 1", "per_worker: 100", 1))
	replace(t, backends, "backends: [{name: gpu, url: "+slow+"}]")
	r := start(t, "-backends", backends, "-policy", policy, "-reload", "1ms", "-health-interval", "10ms", "-prefill-rate", "0")
	got := make(chan string)
	ask := func() {
		status, text := r.ask(http.MethodPost, "/v1/completions", `{"prompt":"x"}`)
		got <- fmt.Sprint(status, text)
	}
	go ask()
	<-came
	for range 10 {
		go ask()
	}
	r.until("ten wait", func() bool {
		_, text := r.ask(http.MethodGet, "/metrics", "")
		return strings.Contains(text, "turnstile_waiting_requests{class=\"chat\"} 10\n")
	})
	// The new one answers its checks late.
	ready := make(chan struct{})
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-ready:
		case <-r.Context().Done():
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "new")
	}))
	t.Cleanup(late.Close)
	replace(t, backends, "backends: [{name: gpu, url: "+late.URL+"}]")
	time.AfterFunc(20*time.Millisecond, func() { close(ready) })
	for range 10 {
		assert.Equal(t, "200new", <-got)
	}
	answer <- "old"
	assert.Equal(t, "200old", <-got)
	r.stop()
	require.NoError(t, <-r.done)
}
