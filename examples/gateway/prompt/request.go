package prompt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"strings"
)

// BytesPerToken is how much text counts as one token.
const BytesPerToken = 4

// nonTextBytes is what an image or another part that is not text counts in a
// prompt: 256 tokens, in the middle of what engines make of an image.
const nonTextBytes = 256 * BytesPerToken

// maxOthers bounds the parts that are not text, each of which a few bytes make
// hundreds of.
const maxOthers = 1024

// Request is what the scheduler needs to know of a request body.
type Request struct {
	// Model is the model asked for; empty if the body does not say.
	Model string
	// Stream tells that the answer is to come as server-sent events.
	Stream bool
	// MaxTokens bounds the output of all choices together; 0 if the body does not.
	MaxTokens int64
	// Tokens is the length of the prompt.
	Tokens int64
	// Blocks holds a hash for each full block of the prompt. Each commits to the
	// model, to all else by which engines keep prompts apart, and to all blocks
	// before it.
	Blocks []uint64
}

// FieldError says which field of a body is at fault.
type FieldError struct {
	// Field is the name of the field; empty if the body as a whole is meant.
	Field string
	// Rule says what it must be.
	Rule string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Rule
	}
	return e.Field + ": " + e.Rule
}

// Reader reads bodies. It is safe for concurrent use.
type Reader struct {
	blockBytes int
	seed       maphash.Seed
}

// NewReader returns a reader that cuts prompts into blocks of so many tokens, at
// least 1. Two readers give different hashes.
func NewReader(blockSize int64) *Reader {
	return &Reader{blockBytes: int(max(1, blockSize)) * BytesPerToken, seed: maphash.MakeSeed()}
}

// shared are the fields that both kinds of request have.
type shared struct {
	Model               string   `json:"model"`
	Stream              *bool    `json:"stream"`
	MaxTokens           *float64 `json:"max_tokens"`
	MaxCompletionTokens *float64 `json:"max_completion_tokens"`
	Choices             *float64 `json:"n"`
	apart
}

// apart are the fields by which engines keep prompts apart that read the same: salts
// (vLLM, SGLang), adapters that are not named as the model (SGLang, TGI), and what
// is made of images.
type apart struct {
	CacheSalt   json.RawMessage `json:"cache_salt"`
	ExtraKey    json.RawMessage `json:"extra_key"`
	LoRAPath    json.RawMessage `json:"lora_path"`
	AdapterID   json.RawMessage `json:"adapter_id"`
	MMProcessor json.RawMessage `json:"mm_processor_kwargs"`
}

// templated are the fields besides messages of which chat templates make text, mostly
// at the beginning.
type templated struct {
	Tools      json.RawMessage `json:"tools"`
	Functions  json.RawMessage `json:"functions"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Documents  json.RawMessage `json:"documents"`
	Template   json.RawMessage `json:"chat_template"`
	Arguments  json.RawMessage `json:"chat_template_kwargs"`
	Reasoning  json.RawMessage `json:"reasoning_effort"`
}

type chat struct {
	shared
	templated
	Messages []message `json:"messages"`
}

type message struct {
	Role       string          `json:"role"`
	Name       string          `json:"name"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Thoughts   json.RawMessage `json:"reasoning_content"`
}

type part struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

type completion struct {
	shared
	Prompt json.RawMessage `json:"prompt"`
}

// Chat reads the body of a chat completion. Its error is a *FieldError.
func (r *Reader) Chat(body []byte) (*Request, error) {
	var c chat
	if err := decode(body, &c); err != nil {
		return nil, err
	}
	if len(c.Messages) == 0 {
		return nil, &FieldError{"messages", "must be a list with at least one message"}
	}
	var text bytes.Buffer
	t := &c.templated
	for i, raw := range []json.RawMessage{t.Tools, t.Functions, t.Documents} {
		if present(raw) {
			fmt.Fprintf(&text, "<|%d|>\n%s\n", i, raw)
		}
	}
	others := 0
	for i := range c.Messages {
		if err := r.render(&text, &c.Messages[i], &others); err != nil {
			err.Field = fmt.Sprintf("messages[%d].%s", i, err.Field)
			return nil, err
		}
	}
	// These say how it is rendered: they change the text, but are not its length.
	return r.request(&c.shared, text.Bytes(), t.ToolChoice, t.Template, t.Arguments, t.Reasoning), nil
}

// Completion reads the body of a plain completion, whose prompt is a text, a list
// of texts, a list of token ids, or a list of such lists. Its error is a
// *FieldError.
func (r *Reader) Completion(body []byte) (*Request, error) {
	var c completion
	if err := decode(body, &c); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if !promptText(&text, c.Prompt) {
		return nil, &FieldError{"prompt", "must be a string, a list of strings, a list of token ids or a list of lists of token ids"}
	}
	return r.request(&c.shared, text.Bytes()), nil
}

func decode(body []byte, into any) *FieldError {
	err := json.Unmarshal(body, into)
	if err == nil {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return &FieldError{strings.TrimPrefix(wrong.Field, "shared."), fmt.Sprintf("must not be a JSON %s", wrong.Value)}
	}
	return &FieldError{"", "the body is not valid JSON: " + err.Error()}
}

// render appends a message much as a chat template would: what is the same for
// an engine must be the same here, and what differs must differ.
func (r *Reader) render(text *bytes.Buffer, m *message, others *int) *FieldError {
	if m.Role == "" {
		return &FieldError{"role", "must be a string that is not empty"}
	}
	fmt.Fprintf(text, "<|%s %s %s|>\n", m.Role, m.Name, m.ToolCallID)
	if present(m.ToolCalls) {
		text.Write(m.ToolCalls)
		text.WriteByte('\n')
	}
	if present(m.Thoughts) {
		text.Write(m.Thoughts)
		text.WriteByte('\n')
	}
	if !present(m.Content) {
		return nil // as in an assistant's message that only calls tools
	}
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		text.WriteString(s)
		text.WriteByte('\n')
		return nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(m.Content, &parts) != nil {
		return &FieldError{"content", "must be a string or a list of parts"}
	}
	for _, raw := range parts {
		var p part
		if json.Unmarshal(raw, &p) != nil {
			return &FieldError{"content", "must be a string or a list of parts"}
		}
		if p.Text != nil {
			text.WriteString(*p.Text)
		} else {
			if *others++; *others > maxOthers {
				return &FieldError{"content", fmt.Sprintf("has more than %d parts that are not text", maxOthers)}
			}
			hash := fmt.Sprintf("%016x", maphash.Bytes(r.seed, raw))
			text.WriteString(strings.Repeat(hash, nonTextBytes/len(hash)))
		}
		text.WriteByte('\n')
	}
	return nil
}

// promptText appends the prompt of a plain completion: texts as they are, a token
// id as the four bytes that count as a token.
func promptText(text *bytes.Buffer, raw json.RawMessage) bool {
	if !present(raw) {
		return false
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		text.WriteString(s)
		return true
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return false
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil {
		for _, id := range ids {
			text.Write(binary.LittleEndian.AppendUint32(nil, id))
		}
		return true
	}
	for _, item := range list {
		if item[0] != '"' && item[0] != '[' || item[0] == '[' && !tokens(item) {
			return false
		}
		if !promptText(text, item) {
			return false
		}
	}
	return true
}

func tokens(raw json.RawMessage) bool {
	var ids []uint32
	return json.Unmarshal(raw, &ids) == nil
}

func (r *Reader) request(s *shared, text []byte, rendering ...json.RawMessage) *Request {
	q := &Request{
		Model: s.Model, Stream: s.Stream != nil && *s.Stream,
		Tokens: int64((len(text) + BytesPerToken - 1) / BytesPerToken),
		Blocks: make([]uint64, 0, len(text)/r.blockBytes),
	}
	limit := s.MaxCompletionTokens
	if limit == nil {
		limit = s.MaxTokens
	}
	if limit != nil {
		choices := 1.0
		if s.Choices != nil {
			choices = max(1, *s.Choices)
		}
		// An absurd bound is the engine's to refuse.
		q.MaxTokens = int64(min(max(0, *limit*choices), math.MaxInt32))
	}
	var h maphash.Hash
	h.SetSeed(r.seed)
	_, _ = h.WriteString(s.Model)
	for _, raw := range append(rendering, s.CacheSalt, s.ExtraKey, s.LoRAPath, s.AdapterID, s.MMProcessor) {
		if !present(raw) {
			raw = nil
		}
		_ = h.WriteByte(0) // JSON has none, so that no two lists of values read the same
		_, _ = h.Write(raw)
	}
	for ; len(text) >= r.blockBytes; text = text[r.blockBytes:] {
		var before [8]byte
		binary.LittleEndian.PutUint64(before[:], h.Sum64())
		h.Reset()
		_, _ = h.Write(before[:])
		_, _ = h.Write(text[:r.blockBytes])
		q.Blocks = append(q.Blocks, h.Sum64())
	}
	return q
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
