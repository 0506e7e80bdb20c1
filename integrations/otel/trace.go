package turnstileotel

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// scope is the instrumentation scope of all spans and metrics.
const scope = "github.com/seed-3c5df8a4/turnstile/integrations/otel"

// SpanName is the name of the span of a request.
const SpanName = "turnstile.request"

// The attributes of a span. What is not known, such as the rank of a request that
// was refused, is left out.
const (
	KeyRequest  = attribute.Key("turnstile.request.id")
	KeyISL      = attribute.Key("turnstile.request.input_tokens")
	KeyPriority = attribute.Key("turnstile.request.priority")
	// KeyClass is the class or family asked for; of a refusal, the class it concerns.
	KeyClass    = attribute.Key("turnstile.class")
	KeyWorker   = attribute.Key("turnstile.worker")
	KeyRank     = attribute.Key("turnstile.rank")
	KeyEndpoint = attribute.Key("turnstile.endpoint")
	KeyAttempt  = attribute.Key("turnstile.attempt")
	// KeyCached are the prompt tokens expected in the rank's cache.
	KeyCached = attribute.Key("turnstile.cached_tokens")
	// KeyWait is the time in line, in seconds: 0 if it was admitted at once.
	KeyWait = attribute.Key("turnstile.wait")
	// KeyError is the text of the sentinel error of a refusal, such as queue-full.
	KeyError = attribute.Key("error.type")
)

// The events of a span, in this order. A booking that ended without its owner has,
// instead of EventReleased, one named like the error: expired or worker-removed.
const (
	EventQueued      = "queued"
	EventGranted     = "granted"
	EventPrefillDone = "prefill done"
	EventTransferred = "transferred"
	EventReleased    = "released"
	EventDetached    = "detached"
)

// TraceConfig says how requests are traced. Its zero value is ready to use.
type TraceConfig struct {
	// TracerProvider makes the tracer; nil means the global one.
	TracerProvider trace.TracerProvider
	// Attributes are put on every span.
	Attributes []attribute.KeyValue
}

// Scheduler is a scheduler whose Schedule and Do make a span of each request. What
// is called on the embedded one, lifecycle calls by request id included, works as
// ever and is not traced.
type Scheduler struct {
	*sched.Scheduler
	tracer     trace.Tracer
	attributes []attribute.KeyValue
}

// Trace returns a scheduler that traces what it schedules.
func Trace(s *sched.Scheduler, config TraceConfig) *Scheduler {
	provider := config.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return &Scheduler{Scheduler: s, tracer: provider.Tracer(scope), attributes: config.Attributes}
}

// Schedule is sched.Scheduler.Schedule in a span, a child of that in ctx. The
// returned context carries the span, for the calls that serve the request. The span
// ends when the booking is released or detached, or at once if there is an error: as
// with any span, the owner of the booking must see to that on every way out.
func (s *Scheduler) Schedule(ctx context.Context, r *sched.Request) (context.Context, *Booking, error) {
	inner, span := s.start(ctx, r)
	b, err := s.Scheduler.Schedule(inner, r)
	if err != nil {
		fail(span, err)
		span.End()
		return ctx, nil, err
	}
	granted(span, b)
	return inner, &Booking{Booking: b, span: span, ends: true}, nil
}

// Do is sched.Scheduler.Do in a span, a child of that in ctx. The context f gets
// carries the span. Each try is an event of it, and so is the error of a try.
func (s *Scheduler) Do(ctx context.Context, r *sched.Request, f func(context.Context, *Booking) error) error {
	if f == nil {
		return s.Scheduler.Do(ctx, r, nil) // which says what is wrong
	}
	inner, span := s.start(ctx, r)
	returned := false
	defer func() {
		if !returned {
			span.SetStatus(codes.Error, "panic")
		}
		span.End()
	}()
	err := s.Scheduler.Do(inner, r, func(ctx context.Context, booking *sched.Booking) error {
		granted(span, booking)
		b := &Booking{Booking: booking, span: span}
		defer func() { _ = b.Release() }()
		err := f(ctx, b)
		if err != nil {
			span.RecordError(err)
		}
		return err
	})
	returned = true
	if err != nil {
		fail(span, err)
	}
	return err
}

func (s *Scheduler) start(ctx context.Context, r *sched.Request) (context.Context, trace.Span) {
	if ctx == nil || r == nil {
		// The scheduler says what is wrong; that needs no span.
		return ctx, trace.SpanFromContext(context.Background())
	}
	ctx, span := s.tracer.Start(ctx, SpanName)
	if span.IsRecording() {
		span.SetAttributes(s.attributes...)
		span.SetAttributes(KeyRequest.String(r.ID), KeyISL.Int64(r.ISL))
		if r.Class != "" {
			span.SetAttributes(KeyClass.String(r.Class))
		}
		if r.Priority != 0 {
			span.SetAttributes(KeyPriority.Int64(int64(r.Priority)))
		}
	}
	return ctx, span
}

// granted notes a booking; of several tries the span's attributes are the last's.
func granted(span trace.Span, b *sched.Booking) {
	if !span.IsRecording() {
		return
	}
	now := time.Now()
	if waited := b.Waited(); waited > 0 {
		span.AddEvent(EventQueued, trace.WithTimestamp(now.Add(-waited)))
	}
	where := placed(b.Placement())
	span.AddEvent(EventGranted, trace.WithTimestamp(now), trace.WithAttributes(where...))
	span.SetAttributes(where...)
	span.SetAttributes(KeyWait.Float64(b.Waited().Seconds()))
}

func placed(p sched.Placement) []attribute.KeyValue {
	return []attribute.KeyValue{
		// As text: an id may not fit in an int64.
		KeyWorker.String(strconv.FormatUint(p.Rank.Worker, 10)), KeyRank.Int64(int64(p.Rank.Rank)),
		KeyEndpoint.String(p.Endpoint), KeyAttempt.Int64(int64(p.Attempt)), KeyCached.Int64(p.CachedTokens),
	}
}

// fail notes how a request ended that did not go well. That its caller cancelled it
// is noted, but is not an error of the service.
func fail(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	var refused *sched.Error
	if errors.As(err, &refused) {
		span.SetAttributes(KeyError.String(refused.Code.Error()))
		if refused.Class != "" {
			span.SetAttributes(KeyClass.String(refused.Class))
		}
	}
	if errors.Is(err, sched.ErrCanceled) || errors.Is(err, context.Canceled) {
		return
	}
	span.SetStatus(codes.Error, err.Error())
}

// Booking is a booking whose steps are events of its request's span.
type Booking struct {
	*sched.Booking
	span trace.Span
	ends bool        // the span ends with the booking; else Do ends it
	over atomic.Bool // its end was noted; by whoever comes first
}

// Span returns the span of the request, to add what the application knows.
func (b *Booking) Span() trace.Span { return b.span }

// PrefillDone is sched.Booking.PrefillDone, and an event if it changed something.
func (b *Booking) PrefillDone() error {
	err := b.Booking.PrefillDone()
	if err == nil {
		b.span.AddEvent(EventPrefillDone)
	}
	return err
}

// Transfer is sched.Booking.Transfer, and an event if it changed something.
func (b *Booking) Transfer(to sched.RankID) (sched.Placement, error) {
	p, err := b.Booking.Transfer(to)
	if err == nil && b.span.IsRecording() {
		where := placed(p)
		b.span.AddEvent(EventTransferred, trace.WithAttributes(where...))
		b.span.SetAttributes(where...)
	}
	return p, err
}

// Release is sched.Booking.Release, and the end of the span. If the booking had
// ended without its owner, or a transfer by id has left this handle behind, the span
// says so.
func (b *Booking) Release() error {
	err := b.Booking.Release()
	switch cause := b.Err(); {
	case cause != nil:
		if b.end(cause.Error()) && b.ends { // in Do another try may go well
			b.span.SetStatus(codes.Error, "the booking ended without its owner: "+cause.Error())
			b.span.SetAttributes(KeyError.String(cause.Error()))
		}
	case errors.Is(err, sched.ErrStaleAttempt):
		b.end(sched.ErrStaleAttempt.Error())
	default:
		b.end(EventReleased)
	}
	if b.ends {
		b.span.End()
	}
	return err
}

// Detach is sched.Booking.Detach, and the end of the span: what follows is the
// business of whoever knows the booking by its id.
func (b *Booking) Detach() {
	b.Booking.Detach()
	b.end(EventDetached)
	if b.ends {
		b.span.End()
	}
}

// end notes how the booking ended, once.
func (b *Booking) end(how string) bool {
	if !b.over.CompareAndSwap(false, true) {
		return false
	}
	b.span.AddEvent(how)
	return true
}
