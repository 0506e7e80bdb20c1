package turnstileprom

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Source is what is exported: a *sched.Scheduler.
type Source interface {
	Stats() sched.Stats
	Loads() []sched.RankLoad
	Snapshot(heads int) sched.Snapshot
}

// Detail says how finely the load of the ranks is exported.
type Detail uint8

// The details, from the finest to the coarsest. A label that is left out is summed
// over, so that queries with sum() give the same at each.
const (
	// PerRank exports a series for each rank, labelled worker and rank.
	PerRank Detail = iota
	// PerWorker exports a series for each worker, labelled worker.
	PerWorker
	// Total exports one series, for pools of thousands of ranks.
	Total
)

// Config says what is exported and how. Its zero value exports everything.
type Config struct {
	// Scheduler, if not empty, is the value of a constant label "scheduler" on
	// every metric. Several schedulers in one process need one each.
	Scheduler string
	// ConstLabels are further constant labels.
	ConstLabels prometheus.Labels
	// Detail is how finely the load of the ranks is exported; default PerRank.
	Detail Detail
}

// Collector is a prometheus.Collector for one scheduler.
type Collector struct {
	source Source
	detail Detail
	descs  descs
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector. Registering it fails if a constant label has no valid name
// or is one that a metric uses.
func New(source Source, config Config) *Collector {
	labels := maps.Clone(config.ConstLabels)
	if config.Scheduler != "" {
		if labels == nil {
			labels = make(prometheus.Labels)
		}
		labels["scheduler"] = config.Scheduler
	}
	return &Collector{source: source, detail: config.Detail, descs: describe(labels, config.Detail)}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs.all {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	stats, loads := c.source.Stats(), c.source.Loads()
	e := emitter{ch}
	c.collectClasses(e, &stats)
	c.collectDecisions(e, &stats)
	c.collectInside(e, &stats)
	c.collectLoads(e, loads)
	c.collectAside(e, stats.Aside)
	snapshot := c.source.Snapshot(-1)
	c.collectWorkers(e, snapshot.Ranks)
}

func (c *Collector) collectClasses(e emitter, stats *sched.Stats) {
	d := &c.descs
	for i := range stats.Classes {
		class := &stats.Classes[i]
		e.gauge(d.waitingRequests, class.Pending, class.Name)
		e.gauge(d.waitingTokens, class.Tokens, class.Name)
		e.gauge(d.waitingCached, class.Cached, class.Name)
		e.gauge(d.deficit, class.Deficit, class.Name)
		e.histogram(d.wait, &class.Waits, class.Name)
		e.counter(d.classAdmissions, class.Admitted, class.Name)
		for _, reason := range reasonsInClass() {
			e.counter(d.classRejections, class.Rejected[reason.Error()], class.Name, reason.Error())
		}
	}
}

func (c *Collector) collectDecisions(e emitter, stats *sched.Stats) {
	d := &c.descs
	e.counter(d.admissions, stats.Admitted)
	e.counter(d.queries, stats.Queries)
	for _, reason := range reasons() {
		e.counter(d.rejections, stats.Rejected[reason.Error()], reason.Error())
	}
	e.counter(d.lost, stats.Expired, sched.EventExpired.String())
	e.counter(d.lost, stats.Leaked, sched.EventLeaked.String())
	e.counter(d.lost, stats.Dropped, sched.EventDropped.String())
}

func (c *Collector) collectInside(e emitter, stats *sched.Stats) {
	d := &c.descs
	e.counter(d.retries, stats.Retries)
	e.counter(d.epochs, stats.Epochs)
	e.histogram(d.epochSteps, &stats.EpochSizes)
	e.counter(d.overflows, stats.HintOverflows)
	if len(stats.SelectionTimes.Bounds) > 0 {
		e.histogram(d.selection, &stats.SelectionTimes)
	}
	e.counter(d.eventsDropped, stats.EventsDropped)
	e.counter(d.panics, stats.HookPanics)
}

// collectLoads exports the loads, which come in worker/rank order, summed as the
// detail says.
func (c *Collector) collectLoads(e emitter, loads []sched.RankLoad) {
	d := &c.descs
	workers := 0
	var sum sched.RankLoad
	for i := range loads {
		next := i + 1
		last := next == len(loads)
		sum.Rank = loads[i].Rank
		sum.PrefillTokens += loads[i].PrefillTokens
		sum.Blocks += loads[i].Blocks
		sum.Requests += loads[i].Requests
		sum.TotalKVBlocks += loads[i].TotalKVBlocks
		ends := last || loads[next].Rank.Worker != loads[i].Rank.Worker
		if ends {
			workers++
		}
		if c.detail == PerRank || c.detail == PerWorker && ends || last {
			c.collectLoad(e, &sum)
			sum = sched.RankLoad{}
		}
	}
	if len(loads) == 0 && c.detail == Total {
		c.collectLoad(e, &sum)
	}
	e.gauge(d.workers, int64(workers))
	e.gauge(d.ranks, int64(len(loads)))
}

func (c *Collector) collectLoad(e emitter, load *sched.RankLoad) {
	d, labels := &c.descs, c.detail.values(load.Rank)
	e.gauge(d.prefillTokens, load.PrefillTokens, labels...)
	e.gauge(d.blocks, load.Blocks, labels...)
	e.gauge(d.requests, load.Requests, labels...)
	if load.TotalKVBlocks > 0 {
		e.gauge(d.capacity, load.TotalKVBlocks, labels...)
	}
}

func (c *Collector) collectAside(e emitter, aside []sched.AsideWorker) {
	if c.detail == Total {
		return
	}
	for _, w := range aside {
		e.timestamp(c.descs.asideUntil, w.Until, strconv.FormatUint(w.Worker, 10))
	}
}

// The states of a worker, the worst first: of those that hold, the first counts.
const (
	stateUnavailable = "unavailable"
	stateDraining    = "draining"
	stateAside       = "aside"
	stateOverloaded  = "overloaded"
	stateOpen        = "open"
)

func stateOf(r *sched.RankState) string {
	switch {
	case r.Unavailable:
		return stateUnavailable
	case r.Draining:
		return stateDraining
	case !r.AsideUntil.IsZero():
		return stateAside
	case r.Overloaded:
		return stateOverloaded
	default:
		return stateOpen
	}
}

// collectWorkers exports how many workers are in each state, and which endpoint each
// has. The ranks come by worker, and have its state.
func (c *Collector) collectWorkers(e emitter, ranks []sched.RankState) {
	in := map[string]int64{stateUnavailable: 0, stateDraining: 0, stateAside: 0, stateOverloaded: 0, stateOpen: 0}
	for i := range ranks {
		r := &ranks[i]
		if i > 0 && ranks[i-1].Rank.Worker == r.Rank.Worker {
			continue
		}
		in[stateOf(r)]++
		if c.detail != Total {
			e.gauge(c.descs.workerInfo, 1, strconv.FormatUint(r.Rank.Worker, 10), valid(r.Endpoint), valid(r.Incarnation))
		}
	}
	for state, n := range in {
		e.gauge(c.descs.workersByState, n, state)
	}
}

// valid makes a label of what the embedder chose: Prometheus takes UTF-8 only, and
// what it does not take would be a panic.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// reasons are the errors a rejection may have. Their series exist from the start,
// so that the first rejection is an increase.
func reasons() []error {
	return []error{
		sched.ErrInvalid, sched.ErrNoEndpoints, sched.ErrOverloaded, sched.ErrPinnedOverloaded,
		sched.ErrPinNotAllowed, sched.ErrQueueFull, sched.ErrWouldQueue, sched.ErrDuplicate, sched.ErrDeadline,
		sched.ErrCanceled, sched.ErrClosed, sched.ErrSelector, sched.ErrWorkerRemoved,
	}
}

// reasonsInClass are those that a request may have once its class is found.
func reasonsInClass() []error {
	return []error{
		sched.ErrInvalid, sched.ErrNoEndpoints, sched.ErrOverloaded, sched.ErrPinnedOverloaded, sched.ErrQueueFull,
		sched.ErrWouldQueue, sched.ErrDeadline, sched.ErrCanceled, sched.ErrClosed, sched.ErrSelector, sched.ErrWorkerRemoved,
	}
}

// emitter sends metrics.
type emitter struct{ ch chan<- prometheus.Metric }

func (e emitter) gauge(d *prometheus.Desc, value int64, labels ...string) {
	e.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

func (e emitter) timestamp(d *prometheus.Desc, at time.Time, labels ...string) {
	e.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(at.UnixMilli())/1000, labels...)
}

func (e emitter) counter(d *prometheus.Desc, value int64, labels ...string) {
	e.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func (e emitter) histogram(d *prometheus.Desc, h *sched.Histogram, labels ...string) {
	buckets := make(map[float64]uint64, len(h.Bounds))
	below := uint64(0)
	for i, bound := range h.Bounds {
		below += uint64(h.Counts[i])
		buckets[bound] = below
	}
	e.ch <- prometheus.MustNewConstHistogram(d, uint64(h.Count()), h.Sum, buckets, labels...)
}
