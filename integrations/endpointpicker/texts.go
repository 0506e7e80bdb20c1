package endpointpicker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The request headers that Texts reads.
const (
	// HeaderClass names the policy class or family. Without it the protocol's own
	// x-gateway-inference-objective does.
	HeaderClass = "x-turnstile-class"
	// HeaderPriority is a whole number; higher goes first within the class.
	HeaderPriority = "x-turnstile-priority"
	// HeaderNoQueue, if true, refuses a request that would have to wait.
	HeaderNoQueue = "x-turnstile-no-queue"

	headerObjective = "x-gateway-inference-objective"
)

// bytesPerToken is how much text counts as one token.
const bytesPerToken = 4

// Texts makes requests out of OpenAI-style bodies without a tokenizer: 4 bytes of text
// count as a token, which is about right for English and errs by less than a factor of
// two elsewhere. Load and overlap are compared with one another only, so what matters is
// that all requests are measured alike. A prompt of token ids is exact.
//
// It remembers which blocks of prompts each rank has computed lately, a guess at what its
// cache holds. It is safe for concurrent use.
type Texts struct {
	blockBytes int
	remember   int
	seed       maphash.Seed

	mu struct {
		sync.Mutex
		ranks map[sched.RankID]*simplelru.LRU[uint64, struct{}]
	}
}

// NewTexts returns a Texts that cuts prompts into blocks of so many tokens, at least 1,
// and remembers so many of each rank; 0 means 65,536.
func NewTexts(blockSize int64, remember int) *Texts {
	t := &Texts{blockBytes: int(max(1, blockSize)) * bytesPerToken, remember: cmp.Or(max(0, remember), 1<<16), seed: maphash.MakeSeed()}
	t.mu.ranks = make(map[sched.RankID]*simplelru.LRU[uint64, struct{}])
	return t
}

// fields are those of a body that bear on the scheduling. They are those of chat
// completions, completions, responses, messages, embeddings and rerank; whether they are
// as they must be is the engine's to say.
type fields struct {
	Model               string   `json:"model"`
	MaxTokens           *float64 `json:"max_tokens"`
	MaxCompletionTokens *float64 `json:"max_completion_tokens"`
	MaxOutputTokens     *float64 `json:"max_output_tokens"`
	Choices             *float64 `json:"n"`

	// What engines make the prompt of, in this order.
	Tools        json.RawMessage `json:"tools"`
	Functions    json.RawMessage `json:"functions"`
	Documents    json.RawMessage `json:"documents"`
	System       json.RawMessage `json:"system"`
	Instructions json.RawMessage `json:"instructions"`
	Query        json.RawMessage `json:"query"`
	Messages     json.RawMessage `json:"messages"`
	Prompt       json.RawMessage `json:"prompt"`
	Input        json.RawMessage `json:"input"`

	// By these they keep prompts apart that read the same.
	CacheSalt   json.RawMessage `json:"cache_salt"`
	ExtraKey    json.RawMessage `json:"extra_key"`
	LoRAPath    json.RawMessage `json:"lora_path"`
	AdapterID   json.RawMessage `json:"adapter_id"`
	MMProcessor json.RawMessage `json:"mm_processor_kwargs"`
	ToolChoice  json.RawMessage `json:"tool_choice"`
	Template    json.RawMessage `json:"chat_template"`
	Arguments   json.RawMessage `json:"chat_template_kwargs"`
	Reasoning   json.RawMessage `json:"reasoning_effort"`
}

// Request is a Config.Request. Of a request whose body is not shown, or is in parts,
// only the length is known.
func (t *Texts) Request(_ context.Context, header http.Header, body []byte) (*sched.Request, error) {
	r := &sched.Request{Class: cmp.Or(header.Get(HeaderClass), header.Get(headerObjective))}
	if text := header.Get(HeaderPriority); text != "" {
		priority, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: must be a whole number from 0 to 4294967295", HeaderPriority)
		}
		r.Priority = uint32(priority)
	}
	if text := header.Get(HeaderNoQueue); text != "" {
		var err error
		if r.DoNotQueue, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("%s: must be true or false", HeaderNoQueue)
		}
	}
	if len(body) == 0 || strings.HasPrefix(header.Get("Content-Type"), "multipart/") {
		length, _ := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
		r.ISL = tokensOf(max(length, int64(len(body))))
		return r, nil
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("the body is not as it must be: %w", err)
	}
	text := f.text()
	r.ISL = tokensOf(int64(len(text)))
	r.ExpectedOSL = f.limit()
	r.Blocks = t.blocks(&f, text)
	r.Overlaps = t.overlaps(r.Blocks)
	return r, nil
}

func tokensOf(length int64) int64 { return (max(0, length) + bytesPerToken - 1) / bytesPerToken }

// limit returns how long the output of all choices may be, 0 if the body does not say.
func (f *fields) limit() int64 {
	limit := cmp.Or(f.MaxCompletionTokens, f.MaxTokens, f.MaxOutputTokens)
	if limit == nil {
		return 0
	}
	choices := 1.0
	if f.Choices != nil {
		choices = max(1, *f.Choices)
	}
	return int64(min(max(0, *limit*choices), math.MaxInt32)) // an absurd one is the engine's to refuse
}

// text renders the prompt so that those that begin alike for an engine begin alike
// here: a list item by item, so that a longer list begins as a shorter one.
func (f *fields) text() []byte {
	var text bytes.Buffer
	for _, raw := range []json.RawMessage{f.Tools, f.Functions, f.Documents, f.System, f.Instructions, f.Query, f.Messages, f.Prompt, f.Input} {
		var list []json.RawMessage
		var ids []uint32
		switch {
		case len(raw) == 0 || string(raw) == "null":
		case raw[0] == '[' && json.Unmarshal(raw, &ids) == nil:
			for _, id := range ids {
				text.Write(binary.LittleEndian.AppendUint32(nil, id))
			}
		case raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
			for _, item := range list {
				compact(&text, item)
			}
		default:
			compact(&text, raw)
		}
	}
	return text.Bytes()
}

// compact appends a value without its outer quotes, so that a text that goes on begins
// as the shorter one.
func compact(text *bytes.Buffer, raw json.RawMessage) {
	if raw[0] == '"' {
		text.Write(raw[1 : len(raw)-1])
	} else {
		_ = json.Compact(text, raw) // it was read as JSON
	}
	text.WriteByte('\n')
}

// blocks returns a hash for each full block. Each commits to the model, to all else by
// which engines keep prompts apart, and to all blocks before it.
func (t *Texts) blocks(f *fields, text []byte) []uint64 {
	blocks := make([]uint64, 0, len(text)/t.blockBytes)
	var h maphash.Hash
	h.SetSeed(t.seed)
	_, _ = h.WriteString(f.Model)
	for _, raw := range []json.RawMessage{
		f.CacheSalt, f.ExtraKey, f.LoRAPath, f.AdapterID, f.MMProcessor, f.ToolChoice, f.Template, f.Arguments, f.Reasoning,
	} {
		_ = h.WriteByte(0) // JSON has none, so that no two lists of values read the same
		if string(raw) != "null" {
			_, _ = h.Write(raw)
		}
	}
	for ; len(text) >= t.blockBytes; text = text[t.blockBytes:] {
		var before [8]byte
		binary.LittleEndian.PutUint64(before[:], h.Sum64())
		h.Reset()
		_, _ = h.Write(before[:])
		_, _ = h.Write(text[:t.blockBytes])
		blocks = append(blocks, h.Sum64())
	}
	return blocks
}

func (t *Texts) overlaps(blocks []uint64) (overlaps []sched.Overlap) {
	if len(blocks) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for rank, held := range t.mu.ranks {
		n := 0
		for n < len(blocks) && held.Contains(blocks[n]) {
			n++
		}
		if n > 0 {
			overlaps = append(overlaps, sched.Overlap{Rank: rank, Device: float64(n)})
		}
	}
	return overlaps
}

// Computed is a Config.Computed: it remembers the blocks of the request's prompt.
func (t *Texts) Computed(rank sched.RankID, r *sched.Request) {
	if len(r.Blocks) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.mu.ranks[rank]
	if held == nil {
		held, _ = simplelru.NewLRU[uint64, struct{}](t.remember, nil) // fails only below 1
		t.mu.ranks[rank] = held
	}
	// From the last to the first: a block is worth nothing without those before it, so
	// the first must be the last to go.
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		held.Add(r.Blocks[i], struct{}{})
	}
}

// Forget drops what is known of a worker's ranks: it is gone, or may have been started
// again with nothing cached.
func (t *Texts) Forget(worker uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for rank := range t.mu.ranks {
		if rank.Worker == worker {
			delete(t.mu.ranks, rank)
		}
	}
}
