package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
)

// placed are the endpoints whose requests are placed and passed on, streams too.
func placed(r *prompt.Reader) []route {
	return []route{
		{"/v1/chat/completions", r.Chat},
		{"/v1/completions", r.Completion},
		{"/v1/responses", r.Responses},
		{"/v1/messages", r.Messages},
		{"/v1/embeddings", r.Embeddings},
		{"/v1/rerank", r.Rerank},
	}
}

type route struct {
	path string
	read func([]byte) (*prompt.Request, error)
}

// routes has the proxy serve all that it serves by itself.
func (p *Proxy) routes() {
	var paths []string
	for _, r := range placed(p.Reader) {
		p.mux.HandleFunc(r.path, p.completion(r.read))
		paths = append(paths, r.path)
	}
	p.mux.HandleFunc("/v1/models", p.models)
	p.mux.HandleFunc("/v1/models/{id...}", p.model)
	p.mux.HandleFunc("/healthz", p.health)
	p.mux.HandleFunc("/livez", p.alive)
	supported := strings.Join(paths, ", ") + ", /v1/models"
	p.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		defer p.flight.end(p.name(w, r))
		refuse(w, &refusal{status: http.StatusNotFound, kind: kindRequest, code: "unknown_url",
			message: fmt.Sprintf("unknown request URL: %s %s; supported are %s", r.Method, r.URL.Path, supported)})
	})
}

// name gives a request that is not placed its id; it is in flight until that is ended.
func (p *Proxy) name(w http.ResponseWriter, r *http.Request) (id string) {
	id = p.flight.begin(r.Header.Get("X-Request-Id"))
	w.Header().Set("X-Request-Id", id)
	return id
}

// model tells of one model what the list of models says of it.
func (p *Proxy) model(w http.ResponseWriter, r *http.Request) {
	defer p.flight.end(p.name(w, r))
	data, ok := p.modelData(w, r)
	if !ok {
		return
	}
	wanted := r.PathValue("id")
	for _, entry := range data {
		if modelID(entry) == wanted {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(append(entry, '\n'))
			return
		}
	}
	refuse(w, unknownModel(wanted))
}

func modelID(entry json.RawMessage) string {
	var model struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(entry, &model)
	return model.ID
}
