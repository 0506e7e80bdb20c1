package sched

import (
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Snapshot is what there is to see of a scheduler: for people, and as JSON. Its
// parts are read one after the other, so while requests come and go it need not
// add up.
type Snapshot struct {
	At       time.Time `json:"at"` // on the scheduler's clock
	Selector string    `json:"selector"`
	// Draining: no new requests are taken. Closed: no request waits any more either.
	Draining bool        `json:"draining,omitempty"`
	Closed   bool        `json:"closed,omitempty"`
	Ranks    []RankState `json:"ranks"`
	Classes  []ClassLine `json:"classes"`
	// Stats are without its classes, which stand above.
	Stats Stats `json:"stats"`
}

// RankState is one rank with its load and what keeps it from more.
type RankState struct {
	RankLoad
	Endpoint string   `json:"endpoint,omitempty"`
	Taints   []string `json:"taints,omitempty"`
	// Draining, Unavailable and Overloaded are the worker's.
	Draining    bool `json:"draining,omitempty"`
	Unavailable bool `json:"unavailable,omitempty"` // not in the available set
	Overloaded  bool `json:"overloaded,omitempty"`
	// Incarnation is the worker's, if it is known. AsideUntil is when its setting
	// aside ends, zero if it is not set aside; until then it is Overloaded too.
	Incarnation string    `json:"incarnation,omitempty"`
	AsideUntil  time.Time `json:"aside_until,omitzero"`
	// Busy has an entry for each class with a busy threshold.
	Busy []ClassBusy `json:"busy,omitempty"`
}

// ClassBusy says whether a rank is busy for a class, and with what load it is: any
// one of those given suffices.
type ClassBusy struct {
	Class string `json:"class"`
	// Above is in active prefill tokens: with more the rank is busy. NoThreshold if
	// they do not count.
	Above int64 `json:"above"`
	// MaxRequests is the number of active requests with which it is busy, 0 if they
	// do not count.
	MaxRequests int64 `json:"max_requests,omitempty"`
	// BlocksAbove is in active blocks: with more the rank is busy. Nil if they do not
	// count.
	BlocksAbove *int64 `json:"blocks_above,omitempty"`
	Busy        bool   `json:"busy"`
}

// NoThreshold stands in ClassBusy.Above for a class whose ranks are not made busy
// by prefill tokens.
const NoThreshold = -1

func classBusy(class string, above *lifecycle.BusyAbove, r *RankLoad) ClassBusy {
	b := ClassBusy{Class: class, Above: NoThreshold, Busy: above.Exceeded(r.PrefillTokens, r.Requests, r.Blocks)}
	if above.Prefill != lifecycle.Never {
		b.Above = above.Prefill
	}
	if above.Requests != lifecycle.Never {
		b.MaxRequests = above.Requests + 1
	}
	if above.Blocks != lifecycle.Never {
		blocks := above.Blocks
		b.BlocksAbove = &blocks
	}
	return b
}

// ClassLine is one policy class with its waiters.
type ClassLine struct {
	ClassStats
	Order   string `json:"order"`
	Quantum int64  `json:"quantum"` // tokens
	// CanQueue: requests of the class wait while ranks are busy. NeverQueues: they
	// are refused instead.
	CanQueue    bool         `json:"can_queue"`
	NeverQueues bool         `json:"never_queues,omitempty"`
	Limits      []LimitState `json:"limits,omitempty"`
	// Heads are the first of the waiters, in the order in which they would go if all
	// could run.
	Heads []Waiter `json:"heads,omitempty"`
	// Oldest is the longest that any waiter of the class has waited.
	Oldest time.Duration `json:"oldest_ns"`
	// EndpointUntil is when the first of the waiters that have no usable rank will
	// fail; zero if there is none.
	EndpointUntil time.Time `json:"endpoint_until,omitzero"`
}

// LimitState is a limit of a class with its use.
type LimitState struct {
	// Limit is requests, raw-tokens or cached-tokens.
	Limit string `json:"limit"`
	Usage int64  `json:"usage"`
	// Bound is the limit per worker times the workers.
	Bound int64 `json:"bound"`
}

// Waiter is a request that stands in line.
type Waiter struct {
	Request  string        `json:"request"`
	Query    bool          `json:"query,omitempty"`
	Waited   time.Duration `json:"waited_ns"`
	Priority uint32        `json:"priority,omitempty"`
	// Due is zero for none.
	Due time.Time `json:"due,omitzero"`
	// ISL and Cached are in tokens; Cost is the scheduling cost the class is
	// charged, in tokens.
	ISL    int64 `json:"isl"`
	Cached int64 `json:"cached_tokens"`
	Cost   int64 `json:"cost"`
	// Lane says in words which ranks it can run on.
	Lane string `json:"lane"`
}

// Snapshot returns the state of the scheduler, with up to heads waiters of each class;
// 0 or less is none. It changes nothing and takes no turn: a scheduler that is held up,
// by a slow selector for instance, can be looked at. It costs O(ranks × classes +
// waiting × log heads).
func (s *Scheduler) Snapshot(heads int) Snapshot {
	if s.made() != nil {
		return Snapshot{}
	}
	heads = max(0, heads)
	w := s.current()
	at := pool.Lazily(s.env.Now)
	snapshot := Snapshot{
		Selector: selector.Name(w.Selector), Draining: w.Draining, Closed: w.Closed,
		Ranks: make([]RankState, len(w.Table.Slots())), Classes: make([]ClassLine, w.Profile.Len()),
		Stats: s.Stats(),
	}
	now := at.Nanoseconds()
	snapshot.At = s.origin.Add(time.Duration(now))
	for i := range snapshot.Ranks {
		snapshot.Ranks[i] = s.rankState(w, i, &at)
	}
	snapshot.Stats.Classes = nil
	stats := s.ledger.stats(w.Profile)
	s.fillCounters(w.Profile, stats)
	for i := range snapshot.Classes {
		snapshot.Classes[i] = s.classLine(w, i, stats[i])
		snapshot.Classes[i].Heads, snapshot.Classes[i].Oldest = s.heads(w, i, now, heads)
	}
	return snapshot
}

func (s *Scheduler) rankState(w *pool.World, place int, at *pool.Instant) RankState {
	slot := &w.Table.Slots()[place]
	view, elsewhere := slot.Shard.Apart()
	state := RankState{
		RankLoad: RankLoad{
			Rank: slot.Shard.ID(), PrefillTokens: at.Active(&view.Prefill), Blocks: view.Blocks,
			Requests: view.Requests, TotalKVBlocks: slot.Worker.TotalKVBlocks, Peers: peerLoad(elsewhere),
		},
		Endpoint: slot.Worker.Endpoint, Taints: append([]string(nil), slot.Worker.Taints...),
		Draining: w.Table.Draining(slot.Worker.ID), Overloaded: slot.Overloaded,
		Incarnation: slot.Worker.Incarnation,
	}
	if until, aside := w.Table.Aside(slot.Worker.ID); aside {
		state.AsideUntil = s.at(until)
	}
	state.Unavailable = !slot.Available && !state.Draining
	state.Busy = busyFor(w, slot, &state.RankLoad)
	return state
}

// busyFor says for which classes a rank with the load is busy.
func busyFor(w *pool.World, slot *shards.Slot, load *RankLoad) (busy []ClassBusy) {
	for class := range w.Profile.Len() {
		if c := w.Profile.Class(class); c.CanQueue() {
			busy = append(busy, classBusy(c.Name, w.BusyAbove(class, slot), load))
		}
	}
	return busy
}

func (s *Scheduler) classLine(w *pool.World, class int, stats ClassStats) ClassLine {
	c := w.Profile.Class(class)
	line := ClassLine{
		ClassStats: stats, Order: c.Order.String(), Quantum: c.Quantum, CanQueue: c.CanQueue(),
	}
	_, line.NeverQueues = c.NeverQueues()
	if at := s.ledger.failsAt(w.Profile, class); at != queue.NoDue {
		line.EndpointUntil = s.at(at)
	}
	usage := queue.Usage{Requests: stats.Pending, Raw: stats.Tokens, Cached: stats.Cached}
	for _, b := range c.Bounds(limitWorkers(w)) {
		line.Limits = append(line.Limits, LimitState{Limit: b.Limit, Usage: usage.Of(b.Limit), Bound: b.Bound})
	}
	return line
}

// heads returns the first few of the waiters in a class and how long the oldest has
// waited.
func (s *Scheduler) heads(w *pool.World, class int, now int64, most int) (heads []Waiter, oldest time.Duration) {
	type candidate struct {
		standing queue.Standing
		waiter   Waiter
	}
	spec := pool.ClassSpec(w.Profile, class)
	var found []candidate
	sort := func() {
		slices.SortFunc(found, func(a, b candidate) int {
			switch {
			case a.standing.Before(b.standing):
				return -1
			case b.standing.Before(a.standing):
				return 1
			default:
				return 0
			}
		})
		found = found[:min(most, len(found))]
	}
	var last *queue.Standing // that is still one of the heads, once there are enough
	s.ledger.eachWaiting(w.Profile, class, func(j *job) {
		oldest = max(oldest, time.Duration(now-j.entry.Arrival))
		standing := queue.StandingOf(spec, &j.entry, now)
		if most <= 0 || last != nil && !standing.Before(*last) {
			return
		}
		found = append(found, candidate{standing, s.waiter(j, now)})
		if len(found)/2 >= most {
			sort()
			worst := found[most-1].standing
			last = &worst
		}
	})
	sort()
	for i := range found {
		heads = append(heads, found[i].waiter)
	}
	return heads, oldest
}

// waiter describes a job that is counted in the ledger. REQUIRES: ledger.mu.
func (s *Scheduler) waiter(j *job, now int64) Waiter {
	waiter := Waiter{
		Request: j.id, Query: j.query, Waited: max(0, time.Duration(now-j.entry.Arrival)), Priority: j.priority,
		ISL: j.entry.Raw, Cached: j.entry.Cached, Cost: j.entry.Cost, Lane: j.request.Constraints.String(),
	}
	if j.due != queue.NoDue {
		waiter.Due = s.at(j.due)
	}
	return waiter
}
