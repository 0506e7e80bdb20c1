package sched

import (
	"context"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/internal/measure"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/shards"
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
	// error. Both are of the name of the class, whatever the profile; what a class
	// counted is forgotten once 256 others have gone after it.
	Admitted int64            `json:"admitted,omitempty"`
	Rejected map[string]int64 `json:"rejected,omitempty"`
	// Waits are the times, in seconds, for which admitted requests had stood in line.
	// Requests that were admitted at once are not counted. As with Admitted, the name
	// counts.
	Waits Histogram `json:"wait_seconds,omitzero"`
}

// Stats is a summary of the scheduler at one moment. Counters start at 0 with
// the scheduler and only grow.
type Stats struct {
	// Version is that of Turnstile, as the build of the program recorded it: "(devel)"
	// for a build from a checkout, "unknown" if the build recorded none.
	Version string `json:"version"`
	// Classes are in the order of the profile.
	Classes []ClassStats `json:"classes,omitempty"`
	// Waiting is the number of requests that wait, in all classes. It is raised before
	// a request has its place in line, so it can be ahead of the sum of Pending for a
	// moment.
	Waiting int64 `json:"waiting"`
	// Live is the number of live bookings of this scheduler's.
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
	// EpochSizes are the steps of each epoch since a request first stood in line:
	// grants, refusals, arrivals and lost races count one each.
	EpochSizes Histogram `json:"epoch_sizes,omitzero"`
	// SelectionTimes are the times, in seconds, that sampled decisions took, from
	// the look at the ranks to the booking; without buckets unless
	// Config.SampleSelection is set.
	SelectionTimes Histogram `json:"selection_seconds,omitzero"`
	// EventsDropped counts events that found no room on their way to observers,
	// and lines that found none to the logger.
	EventsDropped int64 `json:"events_dropped"`
	// Aside are the workers that are set aside, by id.
	Aside []AsideWorker `json:"aside,omitempty"`
	// Peers are the other schedulers that have said what load they cause, by id.
	Peers []PeerStats `json:"peers,omitempty"`
	// HookPanics counts panics recovered from estimators, refreshers, decision
	// hooks, observers and log handlers. A selector's is a rejection.
	HookPanics int64 `json:"hook_panics"`
}

// AsideWorker is a worker that is set aside.
type AsideWorker struct {
	Worker      uint64 `json:"worker"`
	Incarnation string `json:"incarnation,omitempty"`
	// Until is when that ends, on the scheduler's clock.
	Until time.Time `json:"until"`
}

func (s *Scheduler) aside(t *shards.Table) (aside []AsideWorker) {
	if t.AsideEnd() == shards.NeverEnds {
		return nil
	}
	for _, w := range t.Workers() {
		if until, is := t.Aside(w.ID); is {
			aside = append(aside, AsideWorker{w.ID, w.Incarnation, s.at(until)})
		}
	}
	return aside
}

// Loads returns the load of every rank, in worker/rank order. Each is of one
// moment; different ranks may be of slightly different ones.
func (s *Scheduler) Loads() []RankLoad {
	if s.made() != nil {
		return nil
	}
	slots := s.world.Load().Table.Slots()
	loads := make([]RankLoad, len(slots))
	at := pool.Lazily(s.env.Now)
	for i := range slots {
		view, elsewhere := slots[i].Shard.Apart()
		loads[i] = RankLoad{
			Rank: slots[i].Shard.ID(), PrefillTokens: at.Active(&view.Prefill), Blocks: view.Blocks,
			Requests: view.Requests, TotalKVBlocks: slots[i].Worker.TotalKVBlocks, Peers: peerLoad(elsewhere),
		}
	}
	return loads
}

// PotentialLoad is the load of a rank as projected for a request.
type PotentialLoad struct {
	RankLoad
	// PotentialPrefillTokens are the active tokens and those that the request would
	// add.
	PotentialPrefillTokens int64
	// PotentialDecodeBlocks are the active blocks and those the request would add:
	// its block hashes but for those that begin it and are live there. A prompt
	// without hashes adds none, however long it is: these are the active blocks then.
	PotentialDecodeBlocks int64
	CachedTokens          int64
}

// PotentialLoads returns the load of every rank that could serve the request,
// as projected with the request on it. It changes nothing. Its errors are those
// of Select, but for those that concern the choice.
func (s *Scheduler) PotentialLoads(r *Request) ([]PotentialLoad, error) {
	if err := s.present(context.Background(), r); err != nil {
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
	l.TakeWhole(s.current(), request, -1, pool.Lazily(s.env.Now))
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
	if s.made() != nil {
		return Stats{}
	}
	w := s.current()
	stats := Stats{
		Version: version(),
		Classes: s.ledger.stats(w.Profile), Waiting: s.waiting.Load(),
		Queries: s.counters.queries.Value(),
		Expired: s.counters.expired.Load(), Leaked: s.counters.leaked.Load(), Dropped: s.counters.dropped.Load(),
		Epochs: s.counters.epochs.Load(), Retries: s.counters.retries.Load(),
		EpochSizes: Histogram(epochBuckets.Read(s.counters.epochSizes.Load())),
		Aside:      s.aside(w.Table),
	}
	if s.sampler != nil {
		stats.SelectionTimes = Histogram(selectionBuckets.Read(s.sampler.Times))
	}
	stats.Peers = s.peers.stats()
	stats.EventsDropped = s.outbox.Dropped()
	for i := range s.counters.panics {
		stats.HookPanics += s.counters.panics[i].Load()
	}
	for i := range w.Table.Slots() {
		view, elsewhere := w.Table.Slots()[i].Shard.Apart()
		stats.Live += view.Requests - elsewhere.Requests
	}
	s.fillCounters(w.Profile, stats.Classes)
	totals := s.classes.Totals()
	stats.Admitted, stats.Rejected = totals.Admitted, rejections(&totals)
	if ring := s.env.Hints(); ring != nil {
		stats.HintOverflows = ring.Overflows()
	}
	return stats
}

// fillCounters fills in what was counted in the classes of a profile.
func (s *Scheduler) fillCounters(p *policy.Profile, classes []ClassStats) {
	for i := range classes {
		class := s.classes.Of(p, i)
		totals := class.Totals()
		classes[i].Admitted, classes[i].Waits = totals.Admitted, Histogram(class.Waits())
		if rejected := rejections(&totals); len(rejected) > 0 {
			classes[i].Rejected = rejected
		}
	}
}

// rejections returns those that there were, by the text of their sentinel.
func rejections(totals *measure.Totals) map[string]int64 {
	counts := make(map[string]int64)
	for i, code := range codes() {
		if n := totals.Rejected[i]; n > 0 {
			counts[code.Error()] = n
		}
	}
	return counts
}
