// Package simengine simulates an inference engine behind the OpenAI API, for the
// demo and for tests: it computes nothing, but takes the time that an engine would
// take, computes one prompt at a time, and keeps the prompts it has computed.
package simengine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
)

// Config says how fast an engine is.
type Config struct {
	// Model is the name of the model it serves.
	Model string
	// PrefillPerToken is the time to compute a prompt token that is not cached.
	PrefillPerToken time.Duration
	// PerToken is the time between two output tokens.
	PerToken time.Duration
	// BlockSize is the number of tokens in a block of the prefix cache, default 16.
	BlockSize int64
}

// Engine is an http.Handler. POST /kill has it die: answers break off, and whoever
// comes is cut off without one, until POST /revive. Its cache is empty then.
type Engine struct {
	config  Config
	reader  *prompt.Reader
	mux     *http.ServeMux
	born    int64         // seconds since 1970
	compute chan struct{} // held by the prompt that is being computed

	mu struct {
		sync.Mutex
		cached map[uint64]struct{}
		life   lifetime
	}
}

// lifetime ends when the engine dies.
type lifetime struct {
	context context.Context
	die     context.CancelFunc
}

const (
	defaultTokens = 16
	maxTokens     = 4096
)

// New returns an engine with an empty cache.
func New(config Config) *Engine {
	config.BlockSize = cmp.Or(config.BlockSize, 16)
	e := &Engine{
		config: config, reader: prompt.NewReader(config.BlockSize), mux: http.NewServeMux(), compute: make(chan struct{}, 1), born: time.Now().Unix(),
	}
	e.revive()
	e.mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	e.mux.HandleFunc("GET /v1/models", e.models)
	e.mux.HandleFunc("GET /v1/models/{id}", e.oneModel)
	e.mux.HandleFunc("POST /v1/chat/completions", e.answer(e.reader.Chat, true))
	e.mux.HandleFunc("POST /v1/completions", e.answer(e.reader.Completion, false))
	return e
}

// ServeHTTP serves the API.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + r.URL.Path {
	case "POST/kill":
		e.lifetime().die()
		return
	case "POST/revive":
		e.revive()
		return
	}
	life := e.lifetime()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(life.context, cancel)()
	if life.context.Err() == nil {
		e.mux.ServeHTTP(w, r.WithContext(ctx))
	}
	if life.context.Err() != nil {
		panic(http.ErrAbortHandler) // the server breaks the connection
	}
}

func (e *Engine) lifetime() lifetime {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.life
}

func (e *Engine) revive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.life.context != nil && e.mu.life.context.Err() == nil {
		return
	}
	e.mu.cached = make(map[uint64]struct{})
	e.mu.life.context, e.mu.life.die = context.WithCancel(context.Background())
}

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	send(w, http.StatusOK, object{"object": "list", "data": []object{e.model()}})
}

func (e *Engine) model() object {
	return object{"id": e.config.Model, "object": "model", "created": e.born, "owned_by": "simengine"}
}

func (e *Engine) oneModel(w http.ResponseWriter, r *http.Request) {
	if id := r.PathValue("id"); id != e.config.Model {
		complain(w, &fault{http.StatusNotFound, fmt.Sprintf("the model %q does not exist", id), "model", "model_not_found"})
		return
	}
	send(w, http.StatusOK, e.model())
}

func (e *Engine) answer(read func([]byte) (*prompt.Request, error), chat bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		q, err := read(body)
		if err != nil {
			f := &fault{http.StatusBadRequest, err.Error(), "", "invalid_value"}
			if wrong := new(prompt.FieldError); errors.As(err, &wrong) {
				f.param = wrong.Field
			}
			complain(w, f)
			return
		}
		a, f := readAsked(body, e.config.Model)
		if f != nil {
			complain(w, f)
			return
		}
		cached, err := e.prefill(r.Context(), q)
		if err != nil {
			return
		}
		reply := &reply{
			chat: chat, model: cmp.Or(q.Model, e.config.Model), id: r.Header.Get("X-Request-Id"), created: time.Now().Unix(), choices: a.choices, cut: a.cut,
		}
		n := a.tokens
		if chat {
			if reply.tool = a.tool(); reply.tool != "" {
				n = 1
			}
		}
		out := n * int64(a.choices)
		reply.usage = object{
			"prompt_tokens": q.Tokens, "completion_tokens": out, "total_tokens": q.Tokens + out,
			"prompt_tokens_details": object{"cached_tokens": cached},
		}
		if q.Stream {
			e.stream(r.Context(), w, reply, n, a.Stream.Usage)
			return
		}
		var text strings.Builder
		for i := range n {
			if err := pause(r.Context(), e.config.PerToken); err != nil {
				return
			}
			text.WriteString(word(i))
		}
		send(w, http.StatusOK, reply.whole(text.String()))
	}
}

// prefill computes what is not cached of a prompt, and returns how many tokens were.
func (e *Engine) prefill(ctx context.Context, q *prompt.Request) (cached int64, err error) {
	select {
	case e.compute <- struct{}{}:
		defer func() { <-e.compute }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	e.mu.Lock()
	for _, block := range q.Blocks {
		if _, found := e.mu.cached[block]; !found {
			break
		}
		cached += e.config.BlockSize
	}
	e.mu.Unlock()
	if err := pause(ctx, time.Duration(q.Tokens-cached)*e.config.PrefillPerToken); err != nil {
		return 0, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, block := range q.Blocks {
		e.mu.cached[block] = struct{}{}
	}
	return cached, nil
}

func (e *Engine) stream(ctx context.Context, w http.ResponseWriter, reply *reply, n int64, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	event := func(o object) bool {
		text, _ := json.Marshal(o)
		_, err := fmt.Fprintf(w, "data: %s\n\n", text)
		return err == nil && control.Flush() == nil
	}
	// Each piece goes to every choice.
	pieces := func(piece func(choice int) object) bool {
		for choice := range reply.choices {
			if !event(piece(choice)) {
				return false
			}
		}
		return true
	}
	if reply.chat && !pieces(reply.opening) {
		return
	}
	for i := range n {
		if pause(ctx, e.config.PerToken) != nil || !pieces(func(choice int) object { return reply.token(choice, word(i)) }) {
			return
		}
	}
	if !pieces(reply.closing) || usage && !event(reply.bill()) {
		return
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// complain answers with an error in the words of the OpenAI API.
func complain(w http.ResponseWriter, f *fault) {
	details := object{"message": f.message, "type": "invalid_request_error", "param": nil, "code": f.code}
	if f.param != "" {
		details["param"] = f.param
	}
	send(w, f.status, object{"error": details})
}

func send(w http.ResponseWriter, status int, o object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(o)
}
