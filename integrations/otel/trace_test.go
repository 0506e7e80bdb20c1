package turnstileotel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	turnstileotel "github.com/seed-3c5df8a4/turnstile/integrations/otel"
	"github.com/seed-3c5df8a4/turnstile/internal/testkit"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct {
	*turnstileotel.Scheduler
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
}

func newBench(t *testing.T, config sched.Config, opts ...sched.Option) *bench {
	t.Helper()
	config.Policy = testkit.Policy(t, testkit.Queueing)
	s := testkit.Scheduler(t, config, 2, opts...)
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	return &bench{
		turnstileotel.Trace(s, turnstileotel.TraceConfig{
			TracerProvider: provider, Attributes: []attribute.KeyValue{attribute.String("zone", "a")},
		}), recorder, provider.Tracer("test"),
	}
}

// told writes down an ended span of a request, but for what tests compare apart and
// attempts, whose numbers several ids may share.
func told(span sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	for _, e := range span.Events() {
		fmt.Fprintf(&b, "%v %s%s\n", e.Time.Sub(span.StartTime()), e.Name, listed(e.Attributes))
	}
	fmt.Fprintf(&b, "%v end %v %q%s", span.EndTime().Sub(span.StartTime()), span.Status().Code, span.Status().Description, listed(span.Attributes()))
	return b.String()
}

func listed(attributes []attribute.KeyValue) string {
	var b strings.Builder
	for _, a := range attributes {
		name := strings.TrimPrefix(strings.TrimPrefix(string(a.Key), "turnstile."), "exception.")
		if name == "stacktrace" || name == "zone" || name == "attempt" {
			continue
		}
		fmt.Fprintf(&b, " %s=%v", name, a.Value.AsInterface())
	}
	return b.String()
}

func one(worker uint64) *sched.RankID { return &sched.RankID{Worker: worker} }

func TestSpanOfARequest(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for _, tt := range []struct {
		name   string
		config sched.Config
		do     func(*testing.T, context.Context, *bench)
		want   string
	}{
		{name: "served", do: func(t *testing.T, ctx context.Context, s *bench) {
			_, b, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 64, Class: "f", Priority: 2, Pin: one(1)})
			require.NoError(t, err)
			time.Sleep(time.Second)
			require.NoError(t, b.PrefillDone())
			require.ErrorIs(t, b.PrefillDone(), sched.ErrUnchanged)
			require.NoError(t, b.AddOutputBlock())
			time.Sleep(time.Second)
			_, err = b.Transfer(sched.RankID{Worker: 2})
			require.NoError(t, err)
			_, err = b.Transfer(sched.RankID{Worker: 2})
			require.ErrorIs(t, err, sched.ErrUnchanged)
			require.NoError(t, b.Release())
			require.ErrorIs(t, b.Release(), sched.ErrUnchanged)
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
1s prefill done
2s transferred worker=2 rank=0 endpoint=host-2 cached_tokens=0
2s released
2s end Unset "" request.id=r request.input_tokens=64 class=f request.priority=2 worker=2 rank=0 endpoint=host-2 cached_tokens=0 wait=0`},

		{name: "waited", do: func(t *testing.T, ctx context.Context, s *bench) {
			hold, err := s.Scheduler.Scheduler.Schedule(ctx, &sched.Request{ID: "hold", ISL: 64, Pin: one(1)})
			require.NoError(t, err)
			time.AfterFunc(3*time.Second, func() { _ = hold.Release() })
			_, b, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 64, Pin: one(1)})
			require.NoError(t, err)
			time.Sleep(time.Second)
			require.NoError(t, b.Release())
		}, want: `
0s queued
3s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
4s released
4s end Unset "" request.id=r request.input_tokens=64 worker=1 rank=0 endpoint=host-1 cached_tokens=0 wait=3`},

		{name: "refused", do: func(t *testing.T, ctx context.Context, s *bench) {
			_, err := s.Scheduler.Scheduler.Schedule(ctx, &sched.Request{ID: "hold", ISL: 64, Pin: one(1)})
			require.NoError(t, err)
			same, b, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 64, Pin: one(1), DoNotQueue: true})
			require.ErrorIs(t, err, sched.ErrWouldQueue)
			require.Nil(t, b)
			require.Equal(t, ctx, same)
		}, want: `
0s end Error "turnstile: would-queue: request \"r\": class f: 0 pending, 0 tokens, 0 cached: 1 of 1 eligible ranks are busy" request.id=r request.input_tokens=64 error.type=would-queue class=f`},

		{name: "cancelled", do: func(t *testing.T, ctx context.Context, s *bench) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, _, err := s.Schedule(ctx, &sched.Request{ID: "r", ISL: 64})
			require.ErrorIs(t, err, sched.ErrCanceled)
		}, want: `
0s end Unset "" request.id=r request.input_tokens=64 error.type=canceled`},

		{name: "expired", config: sched.Config{BookingTTL: time.Second}, do: func(t *testing.T, ctx context.Context, s *bench) {
			_, b, err := s.Schedule(ctx, &sched.Request{ID: "r", Pin: one(1)})
			require.NoError(t, err)
			<-b.Done()
			require.ErrorIs(t, b.Release(), sched.ErrUnchanged)
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
1s expired
1s end Error "the booking ended without its owner: expired" request.id=r request.input_tokens=0 worker=1 rank=0 endpoint=host-1 cached_tokens=0 wait=0 error.type=expired`},

		{name: "overtaken", do: func(t *testing.T, ctx context.Context, s *bench) {
			_, b, err := s.Schedule(ctx, &sched.Request{ID: "r", Pin: one(1)})
			require.NoError(t, err)
			_, err = s.Transfer("r", 0, sched.RankID{Worker: 2})
			require.NoError(t, err)
			require.ErrorIs(t, b.Release(), sched.ErrStaleAttempt)
			require.NoError(t, s.Release("r", 0))
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
0s stale-attempt
0s end Unset "" request.id=r request.input_tokens=0 worker=1 rank=0 endpoint=host-1 cached_tokens=0 wait=0`},

		{name: "detached", do: func(t *testing.T, ctx context.Context, s *bench) {
			_, b, err := s.Schedule(ctx, &sched.Request{ID: "r", Pin: one(1)})
			require.NoError(t, err)
			b.Detach()
			require.NoError(t, s.Release("r", 0))
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
0s detached
0s end Unset "" request.id=r request.input_tokens=0 worker=1 rank=0 endpoint=host-1 cached_tokens=0 wait=0`},

		{name: "retried", do: func(t *testing.T, ctx context.Context, s *bench) {
			tries := 0
			require.NoError(t, s.Do(ctx, &sched.Request{ID: "r", Prefer: one(1)}, func(ctx context.Context, b *turnstileotel.Booking) error {
				require.Equal(t, b.Span(), trace.SpanFromContext(ctx))
				time.Sleep(time.Second)
				if tries++; tries == 1 {
					return sched.RetryElsewhere(refused)
				}
				return b.PrefillDone()
			}))
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
1s exception type=*sched.retryError message=connection refused
1s released
1s granted worker=2 rank=0 endpoint=host-2 cached_tokens=0
2s prefill done
2s released
2s end Unset "" request.id=r request.input_tokens=0 worker=2 rank=0 endpoint=host-2 cached_tokens=0 wait=0`},

		{name: "worker lost, then served elsewhere", do: func(t *testing.T, ctx context.Context, s *bench) {
			require.NoError(t, s.Do(ctx, &sched.Request{ID: "r", Prefer: one(1)}, func(_ context.Context, b *turnstileotel.Booking) error {
				if b.Placement().Rank.Worker == 2 {
					return nil
				}
				require.NoError(t, s.RemoveWorker(1))
				<-b.Done()
				return sched.RetryElsewhere(b.Err())
			}))
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
0s exception type=*sched.retryError message=worker-removed
0s worker-removed
0s granted worker=2 rank=0 endpoint=host-2 cached_tokens=0
0s released
0s end Unset "" request.id=r request.input_tokens=0 worker=2 rank=0 endpoint=host-2 cached_tokens=0 wait=0`},

		{name: "failed", do: func(t *testing.T, ctx context.Context, s *bench) {
			require.ErrorIs(t, s.Do(ctx, &sched.Request{ID: "r", Pin: one(1)}, func(context.Context, *turnstileotel.Booking) error {
				return refused
			}), refused)
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
0s exception type=*errors.errorString message=connection refused
0s released
0s end Error "connection refused" request.id=r request.input_tokens=0 worker=1 rank=0 endpoint=host-1 cached_tokens=0 wait=0`},

		{name: "panicked", do: func(t *testing.T, ctx context.Context, s *bench) {
			require.PanicsWithValue(t, "no", func() {
				_ = s.Do(ctx, &sched.Request{ID: "r", Pin: one(1)}, func(context.Context, *turnstileotel.Booking) error { panic("no") })
			})
		}, want: `
0s granted worker=1 rank=0 endpoint=host-1 cached_tokens=0
0s released
0s end Error "panic" request.id=r request.input_tokens=0 worker=1 rank=0 endpoint=host-1 cached_tokens=0 wait=0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newBench(t, tt.config)
				ctx, parent := s.tracer.Start(t.Context(), "parent")
				tt.do(t, ctx, s)
				ended := s.spans.Ended()
				require.Len(t, ended, 1)
				span := ended[0]
				require.Equal(t, turnstileotel.SpanName, span.Name())
				require.Equal(t, parent.SpanContext().SpanID(), span.Parent().SpanID())
				require.Equal(t, strings.TrimSpace(tt.want), told(span))
				require.Contains(t, span.Attributes(), attribute.String("zone", "a"))
			})
		})
	}
}

// Calls that serve the request become children of its span.
func TestContextCarriesTheSpan(t *testing.T) {
	t.Parallel()
	s := newBench(t, sched.Config{})
	ctx, b, err := s.Schedule(t.Context(), &sched.Request{ID: "r"})
	require.NoError(t, err)
	_, child := s.tracer.Start(ctx, "call")
	child.End()
	require.NoError(t, b.Release())
	ended := s.spans.Ended()
	require.Equal(t, "call", ended[0].Name())
	require.Equal(t, ended[1].SpanContext().SpanID(), ended[0].Parent().SpanID())
	require.Contains(t, ended[1].Attributes(), turnstileotel.KeyAttempt.Int64(int64(b.Attempt())))
}

// Without a provider, and for spans that are not sampled, all works as ever.
func TestNotRecording(t *testing.T) {
	t.Parallel()
	s, err := sched.New(sched.Config{BlockSize: 16})
	require.NoError(t, err)
	require.NoError(t, s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1}))
	recorder := tracetest.NewSpanRecorder()
	never := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.NeverSample()))
	for _, config := range []turnstileotel.TraceConfig{{}, {TracerProvider: never}} {
		traced := turnstileotel.Trace(s, config)
		_, b, err := traced.Schedule(t.Context(), &sched.Request{ID: "r"})
		require.NoError(t, err)
		require.NoError(t, b.PrefillDone())
		require.NoError(t, b.Release())
		_, _, err = traced.Schedule(t.Context(), &sched.Request{})
		require.ErrorIs(t, err, sched.ErrInvalid)
	}
	require.Empty(t, recorder.Ended())
}

// What is missing is an error, as without tracing.
func TestMissingArguments(t *testing.T) {
	t.Parallel()
	s := newBench(t, sched.Config{})
	var none context.Context
	_, _, err := s.Schedule(t.Context(), nil)
	require.ErrorIs(t, err, sched.ErrInvalid)
	_, _, err = s.Schedule(none, &sched.Request{ID: "r"})
	require.ErrorIs(t, err, sched.ErrInvalid)
	require.ErrorIs(t, s.Do(t.Context(), &sched.Request{ID: "r"}, nil), sched.ErrInvalid)
	require.ErrorIs(t, s.Do(none, nil, func(context.Context, *turnstileotel.Booking) error { return nil }), sched.ErrInvalid)
	require.Empty(t, s.spans.Started())
}
