package linear

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// history records what happens to one scheduler. Its clock counts events, so that
// no two are at the same time.
type history struct {
	world *world
	clock atomic.Int64
	// rested is when all was at rest for the first time, 0 for never; for the
	// goroutine that drives it all.
	rested int64
	mu     struct {
		sync.Mutex
		told  uint8
		steps []timed
		calls map[string]*call // by request id
	}
}

// timed is a step and the interval in which it took effect.
type timed struct {
	step       step
	call, done int64
	client     int
}

// call is one Schedule or Query while it is under way.
type call struct {
	r *request
	// Guarded by history.mu until every call has returned; end is 0 until then.
	start, end int64
	// left is when its context ended; 0 if it did not.
	left atomic.Int64
	// What the hook was told, and when; guarded by history.mu, as is result.
	queuedAt, admittedAt int64
	queuedNo, admittedNo uint8 // in the order of these two kinds of decisions
	admitted             int   // rank
	result               result
	client               int
}

func newHistory(w *world) *history {
	h := &history{world: w}
	h.mu.calls = make(map[string]*call)
	return h
}

func (h *history) now() int64 { return h.clock.Add(1) }

// did records a step that took effect between call and now.
func (h *history) did(client int, s step, call int64) {
	done := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.steps = append(h.mu.steps, timed{s, call, done, client})
}

// hook is the scheduler's decision hook. A decision was made before it is told.
func (h *history) hook(d sched.Decision) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.mu.calls[d.Request]
	switch {
	case c == nil:
	case d.Kind == sched.DecisionQueued:
		h.mu.told++
		c.queuedAt, c.queuedNo = now, h.mu.told
	case d.Kind == sched.DecisionAdmitted:
		h.mu.told++
		c.admittedAt, c.admittedNo = now, h.mu.told
		c.admitted = h.world.rank(d.Placement.Rank)
	}
}

// begins records that a call begins.
func (h *history) begins(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.calls[c.r.id] = c
	c.start = h.now()
}

// ends records how a call ended.
func (h *history) ends(c *call, rank sched.RankID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.end = h.now()
	c.result = result{rank: noRank, err: err}
	if err == nil {
		c.result.rank = h.world.rank(rank)
	}
}

// loose says how far a search goes to explain a history. The more it goes, the
// more states there are to follow, and mostly there is no need.
type loose struct {
	// stood: of so many calls it is considered that they stood in line before
	// anybody was told that they wait, or without anybody being told; of those that
	// were longest on their way.
	stood int
	// granted: calls that left may have been granted before that was noticed; not
	// those that left when all was at rest, because nothing is freed from then on.
	granted bool
	order   order
}

// order says for which decisions it is held that they were told in the order in
// which they took effect.
type order uint8

const (
	// asTold: for all.
	asTold order = iota
	// inTurn: for those about requests that wait, which the holder of the turn
	// makes one after the other. A booking outside the turn takes its place in the
	// order just before it is made, and who reads the loads in between sees it the
	// other way round.
	inTurn
	// anyOrder: for none.
	anyOrder
)

// by returns the time by which a decision was made that was told at some time, 0
// for never: before the call returned in any case.
func (c *call) by(told int64) int64 {
	if told == 0 || told > c.end {
		return c.end
	}
	return told
}

// split turns a call into its steps. stood: it may have stood in line unseen;
// granted: if it left it may have been granted unseen.
func (c *call) split(order order, stood, granted bool) (steps []timed) {
	add := func(s step, n uint8, call, done int64) {
		if n != 0 && (order == asTold || order == inTurn && c.result.queued) {
			s = ordered{s, n}
		}
		steps = append(steps, timed{s, call, done, c.client})
	}
	c.result.queued = c.queuedAt != 0
	code := codeOf(c.result.err)
	left := code == sched.ErrCanceled
	if stood {
		add(attempt{c.r}, 0, c.start, c.by(c.queuedAt))
	}
	if c.result.queued {
		add(arrival{c.r}, c.queuedNo, c.start, c.by(c.queuedAt))
	}
	switch {
	case left:
		if c.admittedAt != 0 {
			add(secret{c.r, c.admitted, c.result.queued}, c.admittedNo, c.start, c.by(c.admittedAt))
		} else if granted {
			add(secret{c.r, noRank, c.result.queued}, 0, c.start, c.end)
		}
		if len(steps) > 0 {
			add(leave{c.r, false, c.admittedAt != 0}, 0, max(c.start, c.left.Load()), c.end)
		}
	case code == sched.ErrClosed && c.result.queued:
		add(leave{c.r, true, false}, 0, c.start, c.end)
	case code == nil, code == sched.ErrNoEndpoints, c.result.queued:
		n := c.admittedNo
		if c.r.query && !c.result.queued {
			n = 0 // it looked at the ranks some time before it was told
		}
		add(grant{c.r, c.result}, n, c.start, c.by(c.admittedAt))
	default:
		add(refusal{c.r, c.result}, 0, c.start, c.end)
	}
	return steps
}

// finished returns all calls in the order in which they began. REQUIRES: all have
// returned.
func (h *history) finished() []*call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.mu.calls), func(a, b *call) int { return cmp.Compare(a.start, b.start) })
}

// operations returns the history for the checker.
func (h *history) operations(how loose) []porcupine.Operation {
	calls, all := h.finished(), slices.Clone(h.mu.steps)
	way := func(c *call) int64 { return c.by(c.queuedAt) - c.start }
	longest := slices.SortedStableFunc(slices.Values(calls), func(a, b *call) int { return cmp.Compare(way(b), way(a)) })
	longest = longest[:min(how.stood, len(longest))]
	for _, c := range calls {
		granted := how.granted && (h.rested == 0 || c.left.Load() < h.rested)
		all = append(all, c.split(how.order, slices.Contains(longest, c), granted)...)
	}
	number(all)
	ops := make([]porcupine.Operation, len(all))
	for i, t := range all {
		ops[i] = porcupine.Operation{ClientId: t.client, Input: t.step, Call: t.call, Return: t.done}
	}
	return ops
}

// number gives the ordered steps their numbers without gaps.
func number(steps []timed) {
	var told []*timed
	for i := range steps {
		if _, is := steps[i].step.(ordered); is {
			told = append(told, &steps[i])
		}
	}
	slices.SortFunc(told, func(a, b *timed) int { return cmp.Compare(a.step.(ordered).n, b.step.(ordered).n) })
	for i, t := range told {
		t.step = ordered{t.step.(ordered).step, uint8(i + 1)}
	}
}

// size returns the number of steps and of calls that were told to wait.
func (h *history) size() (steps, queued int) {
	for _, c := range h.finished() {
		steps += len(c.split(asTold, false, false))
		queued += int(b(c.queuedAt != 0))
	}
	return steps + len(h.mu.steps), queued
}
