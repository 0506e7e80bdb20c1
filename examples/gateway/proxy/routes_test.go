package proxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
)

// TestOtherEndpointsArePlaced: what the gateway knows little of is placed and passed
// on as it is, streams too.
func TestOtherEndpointsArePlaced(t *testing.T) {
	t.Parallel()
	echo := backend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/v1/responses" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "event: response.completed\ndata: "+string(body)+"\n\n")
			return
		}
		_, _ = io.WriteString(w, r.URL.Path+" "+string(body))
	}))
	r := newRig(t, setup{backends: []fleet.Backend{echo}})
	for path, body := range map[string]string{
		"/v1/embeddings": `{"model": "m", "input": ["a", "b"]}`,
		"/v1/messages":   `{"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "x"}]}`,
		"/v1/rerank":     `{"model": "m", "query": "q", "documents": ["a", {"text": "b"}]}`,
	} {
		response, text := r.post(path, body, nil)
		require.Equal(t, http.StatusOK, response.StatusCode, text)
		assert.Equal(t, path+" "+body, text)
		assert.Equal(t, "1/0", response.Header.Get(proxy.HeaderWorker), "it was placed")
		assert.NotEmpty(t, response.Header.Get("X-Request-Id"))
	}
	response, text := r.post("/v1/responses", `{"stream": true, "input": "x"}`, nil)
	require.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, "event: response.completed\ndata: {\"stream\": true, \"input\": \"x\"}\n\n", text)
	r.idle()
	assert.EqualValues(t, 4, r.s.Stats().Admitted)

	for path, field := range map[string]string{
		"/v1/embeddings": "input", "/v1/messages": "messages", "/v1/rerank": "query", "/v1/responses": "input",
	} {
		response, text := r.post(path, `{}`, nil)
		assert.Equal(t, http.StatusBadRequest, response.StatusCode)
		assert.Contains(t, text, `"param":"`+field+`"`)
	}
	_, text = r.post("/v1/rerank", `{"query": "q"}`, nil)
	assert.Contains(t, text, `"param":"documents"`)
}

func TestUnknownURLs(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backends: []fleet.Backend{engine(t)}})
	response, err := r.send(t.Context(), "POST", "/v1/audio/speech", "{}", map[string]string{"X-Request-Id": "mine"})
	require.NoError(t, err)
	text := all(t, response)
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
	assert.Equal(t, "mine", response.Header.Get("X-Request-Id"))
	p := problemOf(t, text)
	assert.Equal(t, "unknown_url", p.Code)
	assert.Contains(t, text, "POST /v1/audio/speech; supported are /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/embeddings, /v1/rerank, /v1/models")
}

func TestOneModel(t *testing.T) {
	t.Parallel()
	listed := engine(t)
	listed.Models = []string{"org/name"}
	r := newRig(t, setup{backends: []fleet.Backend{listed}})
	response, text := r.get("/v1/models/org/name")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.NotEmpty(t, response.Header.Get("X-Request-Id"))
	assert.JSONEq(t, `{"id":"org/name","object":"model","created":0,"owned_by":"turnstile"}`, text)
	response, text = r.get("/v1/models/other")
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
	assert.Equal(t, "model_not_found", problemOf(t, text).Code)

	r = newRig(t, setup{backends: []fleet.Backend{engine(t)}}) // it is asked
	response, text = r.get("/v1/models/m")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Contains(t, text, `"owned_by":"simengine"`)
}
