package sched

import (
	"context"

	"github.com/seed-3c5df8a4/turnstile/sched/pool"
)

// ClassStats is the state of one policy class at one moment.
type ClassStats struct {
	Name string `json:"name"`
	// Pending is the number of requests that stand in line: each has its place.
	Pending int64 `json:"pending"`
	// Tokens and Cached are the sums of their input and cached tokens.
	Tokens int64 `json:"tokens"`
	Cached int64 `json:"cached_tokens"`
	// Deficit is the class's deficit counter, in tokens.
	Deficit int64 `json:"deficit"`
	// Admitted counts the bookings made in the class, Rejected the requests that
	// ended with an error after their class was found, by the text of the sentinel
	// error. Both go by the name of the class, whatever the profile.
	Admitted int64            `json:"admitted,omitempty"`
	Rejected map[string]int64 `json:"rejected,omitempty"`
	// Waits are the times, in seconds, for which those admitted had stood in line.
	// Who was admitted at once is not counted. It goes by the name of the class,
	// whatever the profile.
	Waits Histogram `json:"wait_seconds,omitzero"`
}

// Stats is a summary of the scheduler at one moment. Counters start at 0 with
// the scheduler and only grow.
type Stats struct {
	// Classes are in the order of the profile.
	Classes []ClassStats `json:"classes,omitempty"`
	// Waiting is the number of requests that wait, in all classes. It is raised
	// before a request has its place in line, so it can be ahead of the sum of
	// Pending: who needs to know that they stand in order looks at Pending.
	Waiting int64 `json:"waiting"`
	// Live is the number of live bookings.
	Live int64 `json:"live"`

	// Admitted counts bookings made; Queries counts queries answered.
	Admitted int64 `json:"admitted"`
	Queries  int64 `json:"queries"`
	// Rejected counts requests that ended with an error, by the text of the
	// sentinel error, for example "queue-full".
	Rejected map[string]int64 `json:"rejected"`
	// Expired counts bookings that ran into their ttl, Leaked those reclaimed
	// after their handle was lost, Dropped those whose worker was removed.
	Expired int64 `json:"expired"`
	Leaked  int64 `json:"leaked"`
	Dropped int64 `json:"dropped"`
	// HintOverflows counts full rechecks forced by a full hint ring, Epochs the
	// epochs run, Retries the selections made again because a race was lost.
	HintOverflows int64 `json:"hint_overflows"`
	Epochs        int64 `json:"epochs"`
	Retries       int64 `json:"retries"`
	// EpochSizes are the steps of each epoch since somebody first stood in line:
	// grants, refusals, arrivals and lost races count one each.
	EpochSizes Histogram `json:"epoch_sizes,omitzero"`
	// SelectionTimes are the times, in seconds, that sampled decisions took, from
	// the look at the ranks to the booking; without buckets unless
	// Config.SampleSelection is set.
	SelectionTimes Histogram `json:"selection_seconds,omitzero"`
	// EventsDropped counts events that found no room on their way to observers,
	// and lines that found none to the logger.
	EventsDropped int64 `json:"events_dropped"`
	// HookPanics counts panics recovered from estimators, refreshers, decision
	// hooks, observers and log handlers. A selector's is a rejection.
	HookPanics int64 `json:"hook_panics"`
}

// rejectionCodes is the number of codes that a rejection can have.
const rejectionCodes = 13

// codes returns the sentinels of rejections, by place in tally.rejected.
func codes() [rejectionCodes]error {
	return [...]error{
		ErrInvalid, ErrNoEndpoints, ErrOverloaded, ErrPinnedOverloaded, ErrPinNotAllowed, ErrQueueFull,
		ErrWouldQueue, ErrDuplicate, ErrDeadline, ErrCanceled, ErrClosed, ErrSelector, ErrWorkerRemoved,
	}
}

// reject notes a rejection that its caller makes itself. rec is nil if it did not
// get that far.
func (s *Scheduler) reject(rec *record, id, class string, query bool, err error) {
	s.countRejection(class, err)
	s.journal.add(Decision{Kind: DecisionRejected, Request: id, Query: query, Err: err})
	if s.outbox.observes() {
		s.tellRejected(rec, id, class, query, err, s.now())
	}
}

// Loads returns the load of every rank, in worker/rank order. Each is of one
// moment; different ranks may be of slightly different ones.
func (s *Scheduler) Loads() []RankLoad {
	slots := s.world.Load().Table.Slots()
	loads := make([]RankLoad, len(slots))
	at := pool.Lazily(s.env.Now)
	for i := range slots {
		view := slots[i].Shard.View()
		loads[i] = RankLoad{
			Rank: slots[i].Shard.ID(), PrefillTokens: at.Active(&view.Prefill), Blocks: view.Blocks,
			Requests: view.Requests, TotalKVBlocks: slots[i].Worker.TotalKVBlocks,
		}
	}
	return loads
}

// PotentialLoad is the load of a rank as projected for a request.
type PotentialLoad struct {
	RankLoad
	// PotentialPrefillTokens are the active ones and those the request would
	// bring.
	PotentialPrefillTokens int64
	// PotentialDecodeBlocks are the active blocks and those the request would
	// add.
	PotentialDecodeBlocks int64
	CachedTokens          int64
}

// PotentialLoads returns the load of every rank that could serve the request,
// as projected with the request on it. It changes nothing. Its errors are those
// of Select, but for those that concern the choice.
func (s *Scheduler) PotentialLoads(r *Request) ([]PotentialLoad, error) {
	if err := present(context.Background(), r); err != nil {
		return nil, err
	}
	l := s.looks.Get().(*pool.Look)
	defer s.putLook(l)
	request := &l.Own
	if err := r.derive(&s.params, request); err != nil {
		return nil, err
	}
	if !request.Constraints.PinAllowed() {
		return nil, pinNotAllowed(r.ID, &request.Constraints)
	}
	l.TakeWhole(s.world.Load(), request, -1, pool.Lazily(s.env.Now))
	loads := make([]PotentialLoad, l.Candidates())
	for i := range loads {
		c, slot, placed := l.Candidate(i), l.Slot(i), l.Placed(i)
		loads[i] = PotentialLoad{
			RankLoad: RankLoad{
				Rank: c.Rank, PrefillTokens: c.ActivePrefill, Blocks: c.ActiveBlocks, Requests: c.Requests,
				TotalKVBlocks: slot.Worker.TotalKVBlocks,
			},
			PotentialPrefillTokens: c.ActivePrefill,
			PotentialDecodeBlocks:  c.PotentialBlocks,
			CachedTokens:           placed.Cached,
		}
		if request.Tracked {
			loads[i].PotentialPrefillTokens += max(0, r.ISL-placed.Cached)
		}
	}
	return loads, nil
}

// Stats returns a summary.
func (s *Scheduler) Stats() Stats {
	w := s.world.Load()
	stats := Stats{
		Classes: s.ledger.stats(w.Profile), Waiting: s.waiting.Load(),
		Queries: s.counters.queries.Value(), Rejected: make(map[string]int64),
		Expired: s.counters.expired.Load(), Leaked: s.counters.leaked.Load(), Dropped: s.counters.dropped.Load(),
		Epochs: s.counters.epochs.Load(), Retries: s.counters.retries.Load(),
		EpochSizes: epochBuckets.snapshot(s.counters.epochSizes.Load()),
	}
	if s.sampler != nil {
		stats.SelectionTimes = selectionBuckets.snapshot(s.sampler.times)
	}
	if s.outbox != nil {
		stats.EventsDropped = s.outbox.dropped.Load()
	}
	for i := range s.counters.panics {
		stats.HookPanics += s.counters.panics[i].Load()
	}
	for i := range w.Table.Slots() {
		stats.Live += w.Table.Slots()[i].Shard.View().Requests
	}
	s.tallied(stats.Classes)
	s.tallies.Load().all(func(t *tally) {
		stats.Admitted += t.admissions()
		t.rejectionsTo(stats.Rejected)
	})
	if ring := s.env.Hints(); ring != nil {
		stats.HintOverflows = ring.Overflows()
	}
	return stats
}
