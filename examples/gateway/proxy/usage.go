package proxy

import (
	"regexp"
	"strconv"
)

// usage finds in an answer, whole or streamed, how much of the prompt the engine had
// cached. Engines write that near the end, so it keeps the last piece of it, no more.
type usage struct{ tail []byte }

// usageTail is how much of an answer's end is looked at, in bytes.
const usageTail = 4 << 10

// In the text of an answer, which is JSON, the quotes would be escaped.
var (
	usageSaid = regexp.MustCompile(`"usage"\s*:\s*\{[^{}]*"(?:prompt|input)_tokens"`)
	// As completions, responses and messages say it.
	cachedToken = regexp.MustCompile(`"(?:prompt|input)_tokens_details"\s*:\s*\{[^{}]*"cached_tokens"\s*:\s*(\d+)|"cache_read_input_tokens"\s*:\s*(\d+)`)
)

// passed takes the next piece of the answer.
func (u *usage) passed(piece []byte) {
	if len(piece) >= usageTail {
		u.tail = append(u.tail[:0], piece[len(piece)-usageTail:]...)
		return
	}
	if over := len(u.tail) + len(piece) - usageTail; over > 0 {
		u.tail = u.tail[:copy(u.tail, u.tail[over:])]
	}
	u.tail = append(u.tail, piece...)
}

// cached returns how many tokens the answer says were cached. said tells whether it
// speaks of its usage, told whether of what was cached.
func (u *usage) cached() (tokens int64, said, told bool) {
	found := cachedToken.FindSubmatch(u.tail)
	if found == nil {
		return 0, usageSaid.Match(u.tail), false
	}
	tokens, err := strconv.ParseInt(string(found[1])+string(found[2]), 10, 64) // one of them is empty
	return tokens, true, err == nil
}
