package linear

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/stress/model"
)

// policies are what profiles are swapped between. All have the same names, so
// that one request means something else under each: x waits under the first and
// never under the second, n the other way round. Under each, one class guards its
// threshold from the next tick on, and one chooses from idle ranks.
var policies = [...]string{`
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: f, policy_family: f, cache_bucket: all, quantum: 10, prefill_busy_threshold: 0, guard_after: 1, request_queue_limit_per_worker: 2}
  - {name: g, policy_family: g, cache_bucket: all, quantum: 25, queue_policy: wspt, prefill_busy_threshold: 25}
  - {name: x, quantum: 10, prefill_busy_threshold: 15, busy_worker_ratio: 0.5, raw_isl_token_queue_limit_per_worker: 30}
  - {name: n, quantum: 1, prefill_busy_threshold: 0, request_queue_limit_per_worker: 0}
  - {name: u, quantum: 1}
  - {name: c, quantum: 10, max_requests_per_rank: 1, choose_from: idle}
`, `
default_policy_family: f
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: g, policy_family: g, cache_bucket: all, quantum: 40, prefill_busy_threshold: 15, busy_worker_ratio: 0.5}
  - {name: f, policy_family: f, cache_bucket: all, quantum: 10, prefill_busy_threshold: 25}
  - {name: x, quantum: 10, prefill_busy_threshold: 15, raw_isl_token_queue_limit_per_worker: 0}
  - {name: n, quantum: 5, prefill_busy_threshold: 0, guard_after: 1, request_queue_limit_per_worker: 1}
  - {name: u, quantum: 1, prefill_busy_threshold: 10}
  - {name: c, quantum: 10, max_requests_per_rank: 2, prefill_busy_threshold: 0, choose_from: idle}
`}

// tick is how far the clock moves in a step, and the age at which classes guard.
const tick = time.Second

// incarnations are the processes that a worker can be of; the first is not named.
var incarnations = [...]string{"", "a", "b"}

// newWorld returns a pool of two or three ranks and so many requests.
func newWorld(rnd *rand.Rand, requests int) (*world, error) {
	w := &world{}
	for _, text := range policies {
		p, err := model.ParseProfile([]byte(text))
		if err != nil {
			return nil, err
		}
		w.profiles = append(w.profiles, p)
	}
	for i, ranks := range [][]uint32{{2}, {1, 1}, {2, 1}, {1, 1, 1}}[rnd.IntN(4)] {
		worker := sched.Worker{ID: uint64(i + 1), Ranks: ranks, MaxBatchedTokens: 1000}
		w.workers = append(w.workers, worker)
		for r := range ranks {
			w.ranks = append(w.ranks, sched.RankID{Worker: worker.ID, Rank: r})
		}
	}
	for i := range requests {
		w.requests = append(w.requests, w.newRequest(rnd, i))
	}
	for _, p := range w.profiles {
		var classes []int
		for _, r := range w.requests {
			classes = append(classes, p.Classify(r.class, r.isl))
		}
		w.classes = append(w.classes, classes)
	}
	return w, nil
}

func (w *world) newRequest(rnd *rand.Rand, i int) *request {
	r := &request{
		index: i, id: fmt.Sprintf("r%d", i), isl: []int64{0, 10, 20, 20, 40}[rnd.IntN(5)],
		class: []string{"f", "f", "f", "g", "g", "g", "x", "x", "n", "u", "c", "c"}[rnd.IntN(12)],
		query: rnd.IntN(10) == 0, noQueue: rnd.IntN(8) == 0, pin: noRank,
	}
	if rnd.IntN(6) == 0 {
		r.priority = 1
	}
	switch rnd.IntN(6) {
	case 0:
		r.pin = rnd.IntN(len(w.ranks))
	case 1:
		r.allowed = []uint64{w.workers[rnd.IntN(len(w.workers))].ID}
	}
	return r
}

// asked returns the request as the scheduler is asked.
func (w *world) asked(r *request) *sched.Request {
	q := &sched.Request{
		ID: r.id, ISL: r.isl, Class: r.class, Priority: r.priority, Allowed: r.allowed, DoNotQueue: r.noQueue,
	}
	if r.pin != noRank {
		q.Pin = &w.ranks[r.pin]
	}
	return q
}
