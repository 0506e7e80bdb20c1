package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// modelsTimeout bounds how long backends are asked for their models.
const modelsTimeout = 5 * time.Second

// serves tells whether a line serves a model. If its backends list none, they are to
// say.
func serves(line *Line, model string) bool {
	models := line.Fleet.Models()
	_, found := slices.BinarySearch(models, model)
	return found || len(models) == 0 || model == ""
}

func unknownModel(model string) *refusal {
	return &refusal{status: http.StatusNotFound, kind: kindRequest, code: "model_not_found", param: "model",
		message: fmt.Sprintf("the model %q does not exist", model)}
}

// models lists what the backends serve.
func (p *Proxy) models(w http.ResponseWriter, r *http.Request) {
	defer p.flight.end(p.name(w, r))
	if data, ok := p.modelData(w, r); ok {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data})
	}
}

// modelData returns what the backends serve: what they are configured with or, if
// that does not say, what those that are up answer. It is not ok if the client was
// refused.
func (p *Proxy) modelData(w http.ResponseWriter, r *http.Request) (data []json.RawMessage, ok bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, &refusal{status: http.StatusMethodNotAllowed, kind: kindRequest, code: "method_not_allowed",
			message: "method " + r.Method + ": must be GET"})
		return nil, false
	}
	data = []json.RawMessage{}
	names := p.listed()
	if len(names) == 0 {
		if data, ok = p.askForModels(r); !ok {
			refuse(w, &refusal{status: http.StatusServiceUnavailable, kind: kindServer, code: "no_endpoints",
				message: "no backend answered", retryAfter: 1})
		}
		return data, ok
	}
	for _, name := range names {
		entry, _ := json.Marshal(map[string]any{"id": name, "object": "model", "created": 0, "owned_by": "turnstile"})
		data = append(data, entry)
	}
	return data, true
}

// askForModels asks every backend that is up, and returns each model once, in the
// words of the first backend that has it.
func (p *Proxy) askForModels(r *http.Request) (merged []json.RawMessage, answered bool) {
	ctx, cancel := context.WithTimeout(r.Context(), modelsTimeout)
	defer cancel()
	up := p.up()
	answers := make([][]json.RawMessage, len(up))
	var wg sync.WaitGroup
	for i, b := range up {
		wg.Go(func() { answers[i] = p.modelsOf(ctx, b.URL, r.Header.Get("Authorization")) })
	}
	wg.Wait()
	merged = []json.RawMessage{}
	seen := make(map[string]bool)
	for _, entries := range answers {
		answered = answered || entries != nil
		for _, entry := range entries {
			if id := modelID(entry); id != "" && !seen[id] {
				seen[id] = true
				merged = append(merged, entry)
			}
		}
	}
	return merged, answered
}

// modelsOf returns nil if the backend does not answer.
func (p *Proxy) modelsOf(ctx context.Context, address, authorization string) []json.RawMessage {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/v1/models", http.NoBody)
	if err != nil {
		return nil
	}
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if response.StatusCode != http.StatusOK ||
		json.NewDecoder(io.LimitReader(response.Body, p.MaxBody)).Decode(&list) != nil {
		return nil
	}
	if list.Data == nil {
		list.Data = []json.RawMessage{}
	}
	return list.Data
}
