package prompt_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/prompt"
)

// A few bytes that are not text stand for hundreds of tokens: many of them are
// refused, so that a body cannot make much more of itself.
func TestBodyOfEmptyPartsIsRefused(t *testing.T) {
	t.Parallel()
	body := func(parts int) []byte {
		return []byte(`{"messages":[{"role":"user","content":[{}` + strings.Repeat(",{}", parts-1) + `]}]}`)
	}
	_, err := prompt.NewReader(16).Chat(body(1024))
	require.NoError(t, err)
	_, err = prompt.NewReader(16).Chat(body(1025))
	require.ErrorContains(t, err, "parts that are not text")
}
