package proxy_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/simengine"
)

func TestModelsAreAskedForAndMerged(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{backends: []fleet.Backend{
		deadBackend(t), engine(t), engine(t), backend(t, simengine.New(simengine.Config{Model: "other"})),
	}})
	response, text := r.get("/v1/models")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	text = regexp.MustCompile(`"created":\d+,`).ReplaceAllString(text, "")
	m := `{"id":"m","object":"model","owned_by":"simengine"}`
	other := `{"id":"other","object":"model","owned_by":"simengine"}`
	assert.Contains(t, []string{
		`{"data":[` + m + `,` + other + `],"object":"list"}` + "\n",
		`{"data":[` + other + `,` + m + `],"object":"list"}` + "\n",
	}, text, "backends are asked in the order of their addresses")

	r = newRig(t, setup{backends: []fleet.Backend{deadBackend(t)}})
	response, text = r.get("/v1/models")
	assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	assert.Equal(t, "no_endpoints", problemOf(t, text).Code)
}

func TestModelsThatAreListed(t *testing.T) {
	t.Parallel()
	first, second := engine(t), engine(t)
	first.Models, second.Models = []string{"a", "both"}, []string{"b", "both"}
	r := newRig(t, setup{backends: []fleet.Backend{first, second}})
	_, text := r.get("/v1/models")
	assert.JSONEq(t, `{"object":"list","data":[
		{"id":"a","object":"model","created":0,"owned_by":"turnstile"},
		{"id":"b","object":"model","created":0,"owned_by":"turnstile"},
		{"id":"both","object":"model","created":0,"owned_by":"turnstile"}]}`, text)
	for model, worker := range map[string]string{"a": "1/0", "b": "2/0", "both": "1/0", "": "1/0"} {
		response, _ := r.post("/v1/completions", `{"prompt":"x","model":"`+model+`"}`, nil)
		assert.Equal(t, worker, response.Header.Get(proxy.HeaderWorker), model)
	}
	response, text := r.post("/v1/completions", `{"prompt":"x","model":"c"}`, nil)
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
	assert.Equal(t, "model_not_found", problemOf(t, text).Code)
}
