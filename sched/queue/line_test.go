package queue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// caller is a request of the tests below.
type caller struct {
	name       string
	raw        int64
	cached     int64
	doNotQueue bool
	counted    bool // waits, as the host was told
	class      int
}

// fakeRules are the rules of a class; a limit below 0 is none.
type fakeRules struct {
	canQueue              bool
	requests, raw, cached int64
}

func (r *fakeRules) CanQueue() bool { return r.canQueue }

func (r *fakeRules) NeverQueues() (string, bool) {
	for _, l := range r.limits(Usage{}) {
		if l.perWorker == 0 {
			return l.name, true
		}
	}
	return "", false
}

func (r *fakeRules) LimitReached(requests, raw, cached, workers int64) (string, int64, int64, bool) {
	for _, l := range r.limits(Usage{requests, raw, cached}) {
		if l.perWorker >= 0 && l.usage >= l.perWorker*workers {
			return l.name, l.usage, l.perWorker * workers, true
		}
	}
	return "", 0, 0, false
}

type fakeLimit struct {
	name             string
	perWorker, usage int64
}

func (r *fakeRules) limits(u Usage) []fakeLimit {
	return []fakeLimit{{"requests", r.requests, u.Requests}, {"raw-tokens", r.raw, u.Raw}, {"cached-tokens", r.cached, u.Cached}}
}

// open is a class without threshold, queueing one with; both without limits.
func open() fakeRules     { return fakeRules{requests: -1, raw: -1, cached: -1} }
func queueing() fakeRules { return fakeRules{canQueue: true, requests: -1, raw: -1, cached: -1} }

// fakeHost has room for some requests, and writes down what it is told.
type fakeHost struct {
	t          *testing.T
	rules      []fakeRules
	workers    int64
	ranks      int
	overloaded int
	free       int
	races      int // how many attempts will lose a race
	// idleIfExact has the exact look find room where the quick one found none.
	idleIfExact bool
	// onExact happens in the middle of the next exact look.
	onExact func()
	gates   int
	leaving bool // somebody has left and is still queued

	waiting []*caller
	log     []string
	line    *Line[*caller]
}

func newHost(t *testing.T, free int, rules ...fakeRules) *fakeHost {
	h := &fakeHost{t: t, rules: rules, workers: 2, ranks: 2, free: free}
	specs := make([]ClassSpec, len(rules))
	for i := range specs {
		specs[i].Quantum = 10
	}
	h.line = NewLine(specs, Host[*caller](h))
	return h
}

func (h *fakeHost) Now() int64            { return 0 }
func (h *fakeHost) Rules(class int) Rules { return &h.rules[class] }
func (h *fakeHost) Workers() int64        { return h.workers }

func (h *fakeHost) Gate(class int, _ *caller, exact bool) Gate {
	h.gates++
	g := Gate{Eligible: h.ranks, Overloaded: h.overloaded, Looked: h.ranks}
	full := h.free <= 0 && (!exact || !h.idleIfExact)
	g.MustWait = h.ranks > 0 && h.rules[class].canQueue && (full || g.AllOverloaded())
	if exact && h.idleIfExact {
		h.free, h.idleIfExact = 1, false
	}
	if exact && h.onExact != nil {
		h.onExact()
		h.onExact = nil
	}
	return g
}

func (h *fakeHost) Usage(class int) (u Usage) {
	for _, c := range h.waiting {
		if c.class == class {
			u.Requests++
			u.Raw += c.raw
			u.Cached += c.cached
		}
	}
	return u
}

func (h *fakeHost) Guard(int, *caller, bool) {}

func (h *fakeHost) DoNotQueue(c *caller) bool { return c.doNotQueue }

func (h *fakeHost) Book(class int, c *caller) Verdict {
	if h.races > 0 {
		h.races--
		return LostRace
	}
	if h.rules[class].canQueue && h.free <= 0 {
		h.t.Errorf("%s is to be booked where there is no room", c.name)
	}
	h.free--
	return Settled
}

func (h *fakeHost) Grant(c *caller) {
	h.gone(c)
	h.log = append(h.log, c.name+" in")
}

func (h *fakeHost) gone(c *caller) {
	h.waiting = slices.DeleteFunc(h.waiting, func(o *caller) bool { return o == c })
}

func (h *fakeHost) Reject(class int, c *caller, why Rejection) {
	text := [...]string{Full: "full", WouldQueue: "would queue", Overloaded: "overloaded"}[why.Why]
	if why.Why == Full {
		text = fmt.Sprintf("full, %s %d of %d", why.Limit, why.Usage.Of(why.Limit), why.Bound)
	}
	h.log = append(h.log, fmt.Sprintf("%s refused: %s", c.name, text))
}

// Use implements Host: one rank shows that there is room.
func (h *fakeHost) Use(class int, _ *caller, _ RankID) Use {
	if h.free <= 0 {
		return Busy
	}
	return Usable
}

func (h *fakeHost) Expire(c *caller) { h.gone(c); h.log = append(h.log, c.name+" expired") }

func (h *fakeHost) Queued(class int, c *caller) {
	c.counted, c.class = true, class
	h.waiting = append(h.waiting, c)
	h.log = append(h.log, c.name+" stays")
}

// told returns what the host was told since it was last asked.
func (h *fakeHost) told() string {
	s := strings.Join(h.log, "; ")
	h.log = nil
	return s
}

func entryOf(c *caller, seq uint64) *Entry[*caller] {
	return &Entry[*caller]{
		Value: c, Seq: seq, Arrival: int64(seq), Due: NoDue, Cost: max(1, c.raw-c.cached), Raw: c.raw, Cached: c.cached,
	}
}

const plenty = 1 << 20

// arrive brings an arrival once, with a budget of plenty, and has done what
// follows.
func (h *fakeHost) arrive(class int, seq uint64, c *caller) Status {
	h.t.Helper()
	budget := NewBudget(plenty)
	return h.bring(class, entryOf(c, seq), &budget)
}

// bring is what an engine does about an arrival.
func (h *fakeHost) bring(class int, e *Entry[*caller], b *Budget) Status {
	h.t.Helper()
	status := h.work(b)
	if status == Done {
		if status = h.line.Arrive(class, e, b); status == Done {
			status = h.work(b)
		}
	}
	h.check()
	return status
}

// work serves who can run, and decides about those who have joined.
func (h *fakeHost) work(b *Budget) Status {
	for {
		status := h.line.Serve(8, b)
		if status == Done {
			if status = h.line.SettleJoined(b); status == Done {
				return Done
			}
		}
		if status != Paused {
			return status
		}
	}
}

func (h *fakeHost) check() {
	h.t.Helper()
	if err := h.line.q.Check(); err != nil {
		h.t.Fatal(err)
	}
	joined := 0
	for _, e := range h.line.joined {
		if e != nil {
			joined++
		}
	}
	if h.line.Len() != len(h.waiting)+joined && !h.leaving {
		h.t.Fatalf("%d are queued, the host was told of %d", h.line.Len(), len(h.waiting))
	}
}

// expect brings an arrival that is to be decided at once, and compares what the
// host is told.
func (h *fakeHost) expect(class int, seq uint64, c *caller, want string) {
	h.t.Helper()
	if status := h.arrive(class, seq, c); status != Done {
		h.t.Fatalf("%s: status %d", c.name, status)
	}
	if got := h.told(); got != want {
		h.t.Fatalf("%s: told %q, want %q", c.name, got, want)
	}
}

func TestDirectAdmission(t *testing.T) {
	t.Parallel()
	h := newHost(t, 2, queueing(), open())
	h.expect(0, 1, &caller{name: "a", raw: 50}, "a in")
	h.expect(1, 2, &caller{name: "b"}, "b in")
	if h.free != 0 {
		t.Fatalf("%d left free", h.free)
	}
	// Without a threshold nobody waits; and rounds know nothing of any of them.
	h.expect(1, 3, &caller{name: "c", raw: 50}, "c in")
	if got := roundOf(h.line.q); got != "A0 B0" {
		t.Fatalf("the round is %q", got)
	}
}

func TestNoRankMeansNoWait(t *testing.T) {
	t.Parallel()
	h := newHost(t, 1, queueing())
	h.ranks = 0
	h.expect(0, 1, &caller{name: "a"}, "a in") // to be told by the host that there is none
}

func TestFreedCapacityGoesToWhoseTurnItIs(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing(), open())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	h.expect(0, 2, &caller{name: "b"}, "b stays")
	// Something is freed and the hint is in; then somebody comes.
	h.free = 1
	h.line.q.OpenAll()
	h.expect(0, 3, &caller{name: "c"}, "a in; c stays")
	// There is a backlog: even who need not wait stands in line, and is served.
	h.expect(1, 4, &caller{name: "d"}, "d in")
	// With room for all, those before go first.
	h.free = 3
	h.line.q.OpenAll()
	h.expect(0, 5, &caller{name: "e"}, "b in; c in; e in")
	if h.line.Len() != 0 {
		t.Fatalf("%d wait", h.line.Len())
	}
}

// An arrival of another class does not overtake whose turn it is either.
func TestArrivalTakesItsTurnAmongTheClasses(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing(), queueing())
	h.expect(0, 1, &caller{name: "a", raw: 5}, "a stays")
	h.free = 1
	h.line.q.OpenAll()
	h.expect(1, 2, &caller{name: "b", raw: 5}, "a in; b stays")
}

// While others wait, who need not wait stands in line all the same: it is charged
// to its class, which goes behind those that have not been served.
func TestArrivalBehindABacklogTakesPartInTheRound(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing(), open(), open())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	h.expect(1, 2, &caller{name: "b"}, "b in")
	if got := roundOf(h.line.q); got != "A0 C0 B0" {
		t.Fatalf("the round is %q", got)
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	for i, name := range []string{"a", "b", "c"} {
		h.expect(0, uint64(i+1), &caller{name: name}, name+" stays")
	}
	h.free = 2
	budget := NewBudget(plenty)
	if status := h.line.Serve(10, &budget); status != Done || h.told() != "" {
		t.Fatal("served before anything was tested again")
	}
	h.line.q.OpenAll()
	if status := h.line.Serve(10, &budget); status != Done || h.told() != "a in; b in" {
		t.Fatalf("status %d", status)
	}
	h.check()
}

func TestServeKeepsItsBudget(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	for i, name := range []string{"a", "b", "c"} {
		h.expect(0, uint64(i+1), &caller{name: name}, name+" stays")
	}
	h.free = 3
	h.line.q.OpenAll()
	budget := NewBudget(CostGrant + 50)
	if status := h.line.Serve(10, &budget); status != Exhausted || h.told() != "a in; b in" || !budget.Exhausted() {
		t.Fatalf("status %d, budget %d", status, budget.Left())
	}
	// A lost race costs as much, and serves nobody.
	h.races, budget = 1, NewBudget(CostGrant+50)
	round := roundOf(h.line.q)
	if status := h.line.Serve(10, &budget); status != Again || h.told() != "" || budget.Left() > 50 {
		t.Fatalf("status %d, budget %d", status, budget.Left())
	}
	if got := roundOf(h.line.q); got != round || h.line.Len() != 1 {
		t.Fatalf("the lost race left a trace: %q, %d wait", got, h.line.Len())
	}
	if status := h.line.Serve(10, &budget); status != Done || h.told() != "c in" {
		t.Fatalf("status %d", status)
	}
}

// After so many grants the line pauses, so that arrivals can be looked at.
func TestServePauses(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	for i, name := range []string{"a", "b", "c"} {
		h.expect(0, uint64(i+1), &caller{name: name}, name+" stays")
	}
	h.free = 4
	h.line.q.OpenAll()
	budget := NewBudget(plenty)
	if status := h.line.Serve(2, &budget); status != Paused || h.told() != "a in; b in" {
		t.Fatalf("status %d", status)
	}
	// One that comes now and has the higher priority goes before those left.
	urgent := entryOf(&caller{name: "urgent"}, 4)
	urgent.Priority = 1
	if h.line.Join(0, urgent, &budget) != Done {
		t.Fatal("it did not join")
	}
	if status := h.work(&budget); status != Done || h.told() != "urgent in; c in" {
		t.Fatalf("status %d", status)
	}
}

// While somebody can always run, and others keep coming, what is kept of those who have
// joined and were served is bounded.
func TestJoinedAreLetGo(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	budget := NewBudget(math.MaxInt)
	for seq := uint64(2); seq < 5_000; seq++ {
		h.free++
		h.line.q.OpenAll()
		if h.line.Join(0, entryOf(&caller{name: "b"}, seq), &budget) != Done {
			t.Fatal("it did not join")
		}
		if status := h.line.Serve(1, &budget); status != Paused || h.told() == "" {
			t.Fatalf("status %d", status)
		}
	}
	if n := cap(h.line.joined); n > 64 {
		t.Fatalf("room for %d, though one waits", n)
	}
}

// Those who join while others are served are tested against the limits, in the
// order in which they came, when nobody else can run.
func TestThoseWhoJoinedAreTestedAtRest(t *testing.T) {
	t.Parallel()
	limited, never := queueing(), queueing()
	limited.requests, never.requests = 1, 0 // of 2 workers: 2
	h := newHost(t, 0, limited, never)
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	h.expect(0, 2, &caller{name: "b"}, "b stays")
	budget := NewBudget(plenty)
	for i, c := range []*caller{{name: "c"}, {name: "d", doNotQueue: true}, {name: "e"}, {name: "f"}} {
		if h.line.Join(0, entryOf(c, uint64(i+3)), &budget) != Done {
			t.Fatal("it did not join")
		}
	}
	if h.line.Join(1, entryOf(&caller{name: "g"}, 7), &budget) != Done || h.told() != "g refused: full, requests 0 of 0" {
		t.Fatal("one that never waits is decided at once")
	}
	h.free = 3
	h.line.q.OpenAll()
	if status := h.work(&budget); status != Done || h.told() != "a in; b in; c in; d refused: would queue; e stays; f stays" {
		t.Fatalf("status %d", status)
	}
	h.overloaded = 2
	h.line.q.OpenAll()
	if h.line.Join(0, entryOf(&caller{name: "h"}, 8), &budget) != Done || h.told() != "h refused: overloaded" {
		t.Fatal("all its ranks are overloaded")
	}
}

// Whoever has joined and was not told that it waits is still an arrival: if all its
// ranks are overloaded by now it fails at once, and does not wait with those who do.
func TestAllOverloadedSinceItJoined(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	budget := NewBudget(plenty)
	for i, c := range []*caller{{name: "b"}, {name: "c", doNotQueue: true}} {
		if h.line.Join(0, entryOf(c, uint64(i+2)), &budget) != Done {
			t.Fatal("it did not join")
		}
	}
	h.overloaded = 2
	h.line.q.OpenAll()
	if status := h.work(&budget); status != Done {
		t.Fatalf("status %d", status)
	}
	if got := h.told(); got != "b refused: overloaded; c refused: overloaded" {
		t.Fatalf("told %q", got)
	}
	h.check()
	h.overloaded, h.free = 0, 1
	h.line.q.OpenAll()
	if h.work(&budget); h.told() != "a in" {
		t.Fatal("who waited has left")
	}
}

func TestNeverQueueClass(t *testing.T) {
	t.Parallel()
	never := func(limit string) fakeRules {
		r := queueing()
		r.requests, r.raw, r.cached = 5, 5, 5
		switch limit {
		case "raw-tokens":
			r.raw, r.cached = 0, 0 // the first that is 0 is named
		case "cached-tokens":
			r.cached = 0
		default:
			r.requests = 0
		}
		return r
	}
	for _, limit := range []string{"requests", "raw-tokens", "cached-tokens"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			withoutThreshold := never(limit)
			withoutThreshold.canQueue = false
			h := newHost(t, 0, never(limit), queueing(), withoutThreshold)
			h.expect(0, 1, &caller{name: "a"}, fmt.Sprintf("a refused: full, %s 0 of 0", limit))
			h.expect(2, 2, &caller{name: "b"}, "b in") // never waits, never refused
			// Others wait: that is no reason to refuse it, nor to let it stand in line.
			h.free = 0
			h.expect(1, 3, &caller{name: "c"}, "c stays")
			h.free = 1
			h.expect(0, 4, &caller{name: "d"}, "d in")
			// A backlog of its own, as a change of profile may leave, is one.
			left := &caller{name: "left", raw: 7, cached: 3}
			h.line.Add(0, entryOf(left, 5))
			h.Queued(0, left)
			h.told()
			h.free = 0
			usage := map[string]int64{"requests": 1, "raw-tokens": 7, "cached-tokens": 3}[limit]
			h.expect(0, 6, &caller{name: "e"}, fmt.Sprintf("e refused: full, %s %d of 0", limit, usage))
			// Even if the arrival could run: those of its class go before it.
			h.free = 1
			h.expect(0, 7, &caller{name: "f"}, fmt.Sprintf("f refused: full, %s %d of 0", limit, usage))
		})
	}
}

func TestLimitsAreForWhoWouldRemain(t *testing.T) {
	t.Parallel()
	rules := queueing()
	rules.requests = 1 // of 2 workers: 2
	h := newHost(t, 0, rules, queueing())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	h.expect(0, 2, &caller{name: "b"}, "b stays")
	h.expect(0, 3, &caller{name: "c"}, "c refused: full, requests 2 of 2")
	h.expect(1, 4, &caller{name: "d"}, "d stays") // the limits are each class's own
	// It would be full, but then it is not: what runs makes room first.
	h.free = 1
	h.line.q.OpenAll()
	h.expect(0, 5, &caller{name: "e"}, "a in; e stays")
	// Full, but the arrival itself can run, after those before it.
	h.free = 4
	h.line.q.OpenAll()
	h.expect(0, 6, &caller{name: "f"}, "b in; e in; d in; f in")
}

func TestWhoeverCrossesALimitIsAccepted(t *testing.T) {
	t.Parallel()
	raw, cached := queueing(), queueing()
	raw.raw, cached.cached = 50, 50 // of 2 workers: 100
	h := newHost(t, 0, raw, cached)
	h.expect(0, 1, &caller{name: "a", raw: 99}, "a stays")
	h.expect(0, 2, &caller{name: "b", raw: 500}, "b stays")
	h.expect(0, 3, &caller{name: "c"}, "c refused: full, raw-tokens 599 of 100")
	h.expect(1, 4, &caller{name: "d", raw: 100, cached: 99}, "d stays")
	h.expect(1, 5, &caller{name: "e", raw: 100, cached: 1}, "e stays")
	h.expect(1, 6, &caller{name: "f", raw: 100}, "f refused: full, cached-tokens 100 of 100")
	// Fewer workers evict nobody.
	h.workers = 1
	budget := NewBudget(plenty)
	if status := h.line.Serve(10, &budget); status != Done || h.line.Len() != 4 {
		t.Fatalf("status %d, %d wait", status, h.line.Len())
	}
}

func TestLimitsInTheirOrder(t *testing.T) {
	t.Parallel()
	rules := fakeRules{canQueue: true, requests: 1, raw: 1, cached: 1}
	h := newHost(t, 0, rules)
	h.workers = 1
	h.expect(0, 1, &caller{name: "a", raw: 9, cached: 9}, "a stays")
	h.expect(0, 2, &caller{name: "b"}, "b refused: full, requests 1 of 1")
	h.rules[0].requests = 2
	h.expect(0, 3, &caller{name: "c"}, "c refused: full, raw-tokens 9 of 1")
	h.rules[0].raw = 10
	h.expect(0, 4, &caller{name: "d"}, "d refused: full, cached-tokens 9 of 1")
}

// The usage by which an arrival is refused is that of an instant at which it had
// to wait: whoever leaves during the look is not in it.
func TestRefusalKnowsWhoHasLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		noQueue bool
		want    string
	}{
		{false, "b stays"},
		{true, "b refused: would queue"},
	} {
		rules := queueing()
		rules.requests = 1 // of 2 workers: 2
		h := newHost(t, 0, rules)
		last := &caller{name: "last"}
		leaves := entryOf(last, 2)
		h.expect(0, 1, &caller{name: "a"}, "a stays")
		if !test.noQueue {
			h.line.Add(0, leaves)
			h.Queued(0, last)
			h.told()
		}
		h.onExact = func() { h.waiting = h.waiting[:len(h.waiting)-1] }
		h.leaving = true
		b := &caller{name: "b", doNotQueue: test.noQueue}
		if status := h.arrive(0, 3, b); status != Again || h.told() != "" {
			t.Fatalf("status %d", status)
		}
		if !test.noQueue {
			h.line.Remove(leaves)
		}
		budget := NewBudget(plenty)
		h.work(&budget)
		if got := h.told(); got != test.want {
			t.Fatalf("told %q, want %q", got, test.want)
		}
	}
}

func TestWouldQueueLeavesNoTrace(t *testing.T) {
	t.Parallel()
	rules := queueing()
	rules.requests = 1
	h := newHost(t, 0, rules)
	h.workers = 1
	h.expect(0, 1, &caller{name: "a", doNotQueue: true}, "a refused: would queue")
	if h.line.Len() != 0 || len(h.waiting) != 0 {
		t.Fatal("it left a trace")
	}
	h.expect(0, 2, &caller{name: "b"}, "b stays")
	// The limits come first.
	h.expect(0, 3, &caller{name: "c", doNotQueue: true}, "c refused: full, requests 1 of 1")
	h.free = 2
	h.line.q.OpenAll()
	h.expect(0, 4, &caller{name: "d", doNotQueue: true}, "b in; d in")
}

func TestAllOverloaded(t *testing.T) {
	t.Parallel()
	never := queueing()
	never.requests = 0
	h := newHost(t, 0, queueing(), never, open())
	h.expect(0, 1, &caller{name: "waits"}, "waits stays")
	h.overloaded = 2
	h.line.q.OpenAll() // it is another world
	for class, name := range []string{"a", "b", "c"} {
		h.expect(class, uint64(class+2), &caller{name: name, doNotQueue: true}, name+" refused: overloaded")
	}
	// Who waits goes on waiting; and that its lane is known to be blocked spares
	// nobody the answer.
	budget := NewBudget(plenty)
	if h.line.Serve(10, &budget); h.line.Len() != 1 || h.told() != "" {
		t.Fatal("overload drove somebody out")
	}
	h.expect(0, 8, &caller{name: "late"}, "late refused: overloaded")
	// Nor is it told only when no other request can run.
	if h.line.Join(0, entryOf(&caller{name: "later"}, 9), &budget) != Done || h.told() != "later refused: overloaded" {
		t.Fatal("an arrival that is refused has joined")
	}
	// One that is not suffices.
	h.overloaded, h.free = 1, 1
	h.line.q.OpenAll()
	h.expect(0, 10, &caller{name: "d"}, "waits in; d stays")
}

// Whoever joins a lane that is known to be blocked needs no look of its own.
func TestArrivalJoinsABlockedLane(t *testing.T) {
	t.Parallel()
	never := queueing()
	never.requests = 0
	h := newHost(t, 0, queueing(), never)
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	looks := h.gates
	h.expect(0, 2, &caller{name: "b"}, "b stays")
	if h.gates != looks {
		t.Fatalf("%d looks for one that joins", h.gates-looks)
	}
	// A refusal takes an exact look all the same.
	h.expect(0, 3, &caller{name: "c", doNotQueue: true}, "c refused: would queue")
	if h.gates != looks+1 {
		t.Fatalf("%d looks for one that is refused", h.gates-looks)
	}
	// And one that never waits is told at once.
	h.line.Add(1, entryOf(&caller{name: "left by another profile"}, 4))
	h.Queued(1, slices.Collect(h.line.q.All)[2].Value)
	h.told()
	budget := NewBudget(plenty)
	h.line.Serve(10, &budget)
	h.expect(1, 5, &caller{name: "d"}, "d refused: full, requests 1 of 0")
}

func TestLostRaceLeavesNoTrace(t *testing.T) {
	t.Parallel()
	t.Run("of a direct admission", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, 1, queueing())
		h.races = 1
		if status := h.arrive(0, 1, &caller{name: "a"}); status != Again || h.told() != "" || h.line.Len() != 0 {
			t.Fatalf("status %d", status)
		}
		h.expect(0, 1, &caller{name: "a"}, "a in")
	})
	t.Run("in line", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, 0, queueing())
		h.expect(0, 1, &caller{name: "a"}, "a stays")
		h.free, h.races = 2, 1
		h.line.q.OpenAll()
		if status := h.arrive(0, 2, &caller{name: "b"}); status != Again || h.told() != "" || h.line.Len() != 1 {
			t.Fatalf("status %d", status)
		}
		h.expect(0, 2, &caller{name: "b"}, "a in; b in")
	})
	t.Run("again and again, until the budget is used up", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, 1, queueing())
		h.races = 100
		budget, calls := NewBudget(5*CostGrant), 0
		e := entryOf(&caller{name: "a"}, 1)
		for ; !budget.Exhausted(); calls++ {
			if status := h.line.Arrive(0, e, &budget); status != Again {
				t.Fatalf("status %d", status)
			}
		}
		if calls != 5 || h.line.Len() != 0 || e.Queued() {
			t.Fatalf("%d calls", calls)
		}
	})
}

// An arrival that came to stand in line before the budget was used up is decided
// when there is more; who was served before was served as without it.
func TestUsedUpBudget(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing(), queueing())
	for i, name := range []string{"a", "b", "c"} {
		h.expect(0, uint64(i+1), &caller{name: name}, name+" stays")
	}
	h.free = 5
	h.line.q.OpenAll()
	budget := NewBudget(CostGrant + 50)
	e := entryOf(&caller{name: "d"}, 4)
	if status := h.bring(1, e, &budget); status != Exhausted || h.told() != "a in; b in" || e.Queued() {
		t.Fatalf("status %d", status)
	}
	if got := h.line.q.Deficit(1); got != 0 {
		t.Fatalf("it left a deficit of %d", got)
	}
	budget = NewBudget(plenty)
	if status := h.bring(1, e, &budget); status != Done || h.told() != "c in; d in" {
		t.Fatalf("status %d", status)
	}
}

// A refusal must have been right at one instant: if the exact look finds room,
// nobody is refused.
func TestRefusalIsLookedAtTwice(t *testing.T) {
	t.Parallel()
	limited, never := queueing(), queueing()
	limited.requests, never.requests = 1, 0
	for _, test := range []struct {
		name  string
		rules fakeRules
		c     caller
	}{
		{"queue full", limited, caller{name: "x"}},
		{"would queue", queueing(), caller{name: "x", doNotQueue: true}},
		{"never queues", never, caller{name: "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, 0, test.rules)
			backlog := ""
			if test.name == "queue full" {
				h.expect(0, 1, &caller{name: "a"}, "a stays")
				h.expect(0, 2, &caller{name: "b"}, "b stays")
				backlog = "a in; "
				h.workers = 1
				h.rules[0].requests = 2
			}
			h.idleIfExact = true
			waiting := h.line.Len()
			if status := h.arrive(0, 3, &test.c); status != Again || h.told() != "" {
				t.Fatalf("status %d", status)
			}
			// Looked at again it finds the room, or those before it do.
			want := "x in"
			if backlog != "" {
				want = backlog + "x stays"
			}
			if h.line.Len() == waiting {
				h.expect(0, 3, &test.c, want) // it left no trace
				return
			}
			budget := NewBudget(plenty)
			if status := h.work(&budget); status != Done || h.told() != want {
				t.Fatalf("status %d", status)
			}
		})
	}
}

func TestResetStartsAnew(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	e := slices.Collect(h.line.q.All)[0]
	h.line.Remove(e)
	h.line.Reset(quanta(5, 7))
	h.rules = []fakeRules{queueing(), queueing()}
	h.line.Add(1, e)
	if h.line.q.Pending(1) != 1 || h.line.q.Pending(0) != 0 || roundOf(h.line.q) != "A0 B0" {
		t.Fatalf("the round is %q", roundOf(h.line.q))
	}
	h.free = 1
	budget := NewBudget(plenty)
	if status := h.line.Serve(10, &budget); status != Done || h.told() != "a in" {
		t.Fatalf("status %d", status)
	}
}

// Those who are moved to another queue can leave either.
func TestLeavingWhileOthersAreMoved(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	entries := make([]*Entry[*caller], 4)
	for i := range entries {
		entries[i] = entryOf(&caller{name: fmt.Sprint(i)}, uint64(i+1))
		h.line.Add(0, entries[i])
	}
	before := h.line.Reset(quanta(5, 7))
	h.rules = []fakeRules{queueing(), queueing()}
	for _, e := range entries[:2] {
		before.Remove(e)
		h.line.Add(1, e)
	}
	h.line.Remove(entries[0])
	h.line.Remove(entries[3])
	for name, q := range map[string]*Queue[*caller]{"the old": before, "the new": h.line.q} {
		if err := q.Check(); err != nil || q.Len() != 1 {
			t.Fatalf("%s queue has %d: %v", name, q.Len(), err)
		}
	}
}

// After a lost race what the freed rank says of itself is not enough.
func TestLostRaceHasAllRanksLookedAt(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	h.free, h.races = 1, 1
	h.line.q.Free(rank(1, 0))
	looks, budget := h.gates, NewBudget(plenty)
	if status := h.line.Serve(10, &budget); status != Again || h.gates != looks {
		t.Fatalf("status %d, %d looks at all ranks", status, h.gates-looks)
	}
	if status := h.line.Serve(10, &budget); status != Done || h.gates != looks+1 || h.told() != "a in" {
		t.Fatalf("status %d, %d looks at all ranks", status, h.gates-looks)
	}
}

// One that is due is not granted, though so many are due that it was not answered
// yet.
func TestNobodyIsServedWhoIsDue(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0, queueing())
	for i, at := range []int64{-1, 0, 1} {
		c := &caller{name: fmt.Sprint("due ", at)}
		e := entryOf(c, uint64(i+1))
		e.Due = at
		h.line.Add(0, e)
		h.Queued(0, c)
	}
	h.free, h.log = 3, nil
	budget := NewBudget(plenty)
	if status := h.line.Serve(10, &budget); status != Done || h.told() != "due -1 expired; due 0 expired; due 1 in" {
		t.Fatalf("status %d", status)
	}
	h.check()
}

// A queue that is made anew has everyone in it who waited, in order, and those who
// have joined are tested against the limits still.
func TestRebuild(t *testing.T) {
	t.Parallel()
	limited := queueing()
	limited.requests = 1 // of 2 workers: 2
	h := newHost(t, 0, limited, queueing())
	h.expect(0, 1, &caller{name: "a"}, "a stays")
	h.expect(1, 2, &caller{name: "b"}, "b stays")
	h.expect(0, 3, &caller{name: "c"}, "c stays")
	budget := NewBudget(plenty)
	if h.line.Join(0, entryOf(&caller{name: "d"}, 4), &budget) != Done {
		t.Fatal("it did not join")
	}
	h.line.Rebuild()
	h.check()
	if status := h.work(&budget); status != Done || h.told() != "d refused: full, requests 2 of 2" {
		t.Fatalf("status %d", status)
	}
	h.free = 3
	h.line.q.OpenAll()
	if status := h.work(&budget); status != Done || h.told() != "a in; c in; b in" {
		t.Fatalf("status %d", status)
	}
}
