package prompt_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const block = 16 * prompt.BytesPerToken

func text(blocks int) string { return strings.Repeat("x", blocks*block) }

func TestCompletion(t *testing.T) {
	t.Parallel()
	r := prompt.NewReader(16)
	for body, want := range map[string]prompt.Request{
		`{"prompt":""}`:                                                        {},
		`{"prompt":"hello","model":"m"}`:                                       {Model: "m", Tokens: 2},
		`{"prompt":["four","more"],"stream":true}`:                             {Stream: true, Tokens: 2},
		`{"prompt":[1,2,3]}`:                                                   {Tokens: 3},
		`{"prompt":[[1,2],[3]],"stream":null}`:                                 {Tokens: 3},
		`{"prompt":"x","max_tokens":7}`:                                        {Tokens: 1, MaxTokens: 7},
		`{"prompt":"x","max_tokens":7,"n":3}`:                                  {Tokens: 1, MaxTokens: 21},
		`{"prompt":"x","max_tokens":-7}`:                                       {Tokens: 1},
		`{"prompt":"x","max_tokens":1e300}`:                                    {Tokens: 1, MaxTokens: 1<<31 - 1},
		`{"prompt":"x","max_tokens":7,"max_completion_tokens":9,"unknown":{}}`: {Tokens: 1, MaxTokens: 9},
	} {
		q, err := r.Completion([]byte(body))
		require.NoError(t, err, body)
		assert.Empty(t, q.Blocks, body)
		q.Blocks = nil
		assert.Equal(t, want, *q, body)
	}
	for _, body := range []string{
		`{"prompt":{}}`, `{"prompt":[]}`, `{"prompt":[[]]}`, `{"prompt":[["x"]]}`, `{"prompt":[1,[2]]}`, `{"prompt":[-1]}`, `{"prompt":7}`,
	} {
		_, err := r.Completion([]byte(body))
		var fault *prompt.FieldError
		require.ErrorAs(t, err, &fault, body)
		assert.Equal(t, "prompt", fault.Field)
	}
}

func TestBlocksCommitToAllBeforeThem(t *testing.T) {
	t.Parallel()
	r := prompt.NewReader(16)
	blocks := func(body string) []uint64 {
		t.Helper()
		q, err := r.Completion([]byte(body))
		require.NoError(t, err)
		return q.Blocks
	}
	three := blocks(`{"prompt":"` + text(3) + `"}`)
	require.Len(t, three, 3)
	assert.NotEqual(t, three[0], three[1], "equal text, other place")
	assert.Equal(t, three, blocks(`{"prompt":"`+text(3)+`and a half"}`))
	assert.Equal(t, three[:2], blocks(`{"prompt":"` + text(2) + strings.Repeat("y", block) + `"}`)[:2])
	other := blocks(`{"prompt":"y` + text(3)[1:] + `"}`)
	for i := range three {
		assert.NotEqual(t, three[i], other[i])
	}
	assert.NotEqual(t, three[0], blocks(`{"model":"m","prompt":"` + text(3) + `"}`)[0])
}

func TestChat(t *testing.T) {
	t.Parallel()
	r := prompt.NewReader(16)
	read := func(messages string) *prompt.Request {
		t.Helper()
		q, err := r.Chat([]byte(`{"messages":[` + messages + `]}`))
		require.NoError(t, err)
		return q
	}
	user := `{"role":"user","content":"` + text(4) + `"}`
	first := read(user)
	require.Len(t, first.Blocks, 4)
	turns := user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"tool","tool_call_id":"1","content":"` + text(2) + `"}`
	second := read(turns)
	assert.Equal(t, first.Blocks, second.Blocks[:4], "a conversation that goes on keeps its blocks")
	assert.Greater(t, second.Tokens, first.Tokens)
	assert.Equal(t, first.Blocks, read(`{"role":"user","content":[{"type":"text","text":"`+text(4)+`"}]}`).Blocks, "parts are the same text")
	assert.NotEqual(t, first.Blocks[0], read(`{"role":"system","content":"` + text(4) + `"}`).Blocks[0])

	image := func(data string) *prompt.Request {
		return read(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:` + data + `"}},{"type":"text","text":"what?"}]}`)
	}
	short, long := image("a"), image(strings.Repeat("b", 1<<20))
	assert.Equal(t, short.Tokens, long.Tokens, "the length of an image's encoding says nothing")
	assert.NotEqual(t, short.Blocks, long.Blocks)
	assert.Equal(t, short.Blocks, image("a").Blocks)
}

func TestCache(t *testing.T) {
	t.Parallel()
	c := prompt.NewCache(4)
	a, b := sched.RankID{Worker: 1}, sched.RankID{Worker: 2, Rank: 1}
	assert.Empty(t, c.Overlaps([]uint64{1}))
	c.Computed(a, []uint64{1, 2, 3})
	c.Computed(b, []uint64{1, 9})
	c.Computed(b, nil)
	assert.ElementsMatch(t, []sched.Overlap{{Rank: a, Device: 3}, {Rank: b, Device: 1}}, c.Overlaps([]uint64{1, 2, 3, 4}))
	assert.Empty(t, c.Overlaps([]uint64{5, 2, 3}), "what does not begin alike has nothing in common")
	assert.Empty(t, c.Overlaps(nil))

	c.Forget(2)
	c.Computed(a, []uint64{7, 8})
	assert.Equal(t, []sched.Overlap{{Rank: a, Device: 2}}, c.Overlaps([]uint64{1, 2, 3}), "the end of a prompt goes first")
	assert.Equal(t, []sched.Overlap{{Rank: a, Device: 1}}, c.Overlaps([]uint64{1, 9}), "worker 2 is forgotten")
}

func FuzzReader(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"prompt":[[1],"x"],"max_tokens":1e99,"n":-1}`)
	f.Add(`{"prompt":[1,2]}`)
	r := prompt.NewReader(16)
	f.Fuzz(func(t *testing.T, body string) {
		for _, read := range []func([]byte) (*prompt.Request, error){r.Chat, r.Completion} {
			q, err := read([]byte(body))
			if err != nil {
				var fault *prompt.FieldError
				require.ErrorAs(t, err, &fault)
				continue
			}
			assert.GreaterOrEqual(t, q.MaxTokens, int64(0))
			assert.LessOrEqual(t, int64(len(q.Blocks)), q.Tokens/16)
		}
	})
}

// TestOtherBodies: the same beginning gives the same blocks, and what is embedded or
// ranked has none.
func TestOtherBodies(t *testing.T) {
	t.Parallel()
	r := prompt.NewReader(4)
	read := func(f func([]byte) (*prompt.Request, error), body string) *prompt.Request {
		t.Helper()
		q, err := f([]byte(body))
		require.NoError(t, err)
		return q
	}
	long := strings.Repeat("x", 64)
	first := read(r.Messages, `{"model":"m","max_tokens":7,"stream":true,"system":"`+long+`","messages":[{"role":"user","content":"a"}]}`)
	second := read(r.Messages, `{"model":"m","system":"`+long+`","messages":[{"role":"user","content":"b"}]}`)
	assert.True(t, first.Stream)
	assert.EqualValues(t, 7, first.MaxTokens)
	require.GreaterOrEqual(t, len(first.Blocks), 4)
	assert.Equal(t, first.Blocks[:4], second.Blocks[:4])
	assert.NotEqual(t, first.Blocks[len(first.Blocks)-1], second.Blocks[len(second.Blocks)-1])

	q := read(r.Responses, `{"max_output_tokens":5,"instructions":"`+long+`","input":[{"role":"user","content":"a"}]}`)
	assert.EqualValues(t, 5, q.MaxTokens)
	more := read(r.Responses, `{"instructions":"`+long+`","input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	assert.Equal(t, q.Blocks, more.Blocks[:len(q.Blocks)])

	q = read(r.Embeddings, `{"input":["`+long+`","`+long+`"]}`)
	assert.EqualValues(t, 32, q.Tokens)
	assert.Empty(t, q.Blocks)
	q = read(r.Rerank, `{"query":"12","documents":["1234","1234"]}`)
	assert.EqualValues(t, 5, q.Tokens, "the query is read with each, quotes counted")
	assert.Empty(t, q.Blocks)
}
