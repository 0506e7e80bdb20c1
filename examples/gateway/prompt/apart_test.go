package prompt_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// What an engine would compute anew must not look cached.
func TestPromptsThatEnginesKeepApart(t *testing.T) {
	t.Parallel()
	r := prompt.NewReader(16)
	chat := func(more, content string) uint64 {
		t.Helper()
		q, err := r.Chat([]byte(fmt.Sprintf(`{"model":"m"%s,"messages":[{"role":"user","content":%s}]}`, more, content)))
		require.NoError(t, err)
		require.Greater(t, len(q.Blocks), 3)
		return q.Blocks[len(q.Blocks)-1]
	}
	long := `"` + text(4) + `"`
	assert.Equal(t, chat("", long), chat(`,"temperature":1,"cache_salt":null,"seed":7`, long))
	seen := map[uint64]string{chat("", long): "plain"}
	for _, more := range []string{
		`,"cache_salt":"a"`, `,"cache_salt":"b"`, `,"extra_key":"a"`, `,"lora_path":"a"`, `,"lora_path":["a"]`, `,"adapter_id":"a"`,
		`,"tools":[{"a":1}]`, `,"tools":[{"a":2}]`, `,"functions":[{"a":1}]`, `,"tool_choice":"none"`, `,"documents":[{"a":1}]`,
		`,"chat_template":"a"`, `,"chat_template_kwargs":{"enable_thinking":false}`, `,"reasoning_effort":"high"`, `,"mm_processor_kwargs":{"a":1}`,
	} {
		hash := chat(more, long)
		assert.Empty(t, seen[hash], more)
		seen[hash] = more
	}
	for _, url := range []string{"http://a", "http://b", "data:image/png;base64,AAAA", "data:image/png;base64,AAAB"} {
		// The image stands before the text: what follows it is not the same either.
		hash := chat("", fmt.Sprintf(`[{"type":"image_url","image_url":{"url":%q}},{"type":"text","text":%s}]`, url, long))
		assert.Empty(t, seen[hash], url)
		seen[hash] = url
	}
	plain := func(more string) uint64 {
		t.Helper()
		q, err := r.Completion([]byte(`{"model":"m"` + more + `,"prompt":` + long + `}`))
		require.NoError(t, err)
		return q.Blocks[0]
	}
	assert.NotEqual(t, plain(""), plain(`,"cache_salt":"a"`))
	assert.NotEqual(t, plain(`,"cache_salt":"a"`), plain(`,"lora_path":"a"`))
}

func TestCacheHeedsWhatEnginesTell(t *testing.T) {
	t.Parallel()
	c := prompt.NewCache(100)
	one, other := sched.RankID{Worker: 1}, sched.RankID{Worker: 2}
	a, b := []uint64{1, 2, 3, 4}, []uint64{5, 6}
	fill := func() {
		c.Computed(one, a)
		c.Computed(one, b)
		c.Computed(other, a)
	}
	holds := func(rank sched.RankID, blocks []uint64) bool {
		for _, o := range c.Overlaps(blocks) {
			if o.Rank == rank {
				return true
			}
		}
		return false
	}
	fill()
	c.Told(one, 4, false, 0)
	assert.True(t, holds(one, b), "it never tells: that means nothing")
	c.Told(one, 4, true, 16)
	c.Told(one, 3, true, 0)
	assert.True(t, holds(one, b), "a trifle")
	c.Told(one, 4, true, 0)
	assert.False(t, holds(one, a))
	assert.False(t, holds(one, b), "what is left of its old life is gone as well")
	assert.True(t, holds(other, a))
	fill()
	c.Told(one, 4, false, 0)
	assert.False(t, holds(one, b), "it tells otherwise: silence is nothing cached")
	fill()
	c.Forget(1)
	fill()
	c.Told(one, 4, false, 0)
	assert.True(t, holds(one, b), "another process may be there, which does not tell")
}
