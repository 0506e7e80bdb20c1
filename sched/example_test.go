package sched_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The lines between the marks stand in the README as they are here.
func embed(ctx context.Context) error {
	// README begins
	s, err := sched.New(sched.Config{BlockSize: 16})
	if err != nil {
		return err
	}
	if err := s.UpsertWorker(sched.Worker{ID: 1, Ranks: 2, Endpoint: "http://gpu-1:8000"}); err != nil {
		return err
	}
	return s.Do(ctx, &sched.Request{ID: "r1", ISL: 1200}, func(ctx context.Context, b *sched.Booking) error {
		for token := range generate(ctx, b.Placement().Endpoint) {
			_ = b.PrefillDone() // counts once: at the first token the prompt is computed
			fmt.Print(token)
		}
		return nil // released here, and on error, panic or cancellation too
	})
	// README ends
}

func generate(_ context.Context, endpoint string) iter.Seq[string] {
	return func(yield func(string) bool) {
		_ = yield("from ") && yield(endpoint)
	}
}

func Example() {
	if err := embed(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: from http://gpu-1:8000
}

func TestReadmeShowsTheExample(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(source), "\t// README begins\n")
	lines, _, _ := strings.Cut(rest, "\t// README ends\n")
	var shown strings.Builder
	for line := range strings.Lines(lines) {
		shown.WriteString(strings.TrimPrefix(line, "\t"))
	}
	require.LessOrEqual(t, strings.Count(shown.String(), "\n"), 15)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+shown.String()+"```\n")
}
