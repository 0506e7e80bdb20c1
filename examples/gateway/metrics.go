package main

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/seed-3c5df8a4/turnstile/examples/gateway/fleet"
	"github.com/seed-3c5df8a4/turnstile/examples/gateway/proxy"
)

// metrics are what the gateway counts beside what its schedulers do. Models and
// classes are those of the files, never what a client made up.
type metrics struct {
	lines     *lines
	requests  *prometheus.CounterVec
	firstByte *prometheus.HistogramVec
	retries   prometheus.Counter
	unknown   prometheus.Counter
	backends  *prometheus.Desc
	usable    *prometheus.Desc
}

func newMetrics(l *lines, registry *prometheus.Registry) *metrics {
	m := &metrics{
		lines: l,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gateway_requests_total",
			Help: "Requests answered, by what the client was told (499: it did not wait), the model and the class they were decided in.",
		}, []string{"code", "model", "class"}),
		firstByte: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gateway_first_byte_seconds", Help: "Time from a request's arrival to the first byte of its answer's body.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 15),
		}, []string{"model"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_retries_total", Help: "Workers tried after the first one of a request.",
		}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gateway_unknown_class_total", Help: "Requests that asked for a class that the policy does not have; the log has the name.",
		}),
		backends: prometheus.NewDesc("gateway_backend_state",
			"1 for the state that a backend is in: up, aside (requests failed there lately), down (its checks fail), new (none has succeeded yet) or draining.",
			[]string{"backend", "worker", "model", "state"}, nil),
		usable: prometheus.NewDesc("gateway_backends_usable", "Backends that new requests can go to.", []string{"model"}, nil),
	}
	registry.MustRegister(m.requests, m.firstByte, m.retries, m.unknown, m,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// count takes note of a request.
func (m *metrics) count(o proxy.Outcome) {
	model := m.lines.nameOf(o.Line)
	m.requests.WithLabelValues(strconv.Itoa(o.Status), model, o.Class).Inc()
	if o.FirstByte > 0 {
		m.firstByte.WithLabelValues(model).Observe(float64(o.FirstByte) / float64(time.Second))
	}
	if o.Tries > 1 {
		m.retries.Add(float64(o.Tries - 1))
	}
	if o.ClassUnknown {
		m.unknown.Inc()
		if l := m.lines.find(o.Line); l != nil {
			l.unknown.asked(o.ClassAsked, time.Now())
		}
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.backends; ch <- m.usable }

// Collect implements prometheus.Collector: a series for each backend and state, so
// that one that changes its state leaves no gap.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, l := range *m.lines.current.Load() {
		usable := 0
		for _, b := range l.Fleet.Statuses() {
			for _, state := range []fleet.State{fleet.StateUp, fleet.StateAside, fleet.StateDown, fleet.StateNew, fleet.StateDraining} {
				is := 0.0
				if state == b.State {
					is = 1
				}
				ch <- prometheus.MustNewConstMetric(m.backends, prometheus.GaugeValue, is,
					b.URL, strconv.FormatUint(b.Worker, 10), l.name, string(state))
			}
			if b.State == fleet.StateUp {
				usable++
			}
		}
		ch <- prometheus.MustNewConstMetric(m.usable, prometheus.GaugeValue, float64(usable), l.name)
	}
}
