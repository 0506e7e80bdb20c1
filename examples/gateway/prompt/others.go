package prompt

import (
	"bytes"
	"encoding/json"
)

// The other endpoints whose requests are placed. Of their bodies only what bears on
// the scheduling is read; whether the rest is as it must be is the engine's to say.
// Blocks are those of the text as it comes, so two requests that begin with the same
// items share them.

type responses struct {
	shared
	MaxOutputTokens *float64        `json:"max_output_tokens"`
	Instructions    json.RawMessage `json:"instructions"`
	Tools           json.RawMessage `json:"tools"`
	Input           json.RawMessage `json:"input"`
}

// Responses reads the body of a request to /v1/responses. Its error is a *FieldError.
func (r *Reader) Responses(body []byte) (*Request, error) {
	var q responses
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	if !present(q.Input) {
		return nil, &FieldError{"input", "must be a string or a list of items"}
	}
	if q.MaxOutputTokens != nil {
		q.MaxTokens = q.MaxOutputTokens
	}
	return r.items(&q.shared, q.Input, q.Tools, q.Instructions), nil
}

type messages struct {
	shared
	System   json.RawMessage   `json:"system"`
	Tools    json.RawMessage   `json:"tools"`
	Messages []json.RawMessage `json:"messages"`
}

// Messages reads the body of a request to /v1/messages. Its error is a *FieldError.
func (r *Reader) Messages(body []byte) (*Request, error) {
	var q messages
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	if len(q.Messages) == 0 {
		return nil, &FieldError{"messages", "must be a list with at least one message"}
	}
	var text bytes.Buffer
	for _, before := range []json.RawMessage{q.Tools, q.System} {
		r.item(&text, before)
	}
	for _, m := range q.Messages {
		r.item(&text, m)
	}
	return r.request(&q.shared, text.Bytes()), nil
}

// items renders a list of items, or a text, behind what stands before it.
func (r *Reader) items(s *shared, input json.RawMessage, before ...json.RawMessage) *Request {
	var text bytes.Buffer
	for _, raw := range before {
		r.item(&text, raw)
	}
	var list []json.RawMessage
	if json.Unmarshal(input, &list) != nil {
		list = []json.RawMessage{input}
	}
	for _, raw := range list {
		r.item(&text, raw)
	}
	return r.request(s, text.Bytes())
}

func (r *Reader) item(text *bytes.Buffer, raw json.RawMessage) {
	if present(raw) {
		_ = json.Compact(text, raw) // it was read as JSON
		text.WriteByte('\n')
	}
}

type embeddings struct {
	shared
	Input json.RawMessage `json:"input"`
}

// Embeddings reads the body of a request to /v1/embeddings: a text, a list of texts,
// a list of token ids, or a list of such lists. It has no blocks, as nothing of it
// stays in a cache that a later request could use. Its error is a *FieldError.
func (r *Reader) Embeddings(body []byte) (*Request, error) {
	var q embeddings
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if !promptText(&text, q.Input) {
		return nil, &FieldError{"input", "must be a string, a list of strings, a list of token ids or a list of lists of token ids"}
	}
	return r.unshared(&q.shared, text.Len()), nil
}

type rerank struct {
	shared
	Query     json.RawMessage   `json:"query"`
	Documents []json.RawMessage `json:"documents"`
}

// Rerank reads the body of a request to /v1/rerank: the query is read with each
// document. It has no blocks. Its error is a *FieldError.
func (r *Reader) Rerank(body []byte) (*Request, error) {
	var q rerank
	switch err := decode(body, &q); {
	case err != nil:
		return nil, err
	case !present(q.Query):
		return nil, &FieldError{"query", "must be a string"}
	case len(q.Documents) == 0:
		return nil, &FieldError{"documents", "must be a list with at least one document"}
	}
	length := 0
	for _, d := range q.Documents {
		length += len(q.Query) + len(d)
	}
	return r.unshared(&q.shared, length), nil
}

// unshared is a request without blocks, of so many bytes of text.
func (r *Reader) unshared(s *shared, length int) *Request {
	q := r.request(s, nil)
	q.Tokens, q.MaxTokens = int64((length+BytesPerToken-1)/BytesPerToken), 0
	return q
}
