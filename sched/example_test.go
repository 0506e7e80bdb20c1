package sched_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
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

// A request that would have to wait is refused if it asks for that.
func ExampleScheduler_Schedule() {
	file, err := policy.Parse([]byte(`
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, _ := sched.New(sched.Config{BlockSize: 16, Policy: file})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})

	ctx := context.Background()
	first, _ := s.Schedule(ctx, &sched.Request{ID: "first", ISL: 100})
	_, err = s.Schedule(ctx, &sched.Request{ID: "second", ISL: 100, DoNotQueue: true})
	fmt.Println(errors.Is(err, sched.ErrWouldQueue))
	_ = first.PrefillDone()
	second, err := s.Schedule(ctx, &sched.Request{ID: "second", ISL: 100})
	fmt.Println(second.Placement().Rank, err)
	// Output:
	// true
	// 1/0 <nil>
}

// A simulation gives the scheduler its own clock and moves it.
func ExampleWithClock() {
	manual := clock.NewManual(time.Unix(0, 0))
	s, _ := sched.New(sched.Config{BlockSize: 16, BookingTTL: time.Minute}, sched.WithClock(manual))
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	b, _ := s.Schedule(context.Background(), &sched.Request{ID: "silent", ISL: 100})
	manual.Advance(2 * time.Minute)
	<-b.Done()
	fmt.Println(b.Err())
	// Output: expired
}

// A streaming response: the prefill ends with the first token, the booking with
// the stream.
func ExampleBooking() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	b, _ := s.Schedule(context.Background(), &sched.Request{ID: "r", ISL: 32, Blocks: []uint64{11, 12}})
	fmt.Printf("%+v\n", s.Loads()[0])
	_ = b.PrefillDone()
	_ = b.AddOutputBlock()
	fmt.Printf("%+v\n", s.Loads()[0])
	_ = b.Release()
	fmt.Println(errors.Is(b.Release(), sched.ErrUnchanged), s.Loads()[0].Requests)
	// Output:
	// {Rank:1/0 PrefillTokens:32 Blocks:2 Requests:1 TotalKVBlocks:0}
	// {Rank:1/0 PrefillTokens:0 Blocks:3 Requests:1 TotalKVBlocks:0}
	// true 0
}
