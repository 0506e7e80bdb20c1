package turnstileprom

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// descs are the metrics of a collector.
type descs struct {
	all []*prometheus.Desc

	waitingRequests, waitingTokens, waitingCached, deficit, wait *prometheus.Desc
	classAdmissions, classRejections                             *prometheus.Desc
	admissions, queries, rejections, lost                        *prometheus.Desc
	retries, epochs, epochSteps, overflows, selection            *prometheus.Desc
	eventsDropped, panics                                        *prometheus.Desc
	prefillTokens, blocks, requests, capacity, workers, ranks    *prometheus.Desc
	asideUntil, workersByState, workerInfo                       *prometheus.Desc
}

func describe(constant prometheus.Labels, detail Detail) descs {
	var all []*prometheus.Desc
	add := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(name, help, labels, constant)
		all = append(all, d)
		return d
	}
	d := descs{
		waitingRequests: add("turnstile_waiting_requests", "Requests that stand in line.", "class"),
		waitingTokens:   add("turnstile_waiting_tokens", "Input tokens of the requests that stand in line.", "class"),
		waitingCached:   add("turnstile_waiting_cached_tokens", "Those of them that the best rank has cached.", "class"),
		deficit:         add("turnstile_class_deficit_tokens", "Deficit counter of the class, as of the last epoch.", "class"),
		wait:            add("turnstile_wait_seconds", "Time in line of requests that had to wait and were admitted.", "class"),

		classAdmissions: add("turnstile_class_admissions_total", "Requests booked, by the class they were decided in.", "class"),
		classRejections: add("turnstile_class_rejections_total",
			"Requests that ended with an error after their class was found.", "class", "reason"),

		admissions: add("turnstile_admissions_total", "Requests booked."),
		queries:    add("turnstile_queries_total", "Queries answered; they book nothing."),
		rejections: add("turnstile_rejections_total", "Requests that ended with an error, cancellations and deadlines included.", "reason"),
		lost: add("turnstile_bookings_lost_total",
			"Bookings that ended without their owner: expired, leaked, or dropped with their worker.", "cause"),

		retries:    add("turnstile_selection_retries_total", "Selections made again because a race was lost."),
		epochs:     add("turnstile_epochs_total", "Passes over the line."),
		epochSteps: add("turnstile_epoch_steps", "Steps of a pass over the line: grants, refusals, arrivals and lost races."),
		overflows:  add("turnstile_hint_overflows_total", "Full rechecks forced by a full hint ring."),
		selection:  add("turnstile_selection_seconds", "Time of sampled decisions, from the look at the ranks to the booking."),

		eventsDropped: add("turnstile_events_dropped_total", "Events and log lines that found no room on their way to observers."),
		panics:        add("turnstile_hook_panics_total", "Panics recovered from estimators, refreshers, hooks, observers and log handlers."),
	}
	ranked := detail.labels()
	d.prefillTokens = add("turnstile_prefill_tokens", "Booked prompt tokens whose prefill is not done.", ranked...)
	d.blocks = add("turnstile_kv_blocks", "KV blocks held by live bookings, shared ones counted once.", ranked...)
	d.requests = add("turnstile_active_requests", "Live bookings.", ranked...)
	d.capacity = add("turnstile_kv_blocks_capacity", "KV blocks the worker announced, where it did.", ranked...)
	d.workers = add("turnstile_workers", "Workers in the table.")
	d.ranks = add("turnstile_ranks", "Ranks in the table.")
	d.workersByState = add("turnstile_workers_by_state",
		"Workers by what they are fit for: open, overloaded, aside (for a time), draining or unavailable. Only open ones take new requests.", "state")
	if detail != Total {
		d.workerInfo = add("turnstile_worker_info", "1 for each worker, with its endpoint and which process it is.", "worker", "endpoint", "incarnation")
		d.asideUntil = add("turnstile_worker_aside_until_timestamp_seconds",
			"Until when a worker is set aside; absent for those that are not.", "worker")
	}
	d.all = all
	return d
}

func (d Detail) labels() []string {
	switch d {
	case PerWorker:
		return []string{"worker"}
	case Total:
		return nil
	default:
		return []string{"worker", "rank"}
	}
}

func (d Detail) values(id sched.RankID) []string {
	switch d {
	case PerWorker:
		return []string{strconv.FormatUint(id.Worker, 10)}
	case Total:
		return nil
	default:
		return []string{strconv.FormatUint(id.Worker, 10), strconv.FormatUint(uint64(id.Rank), 10)}
	}
}
