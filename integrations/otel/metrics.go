package turnstileotel

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// MetricConfig says how metrics are made. Its zero value is ready to use.
type MetricConfig struct {
	// MeterProvider makes the meter; nil means the global one.
	MeterProvider metric.MeterProvider
	// Attributes are put on every measurement. Several schedulers in one process
	// need one that tells them apart.
	Attributes []attribute.KeyValue
}

func (c *MetricConfig) meter() metric.Meter {
	if c.MeterProvider == nil {
		return otel.Meter(scope)
	}
	return c.MeterProvider.Meter(scope)
}

// set returns the configured attributes and these.
func (c *MetricConfig) set(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(append(slices.Clone(c.Attributes), more...)...)
}

// KeyCause says how a booking ended: released, expired, dropped or leaked.
const KeyCause = attribute.Key("turnstile.cause")

// Source is what is measured: a *sched.Scheduler.
type Source interface {
	Stats() sched.Stats
	Loads() []sched.RankLoad
}

// RegisterMetrics measures a scheduler each time the SDK collects, and at no other
// time. How finely the ranks' load is kept is a matter of the SDK's views. To stop,
// unregister what is returned.
func RegisterMetrics(source Source, config MetricConfig) (metric.Registration, error) {
	m := &meters{meter: config.meter()}
	waiting := m.gauge("turnstile.waiting.requests", "{request}", "Requests that stand in line.")
	tokens := m.gauge("turnstile.waiting.tokens", "{token}", "Input tokens of the requests that stand in line.")
	cached := m.gauge("turnstile.waiting.cached_tokens", "{token}", "Those of them that the best rank has cached.")
	prefill := m.gauge("turnstile.rank.prefill_tokens", "{token}", "Booked prompt tokens whose prefill is not done.")
	blocks := m.gauge("turnstile.rank.kv_blocks", "{block}", "KV blocks held by live bookings, shared ones counted once.")
	requests := m.gauge("turnstile.rank.requests", "{request}", "Live bookings.")
	aside := m.gauge("turnstile.workers.aside", "{worker}", "Workers that are set aside for a time, by worker.")
	classAdmissions := m.counter("turnstile.class.admissions", "{request}", "Requests booked, by the class they were decided in.")
	classRejections := m.counter("turnstile.class.rejections", "{request}", "Requests that ended with an error after their class was found.")
	admissions := m.counter("turnstile.admissions", "{request}", "Requests booked.")
	queries := m.counter("turnstile.queries", "{request}", "Queries answered; they book nothing.")
	rejections := m.counter("turnstile.rejections", "{request}", "Requests that ended with an error.")
	lost := m.counter("turnstile.bookings.lost", "{booking}", "Bookings that ended without their owner.")
	retries := m.counter("turnstile.selection.retries", "{selection}", "Selections made again because a race was lost.")
	epochs := m.counter("turnstile.epochs", "{epoch}", "Passes over the line.")
	overflows := m.counter("turnstile.hint.overflows", "{overflow}", "Full rechecks forced by a full hint ring.")
	dropped := m.counter("turnstile.events.dropped", "{event}", "Events that found no room on their way to observers.")
	panics := m.counter("turnstile.hook.panics", "{panic}", "Panics recovered from hooks.")
	if m.err != nil {
		return nil, m.err
	}
	plain := config.set()
	return m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		stats := source.Stats()
		for i := range stats.Classes {
			c := &stats.Classes[i]
			class := config.set(KeyClass.String(c.Name))
			o.ObserveInt64(waiting, c.Pending, class)
			o.ObserveInt64(tokens, c.Tokens, class)
			o.ObserveInt64(cached, c.Cached, class)
			o.ObserveInt64(classAdmissions, c.Admitted, class)
			for reason, n := range c.Rejected {
				o.ObserveInt64(classRejections, n, config.set(KeyClass.String(c.Name), KeyError.String(reason)))
			}
		}
		o.ObserveInt64(admissions, stats.Admitted, plain)
		o.ObserveInt64(queries, stats.Queries, plain)
		for reason, n := range stats.Rejected {
			o.ObserveInt64(rejections, n, config.set(KeyError.String(reason)))
		}
		o.ObserveInt64(lost, stats.Expired, config.set(KeyCause.String(sched.EventExpired.String())))
		o.ObserveInt64(lost, stats.Leaked, config.set(KeyCause.String(sched.EventLeaked.String())))
		o.ObserveInt64(lost, stats.Dropped, config.set(KeyCause.String(sched.EventDropped.String())))
		o.ObserveInt64(retries, stats.Retries, plain)
		o.ObserveInt64(epochs, stats.Epochs, plain)
		o.ObserveInt64(overflows, stats.HintOverflows, plain)
		o.ObserveInt64(dropped, stats.EventsDropped, plain)
		o.ObserveInt64(panics, stats.HookPanics, plain)
		for _, w := range stats.Aside {
			o.ObserveInt64(aside, 1, config.set(KeyWorker.String(strconv.FormatUint(w.Worker, 10))))
		}
		for _, l := range source.Loads() {
			rank := config.set(KeyWorker.String(strconv.FormatUint(l.Rank.Worker, 10)), KeyRank.Int64(int64(l.Rank.Rank)))
			o.ObserveInt64(prefill, l.PrefillTokens, rank)
			o.ObserveInt64(blocks, l.Blocks, rank)
			o.ObserveInt64(requests, l.Requests, rank)
		}
		return nil
	}, m.all...)
}

// meters makes instruments and keeps the errors for the end.
type meters struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (m *meters) gauge(name, unit, help string) metric.Int64Observable {
	i, err := m.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
	m.all, m.err = append(m.all, i), errors.Join(m.err, err)
	return i
}

func (m *meters) counter(name, unit, help string) metric.Int64Observable {
	i, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(help))
	m.all, m.err = append(m.all, i), errors.Join(m.err, err)
	return i
}

// RecordDurations returns an observer, for sched.WithObserver, that records how long
// requests waited (turnstile.request.wait, by class and, for those refused, error)
// and how long bookings lived (turnstile.booking.duration, by class and cause), both
// in seconds.
func RecordDurations(config MetricConfig) (sched.Observer, error) {
	meter := config.meter()
	// Half a millisecond to two minutes; ten minutes for bookings.
	waits, err := meter.Float64Histogram("turnstile.request.wait", metric.WithUnit("s"),
		metric.WithDescription("From a request's arrival to its grant or refusal."),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120))
	durations, err2 := meter.Float64Histogram("turnstile.booking.duration", metric.WithUnit("s"),
		metric.WithDescription("From a booking's grant to its end."),
		metric.WithExplicitBucketBoundaries(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600))
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return func(e sched.Event) {
		class := KeyClass.String(e.Class)
		switch {
		case e.Kind == sched.EventGranted:
			waits.Record(context.Background(), e.Waited().Seconds(), config.set(class))
		case e.Kind == sched.EventRejected:
			var refused *sched.Error
			reason := "unknown"
			if errors.As(e.Err, &refused) {
				reason = refused.Code.Error()
			}
			waits.Record(context.Background(), e.Waited().Seconds(), config.set(class, KeyError.String(reason)))
		case e.Kind.Ended():
			durations.Record(context.Background(), e.Time.Sub(e.Granted).Seconds(),
				config.set(class, KeyCause.String(e.Kind.String())))
		}
	}, nil
}
