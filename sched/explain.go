package sched

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/queue"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Outcome is what would become of a request.
type Outcome string

// The outcomes.
const (
	// OutcomeAdmitted: it would be booked at once.
	OutcomeAdmitted Outcome = "admitted"
	// OutcomeQueued: it would wait in line.
	OutcomeQueued Outcome = "queued"
	// OutcomeRefused: it would get an error at once.
	OutcomeRefused Outcome = "refused"
)

// Explanation says what would become of a request and why. String prints it for
// people; as JSON it has the same.
type Explanation struct {
	Request string    `json:"request,omitempty"`
	At      time.Time `json:"at"` // on the scheduler's clock
	Outcome Outcome   `json:"outcome"`
	// Code is the text of the sentinel error of a refusal, Why the reason of any
	// outcome in words.
	Code string `json:"code,omitempty"`
	Why  string `json:"why"`
	// Err is the error that Schedule would return; its type is *Error.
	Err error `json:"-"`
	// Rank is where an admitted request would go: of several that could be drawn,
	// the likeliest, and the first of those.
	Rank *RankID `json:"rank,omitempty"`

	Selector string `json:"selector"`
	// ISL is in tokens, Blocks is the number of full prompt blocks given.
	ISL    int64 `json:"isl"`
	Blocks int   `json:"blocks"`
	// Line is where the request stands or would stand in line.
	Line LineExplanation `json:"line"`
	// Ranks are all ranks, in the order of worker, then rank.
	Ranks []RankExplanation `json:"ranks"`
	// Classes are all policy classes with their waiters, without their heads.
	Classes []ClassLine `json:"classes"`
}

// LineExplanation says where a request would stand in line.
type LineExplanation struct {
	Class string `json:"class"`
	// Unknown is the name asked for, if it is neither an explicit class nor a
	// family, so that the default family holds.
	Unknown string `json:"unknown_class,omitempty"`
	Lane    string `json:"lane"` // the ranks it can run on, in words
	// MustWait: too many of its ranks are busy for it to run now. Why says how many.
	MustWait bool   `json:"must_wait"`
	Why      string `json:"why"`
	// Cost is what its class would be charged, in tokens; Cached the most that any
	// eligible rank has cached.
	Cost     int64  `json:"cost"`
	Cached   int64  `json:"cached_tokens"`
	Priority uint32 `json:"priority,omitempty"`
	// Ahead counts those of its class that would go before it if all could run,
	// AheadInLane those of them that can run on just the same ranks.
	Ahead       int `json:"ahead"`
	AheadInLane int `json:"ahead_in_lane"`
	// EndpointUntil is until when it would wait for a rank that it may use, if it has
	// none now and its class waits for one; else zero.
	EndpointUntil time.Time `json:"endpoint_until,omitzero"`
}

// Objection is one rule that keeps a rank from serving a request. It has the fields
// Rule, a name such as "excluded", "draining" or "lacks-taint", and Detail, which
// says it in words.
type Objection = shards.Objection

// RankExplanation is one rank as a request sees it.
type RankExplanation struct {
	RankState
	// Eligible: nothing speaks against the rank. Against lists what does, in the
	// order in which it is tested: the first is why.
	Eligible bool        `json:"eligible"`
	Against  []Objection `json:"against,omitempty"`
	// Barred says why an eligible rank cannot be chosen for the request's class now:
	// empty if it can.
	Barred string `json:"barred,omitempty"`
	// Chosen is set at the rank that Explanation.Rank names, also when the request
	// would have to wait before it could go there.
	Chosen bool `json:"chosen,omitempty"`
	// Chance is with which probability the selector takes the rank, in [0,1].
	// ChanceKnown is false for a custom selector.
	Chance      float64 `json:"chance"`
	ChanceKnown bool    `json:"chance_known"`
	// CachedTokens are the prompt tokens expected in the rank's cache, of the
	// blocks in Overlap. PotentialBlocks are the active blocks with the request on
	// the rank; 0 if it cannot be chosen.
	CachedTokens    int64   `json:"cached_tokens"`
	DeviceBlocks    float64 `json:"device_blocks,omitempty"`
	HostBlocks      float64 `json:"host_blocks,omitempty"`
	DiskBlocks      float64 `json:"disk_blocks,omitempty"`
	PotentialBlocks int64   `json:"potential_blocks,omitempty"`
	// Cost is the KV cost with its terms, of ranks that can be chosen; nil if it is not
	// finite, which is an error. Score is what another selector compares, lower is
	// better: active requests, or what a selector.Scorer says; nil if there is none.
	Cost  *selector.CostParts `json:"cost,omitempty"`
	Score *float64            `json:"score,omitempty"`
}

// Explain says what Schedule would do with the request now and why: for each rank,
// whether it is eligible and if not why, what it would cost with the parts of the cost,
// and for which classes it is busy; and where the request would stand in line. While
// nothing else moves, Schedule then does just that. It changes nothing: it books
// nothing, is not counted, draws no random number of the scheduler's, moves no round
// robin and takes no turn, so that it works while the scheduler is held up. The id may
// be empty.
//
// It costs O(ranks × classes + waiting), and allocates: it is for people and for tests,
// not for each request. The selector is asked as for Select; a custom one may implement
// selector.Scorer to show its scores.
//
// The only error is ErrInvalid, for a request that breaks a rule in itself. Any
// other refusal is an outcome to explain.
func (s *Scheduler) Explain(r *Request) (*Explanation, error) {
	if err := s.present(context.Background(), r); err != nil {
		return nil, err
	}
	l := s.looks.Get().(*pool.Look)
	defer s.putLook(l)
	request := &l.Own
	if err := r.derive(&s.params, request); err != nil {
		return nil, err
	}
	w, now := s.current(), s.now()
	class, cached := w.Classify(r.Class, request)
	l.Guards = s.guardsAt(w, now)
	l.TakeWhole(w, request, class, pool.At(now))
	explained, failed := l.Explain(rand.New(rand.NewPCG(0, 0)))

	e := &Explanation{
		Request: r.ID, At: s.origin.Add(time.Duration(now)), Selector: selector.Name(w.Selector),
		ISL: r.ISL, Blocks: len(r.Blocks),
		Line: s.explainLine(r, l, cached, now), Ranks: s.explainRanks(l, &explained, failed == nil),
	}
	stats := s.ledger.stats(w.Profile)
	for i := range stats {
		e.Classes = append(e.Classes, s.classLine(w, i, stats[i]))
		_, e.Classes[i].Oldest = s.heads(w, i, now, 0)
	}
	usage := queue.Usage{Requests: stats[class].Pending, Raw: stats[class].Tokens, Cached: stats[class].Cached}
	e.Outcome, e.Err = s.outcomeOf(r, l, failed, usage, now)
	switch e.Outcome {
	case OutcomeAdmitted:
		rank := l.Candidate(explained.Choice.Candidate).Rank
		e.Rank = &rank
		e.Why = whyChosen(l, &explained)
	case OutcomeQueued:
		e.Why = e.Line.Why
	case OutcomeRefused:
		e.Why = e.Err.Error()
		var refusal *Error
		if errors.As(e.Err, &refusal) {
			e.Code = refusal.Code.Error()
		}
	}
	return e, nil
}

// outcomeOf decides as Schedule does, in its order: the checks at the door, then the
// rules of admission as they are when nothing moves, that is, when no request that
// could run is waiting.
func (s *Scheduler) outcomeOf(r *Request, l *pool.Look, failed *pool.Failure, usage queue.Usage, now int64) (Outcome, error) {
	if err := s.refusedAtDoor(r, l, now); err != nil {
		return OutcomeRefused, err
	}
	c := l.World.Profile.Class(l.Class)
	switch ruleOn(l, c, !r.DoNotQueue && c.WaitsForEndpoint(), usage.Requests) {
	case tryNow:
	case mustNotWait:
		limit, _ := c.NeverQueues()
		return OutcomeRefused, queueFull(r.ID, c.Name, limit, usage.Of(limit), 0)
	case mustWait:
		workers := limitWorkers(l.World)
		limit, used, bound, full := c.LimitReached(usage.Requests, usage.Raw, usage.Cached, workers)
		switch {
		case full:
			return OutcomeRefused, queueFull(r.ID, c.Name, limit, used, bound)
		case r.DoNotQueue:
			return OutcomeRefused, wouldQueue(r.ID, c.Name, usage, l.WhyWait())
		}
		return OutcomeQueued, nil
	}
	if failed != nil {
		return OutcomeRefused, failureError(r.ID, failed)
	}
	return OutcomeAdmitted, nil
}

func (s *Scheduler) refusedAtDoor(r *Request, l *pool.Look, now int64) error {
	w := l.World
	if w.Closed || w.Draining {
		return &Error{Code: ErrClosed, Request: r.ID}
	}
	if c := &l.Request.Constraints; !c.PinAllowed() {
		return pinNotAllowed(r.ID, c)
	}
	if s.ids.Find(r.ID) != nil {
		return duplicate(r.ID)
	}
	switch {
	case !r.Due.IsZero() && s.since(r.Due) <= now:
		return pastDue(r.ID)
	case len(w.Table.Slots()) == 0 && (r.DoNotQueue || !w.Profile.Class(l.Class).WaitsForEndpoint()):
		return noWorkers(r.ID)
	}
	return nil
}

// explainLine finds the place the request would have in its class.
func (s *Scheduler) explainLine(r *Request, l *pool.Look, cached, now int64) LineExplanation {
	c := &l.Request.Constraints
	line := LineExplanation{
		Class: l.World.Profile.Class(l.Class).Name, Lane: c.String(), MustWait: l.MustWait(), Why: l.WhyWait(),
		Cost: pool.Cost(r.ISL, cached), Cached: cached, Priority: r.Priority,
	}
	if rules := l.World.Profile.Class(l.Class); l.NoneUsable() && !r.DoNotQueue && rules.WaitsForEndpoint() {
		line.MustWait = true
		line.Why += fmt.Sprintf("; the class waits %v for one that it may use", rules.EndpointWait)
		line.EndpointUntil = s.at(later(now, rules.EndpointWait))
	}
	if r.Class != "" && !l.World.Profile.Knows(r.Class) {
		line.Unknown = r.Class
	}
	own := queue.Entry[*job]{
		Seq: math.MaxUint64, Arrival: now, Due: queue.NoDue, Priority: r.Priority, Jump: queue.Jump(r.Jump),
		Cost: line.Cost, Lane: c.Key(),
	}
	if !r.Due.IsZero() {
		own.Due = s.since(r.Due)
	}
	spec := pool.ClassSpec(l.World.Profile, l.Class)
	standing := queue.StandingOf(spec, &own, now)
	s.ledger.eachWaiting(l.World.Profile, l.Class, func(j *job) {
		if !queue.StandingOf(spec, &j.entry, now).Before(standing) {
			return
		}
		line.Ahead++
		if j.entry.Lane == own.Lane {
			line.AheadInLane++
		}
	})
	return line
}

func (s *Scheduler) explainRanks(l *pool.Look, explained *pool.Explained, chosen bool) []RankExplanation {
	w, r := l.World, l.Request
	ranks := make([]RankExplanation, len(w.Table.Slots()))
	for place := range ranks {
		x := &ranks[place]
		x.RankState = s.rankState(w, place, &l.Instant)
		x.Against = w.Table.Objections(&r.Constraints, place)
		x.Eligible = len(x.Against) == 0
		o := overlapOn(r.Overlaps, x.Rank)
		x.CachedTokens, x.DeviceBlocks, x.HostBlocks, x.DiskBlocks = r.Cached(&o), o.Device, o.Host, o.Disk
		at := l.Find(x.Rank)
		if at < 0 {
			x.ChanceKnown = true // none
			if x.Eligible {
				x.Barred = l.Barred(place)
			}
			continue
		}
		// What was seen of a candidate is what was decided by.
		seen := l.Candidate(at)
		x.PrefillTokens, x.Blocks, x.Requests = seen.ActivePrefill, seen.ActiveBlocks, seen.Requests
		x.PotentialBlocks = seen.PotentialBlocks
		x.Busy = busyFor(w, &w.Table.Slots()[place], &x.RankLoad)
		if explained.Parts != nil && explained.Parts[at].Finite() {
			x.Cost = &explained.Parts[at]
		}
		if explained.Scores != nil && finite(explained.Scores[at]) {
			x.Score = &explained.Scores[at]
		}
		if explained.Chances != nil {
			x.Chance, x.ChanceKnown = explained.Chances[at], true
		}
		x.Chosen = chosen && at == explained.Choice.Candidate
	}
	return ranks
}

// whyChosen says in words why the selector takes its choice.
func whyChosen(l *pool.Look, explained *pool.Explained) string {
	r := l.Request
	switch {
	case r.Constraints.Pinned:
		return "the request is pinned to this rank"
	case explained.Choice.Forced:
		return "the request prefers this rank, and it is eligible"
	case l.Candidates() == 1:
		return "it is the only rank that can be chosen"
	case explained.Chances == nil:
		return "the selector chose it"
	}
	could := 0
	for _, chance := range explained.Chances {
		if chance > 0 {
			could++
		}
	}
	return selector.Why(l.World.Selector, &r.Params, could)
}
