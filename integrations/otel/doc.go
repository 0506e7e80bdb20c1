// Package turnstileotel tells OpenTelemetry what becomes of requests: a span for
// each, from the call to the end of its booking, and metrics of the scheduler.
//
//	s, err := sched.New(config)
//	traced := turnstileotel.Trace(s, turnstileotel.TraceConfig{})
//	err = traced.Do(ctx, request, func(ctx context.Context, b *turnstileotel.Booking) error {
//		// ctx carries the span: the call to the engine becomes its child.
//	})
//
// It depends on the OpenTelemetry API only; which spans are sampled and where they
// go is up to the SDK that the program sets up. Where a span is not sampled, a
// request costs what the API's no-op costs.
package turnstileotel
