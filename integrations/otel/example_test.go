package turnstileotel_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	turnstileotel "github.com/seed-3c5df8a4/turnstile/integrations/otel"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The span of a request, as an exporter gets it.
func ExampleScheduler_Do() {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1, Endpoint: "http://gpu-1:8000"})
	ctx := context.Background() // of the request served

	traced := turnstileotel.Trace(s, turnstileotel.TraceConfig{TracerProvider: provider})
	err := traced.Do(ctx, &sched.Request{ID: "r1", ISL: 1200}, func(ctx context.Context, b *turnstileotel.Booking) error {
		_ = ctx // carries the span: the call to the engine becomes its child
		_ = b.PrefillDone()
		return nil
	})

	for _, event := range exporter.GetSpans()[0].Events {
		fmt.Println(event.Name)
	}
	fmt.Println(err)
	// Output:
	// granted
	// prefill done
	// released
	// <nil>
}

// With Schedule, the owner of the booking ends the span by releasing it.
func ExampleScheduler_Schedule() {
	s, _ := sched.New(sched.Config{BlockSize: 16})
	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	traced := turnstileotel.Trace(s, turnstileotel.TraceConfig{}) // the global provider

	ctx, b, err := traced.Schedule(context.Background(), &sched.Request{ID: "r1", ISL: 1200})
	if err != nil {
		return
	}
	defer func() { _ = b.Release() }()
	_ = ctx // for the calls that serve the request
	fmt.Println(b.Placement().Rank)
	// Output: 1/0
}

// Durations come from an observer, all else from what the scheduler counts anyway.
func ExampleRegisterMetrics() {
	reader := metric.NewManualReader()
	config := turnstileotel.MetricConfig{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}

	durations, _ := turnstileotel.RecordDurations(config)
	s, _ := sched.New(sched.Config{BlockSize: 16}, sched.WithObserver(durations))
	registered, _ := turnstileotel.RegisterMetrics(s, config)
	defer func() { _ = registered.Unregister() }()

	_ = s.UpsertWorker(sched.Worker{ID: 1, Ranks: 1})
	_ = s.Do(context.Background(), &sched.Request{ID: "r1"}, func(context.Context, *sched.Booking) error { return nil })
	_ = s.Settle(context.Background())
	var data metricdata.ResourceMetrics
	_ = reader.Collect(context.Background(), &data)
	for _, m := range data.ScopeMetrics[0].Metrics {
		if m.Name == "turnstile.admissions" || m.Name == "turnstile.request.wait" {
			fmt.Println(m.Name, m.Unit)
		}
	}
	// Unordered output:
	// turnstile.request.wait s
	// turnstile.admissions {request}
}
