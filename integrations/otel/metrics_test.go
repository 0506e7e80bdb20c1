package turnstileotel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	turnstileotel "github.com/seed-3c5df8a4/turnstile/integrations/otel"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// collected writes down what is measured and not 0, one line each, sorted.
func collected(t *testing.T, reader metric.Reader) string {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	var lines []string
	add := func(name string, set attribute.Set, value any) {
		if value != int64(0) {
			lines = append(lines, fmt.Sprintf("%s%s %v", strings.TrimPrefix(name, "turnstile."), listed(set.ToSlice()), value))
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			require.NotEmpty(t, m.Unit, m.Name)
			require.NotEmpty(t, m.Description, m.Name)
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, fmt.Sprintf("%d of %v s", p.Count, p.Sum))
				}
			default:
				t.Fatalf("%s is a %T", m.Name, data)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		config := turnstileotel.MetricConfig{
			MeterProvider: metric.NewMeterProvider(metric.WithReader(reader)),
			Attributes:    []attribute.KeyValue{attribute.String("scheduler", "llama")},
		}
		observer, err := turnstileotel.RecordDurations(config)
		require.NoError(t, err)
		s := newBench(t, sched.Config{}, sched.WithObserver(observer))
		registered, err := turnstileotel.RegisterMetrics(s, config)
		require.NoError(t, err)
		hold, err := s.Scheduler.Scheduler.Schedule(t.Context(), &sched.Request{ID: "hold", ISL: 64, Pin: one(1), Blocks: []uint64{1, 2}})
		require.NoError(t, err)
		_, err = s.Scheduler.Scheduler.Schedule(t.Context(), &sched.Request{ID: "dropped", Pin: one(2)})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		go func() {
			_, err := s.Scheduler.Scheduler.Schedule(ctx, &sched.Request{ID: "r", ISL: 32, Pin: one(1)})
			assert.ErrorIs(t, err, sched.ErrDeadline)
		}()
		time.Sleep(time.Second)
		require.NoError(t, s.RemoveWorker(2))
		require.NoError(t, s.SetAside(1, 2*time.Second))
		synctest.Wait()
		waiting := collected(t, reader)
		for _, line := range []string{
			"waiting.requests scheduler=llama class=f 1", "waiting.tokens scheduler=llama class=f 32",
			"rank.prefill_tokens scheduler=llama rank=0 worker=1 64", "rank.requests scheduler=llama rank=0 worker=1 1",
			"rank.kv_blocks scheduler=llama rank=0 worker=1 2", "workers.aside scheduler=llama worker=1 1",
		} {
			require.Contains(t, waiting, line)
		}
		time.Sleep(4 * time.Second)
		require.NoError(t, hold.Release())
		synctest.Wait()
		require.Equal(t, strings.TrimSpace(`
admissions scheduler=llama 2
booking.duration scheduler=llama cause=dropped class=f 1 of 1 s
booking.duration scheduler=llama cause=released class=f 1 of 5 s
bookings.lost scheduler=llama cause=dropped 1
class.admissions scheduler=llama class=f 2
class.rejections error.type=deadline scheduler=llama class=f 1
epochs scheduler=llama EPOCHS
rejections error.type=deadline scheduler=llama 1
request.wait error.type=deadline scheduler=llama class=f 1 of 3 s
request.wait scheduler=llama class=f 2 of 0 s`),
			strings.ReplaceAll(collected(t, reader), fmt.Sprintf("epochs scheduler=llama %d", s.Stats().Epochs), "epochs scheduler=llama EPOCHS"))
		require.NoError(t, registered.Unregister())
		require.NotContains(t, collected(t, reader), "admissions")
	})
}

// The global provider serves whoever gives none.
func TestGlobalMeter(t *testing.T) {
	t.Parallel()
	s := newBench(t, sched.Config{})
	registered, err := turnstileotel.RegisterMetrics(s, turnstileotel.MetricConfig{})
	require.NoError(t, err)
	require.NoError(t, registered.Unregister())
	observer, err := turnstileotel.RecordDurations(turnstileotel.MetricConfig{})
	require.NoError(t, err)
	observer(sched.Event{Kind: sched.EventGranted})
	observer(sched.Event{Kind: sched.EventRejected})
	observer(sched.Event{Kind: sched.EventReleased})
}
