package proxy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUsageIsFound(t *testing.T) {
	t.Parallel()
	type found struct {
		tokens     int64
		said, told bool
	}
	long := strings.Repeat("x", 3*usageTail)
	for answer, want := range map[string]found{
		``: {}, `{}`: {}, long: {},
		`{"usage":{"prompt_tokens":9}}`:                                                                               {0, true, false},
		`{"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}`:                                                  {0, true, false},
		`{"usage": {"prompt_tokens_details": {"cached_tokens": 7}},"x":1}`:                                            {7, true, true},
		`{"usage":{"prompt_tokens_details":{"audio_tokens":1,"cached_tokens":0}}`:                                     {0, true, true},
		long + `,"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":8}}}`:                            {8, true, true},
		"data: {\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":3}}}\n\ndata: [DONE]\n\n": {3, true, true},
		`{"text":"{\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":7}}}"}`:                {},
		`{"usage":{"prompt_tokens_details":{"cached_tokens":99999999999999999999}}}`:                                  {1<<63 - 1, true, false},
	} {
		for _, size := range []int{1, 7, usageTail, len(answer) + 1} {
			var u usage
			for rest := answer; len(rest) > 0; {
				n := min(size, len(rest))
				u.passed([]byte(rest[:n]))
				rest = rest[n:]
			}
			var got found
			got.tokens, got.said, got.told = u.cached()
			assert.Equal(t, want, got, "%.80s in pieces of %d", answer, size)
		}
	}
}
