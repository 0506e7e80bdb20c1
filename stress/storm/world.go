package storm

import (
	"fmt"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// world is what the engine was told of workers and policy. A world never
// changes; the churner replaces it. While it tells the engine of another there is
// none, so a caller that finds the same world before and after a call knows that the
// engine had no other in between.
type world struct {
	workers    []worker // by id
	available  map[uint64]bool
	all        bool // all are available
	overloaded map[uint64]bool
	profile    *profile // nil for none
}

type worker struct {
	sched.Worker
	draining bool
	books    []*book // of its ranks; new ones when it comes back
}

func (w *world) clone() *world {
	next := *w
	next.workers = slices.Clone(w.workers)
	return &next
}

func (w *world) find(id uint64) *worker {
	i, found := slices.BinarySearchFunc(w.workers, id, func(w worker, id uint64) int { return compare(w.ID, id) })
	if !found {
		return nil
	}
	return &w.workers[i]
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// book returns the book of a rank, nil if the rank does not exist.
func (w *world) book(id sched.RankID) *book {
	wk := w.find(id.Worker)
	if wk == nil || int(id.Rank) >= len(wk.books) {
		return nil
	}
	return wk.books[id.Rank]
}

func (w *world) endpoint(id uint64) string {
	if wk := w.find(id); wk != nil {
		return wk.Endpoint
	}
	return ""
}

// place is an eligible rank.
type place struct {
	id         sched.RankID
	book       *book
	overloaded bool
}

// eligible appends the ranks that are eligible for a request, overload aside.
func (w *world) eligible(r *sched.Request, to []place) []place {
	for i := range w.workers {
		wk := &w.workers[i]
		switch {
		case r.Pin != nil && r.Pin.Worker != wk.ID,
			r.Allowed != nil && !slices.Contains(r.Allowed, wk.ID),
			slices.Contains(r.Excluded, wk.ID),
			wk.draining, !w.all && !w.available[wk.ID]:
			continue
		}
		if slices.ContainsFunc(r.RequiredTaints, func(t string) bool { return !slices.Contains(wk.Taints, t) }) {
			continue
		}
		for rank, b := range wk.books {
			if r.Pin == nil || r.Pin.Rank == uint32(rank) {
				to = append(to, place{
					id: sched.RankID{Worker: wk.ID, Rank: uint32(rank)}, book: b, overloaded: w.overloaded[wk.ID],
				})
			}
		}
	}
	return to
}

// profile is one policy that the storm may have.
type profile struct {
	text   []byte
	parsed *policy.Profile
}

func (p *profile) class(name string) *policy.Class {
	if p == nil {
		return nil
	}
	return p.parsed.Class(p.parsed.Classify(name, 0))
}

const onPolicy = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000, prefill_busy_threshold: 0}
`

// mixedPolicy has the same six classes whatever the numbers.
const mixedPolicy = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: %d, prefill_busy_threshold: %d, endpoint_wait: 0.05}
  - {name: wide, quantum: %d, prefill_busy_threshold: %d, request_queue_limit_per_worker: 4}
  - {name: half, quantum: 700, prefill_busy_threshold: %d, busy_worker_ratio: 0.5}
  - {name: never, quantum: 500, prefill_busy_threshold: 100, request_queue_limit_per_worker: 0}
  - {name: open, quantum: 500}
  - {name: old, quantum: 300, queue_policy: wspt, prefill_busy_threshold: 0, max_queue_age: 0.02, guard_after: 0.02}
`

// maxRequests is what each class of cappedPolicy lets a rank have.
const maxRequests = 3

// cappedPolicy has three classes that choose from ranks with fewer requests than that.
const cappedPolicy = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: %d, max_requests_per_rank: 3, choose_from: idle}
  - {name: wide, quantum: %d, prefill_busy_threshold: 100, max_requests_per_rank: 3, choose_from: idle, request_queue_limit_per_worker: 4}
  - {name: old, quantum: 300, queue_policy: wspt, prefill_busy_threshold: 0, max_requests_per_rank: 3, choose_from: idle, max_queue_age: 0.02, guard_after: 0.02, endpoint_wait: 0.05}
`

// openPolicy takes the thresholds away, so that every waiter may go.
const openPolicy = `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 1000}
  - {name: wide, quantum: 100}
  - {name: half, quantum: 700}
  - {name: never, quantum: 500}
  - {name: open, quantum: 500}
  - {name: old, quantum: 300, queue_policy: wspt, max_queue_age: 0.02}
`

// thresholds are all that the policies name; a book watches each.
var thresholds = [...]int64{0, 100}

// profiles returns the policies of a storm, the first one first.
func profiles(name string) ([]*profile, error) {
	var texts []string
	switch name {
	case ProfileOff:
		return nil, nil
	case ProfileOn:
		texts = []string{onPolicy}
	case ProfileCapped:
		texts = []string{fmt.Sprintf(cappedPolicy, 1000, 500), fmt.Sprintf(cappedPolicy, 200, 2000)}
	default:
		texts = []string{
			fmt.Sprintf(mixedPolicy, 1000, 0, 500, 100, 0),
			fmt.Sprintf(mixedPolicy, 200, 100, 2000, 0, 100),
			fmt.Sprintf(mixedPolicy, 1000, 0, 100, 0, 0),
			openPolicy,
		}
	}
	list := make([]*profile, len(texts))
	for i, text := range texts {
		file, err := policy.Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		list[i] = &profile{text: []byte(text), parsed: file.For("")}
	}
	return list, nil
}

// classNames are what requests of a storm ask for.
func classNames(name string) []string {
	switch name {
	case ProfileMixed:
		return []string{"f", "f", "wide", "half", "never", "open", "old"}
	case ProfileCapped:
		return []string{"f", "f", "wide", "old"}
	}
	return []string{"f"}
}
