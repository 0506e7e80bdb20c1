package model

import (
	"context"
	"math"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// waiter is a request that waits.
type waiter struct {
	Entry
	request *sched.Request
	query   bool
	class   int
	lane    string
	cached  int64
	// lacks is since when the request has had no usable rank, or haveOne.
	lacks int64
	// answer gets the outcome; it has room for it.
	answer chan answer
}

const haveOne = -1

// answer is the outcome of a request.
type answer struct {
	booking   *booking // nil for a query
	placement sched.Placement
	err       error
}

func refusal(q *sched.Request, code error) *sched.Error {
	return &sched.Error{Code: code, Request: q.ID}
}

// arrive decides about an arrival, and waits for the answer if it must.
func (m *Model) arrive(ctx context.Context, q *sched.Request, query bool) answer {
	m.mu.Lock()
	w, decided := m.decide(q, query)
	m.setTimer()
	m.mu.Unlock()
	if w == nil {
		return decided
	}
	select {
	case a := <-w.answer:
		return a
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		if slices.Contains(m.waiting, w) {
			m.reject(w, sched.ErrCanceled)
			m.dispatch()
		}
		return <-w.answer
	}
}

// decide answers an arrival at once or returns it as a waiter.
func (m *Model) decide(q *sched.Request, query bool) (*waiter, answer) {
	if err := m.check(q); err != nil {
		return nil, m.refuse(q, query, err)
	}
	ranks := m.eligible(q)
	best := int64(0)
	for _, r := range ranks {
		best = max(best, m.cached(q, r.id))
	}
	index := m.profile.Classify(q.Class, q.ISL-best)
	class := &m.profile.Classes[index]
	lacks := len(m.usable(q)) == 0
	if lacks && !m.awaits(index, q) && (len(ranks) > 0 || len(m.workers) == 0) {
		return nil, m.refuse(q, query, m.noRank(q))
	}
	wait := m.mustWait(index, q)

	if limit, never := class.NeverQueues(); never {
		used := m.usage(index)
		if class.CanQueue() && (used[0] > 0 || wait) {
			m.saw("4 never queues")
			return nil, m.refuse(q, query, full(q, class, limit, used[limit], 0))
		}
		return nil, m.admit(index, q, query)
	}
	if len(m.waiting) == 0 && !wait {
		return nil, m.admit(index, q, query)
	}

	used := m.usage(index)
	m.seq++
	w := &waiter{
		Entry: Entry{
			Seq: m.seq, Priority: q.Priority, Due: m.dueOf(q), Arrival: m.now(),
			Jump: int64(math.Round(max(0, q.Jump) * 1e9)), Cost: max(1, q.ISL-best),
		},
		request: q, query: query, class: index, lane: laneOf(q), cached: best, lacks: haveOne, answer: make(chan answer, 1),
	}
	if lacks {
		w.lacks = m.now()
	}
	m.waiting = append(m.waiting, w)
	m.dispatch()
	if !slices.Contains(m.waiting, w) {
		return w, answer{}
	}
	if limit, bound, reached := class.Full(used, len(m.workers)); reached {
		m.leave(w)
		m.saw("5 " + LimitNames[limit] + " limit")
		return nil, m.refuse(q, query, full(q, class, limit, used[limit], bound))
	}
	if q.DoNotQueue {
		m.leave(w)
		m.saw("5 would queue")
		e := refusal(q, sched.ErrWouldQueue)
		e.Class, e.Pending, e.Tokens, e.Cached = class.Name, used[0], used[1], used[2]
		return nil, m.refuse(q, query, e)
	}
	if lacks && m.awaits(index, q) {
		m.saw("13 waits for an endpoint")
	}
	m.tell(sched.Decision{Kind: sched.DecisionQueued, Request: q.ID, Query: query})
	m.most = max(m.most, len(m.waiting))
	return w, answer{}
}

// check makes the tests that come before the ranks are looked at.
func (m *Model) check(q *sched.Request) error {
	switch {
	case m.closed:
		return refusal(q, sched.ErrClosed)
	case !valid(q):
		return refusal(q, sched.ErrInvalid)
	case q.Pin != nil && q.Allowed != nil && !slices.Contains(q.Allowed, q.Pin.Worker):
		return refusal(q, sched.ErrPinNotAllowed)
	case m.known(q.ID):
		return refusal(q, sched.ErrDuplicate)
	case m.dueOf(q) <= m.now():
		return refusal(q, sched.ErrDeadline)
	}
	return nil
}

func valid(q *sched.Request) bool {
	numbers := []float64{q.Jump}
	listed := map[sched.RankID]bool{}
	for _, o := range q.Overlaps {
		if listed[o.Rank] || o.Device < 0 || o.Host < 0 || o.Disk < 0 {
			return false
		}
		listed[o.Rank] = true
		numbers = append(numbers, o.Device, o.Host, o.Disk)
	}
	for _, weight := range q.PreferredTaints {
		numbers = append(numbers, weight)
	}
	for _, n := range numbers {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return false
		}
	}
	return q.ISL >= 0 && q.ExpectedOSL >= 0 && (q.ExpectedPrefill == nil || *q.ExpectedPrefill >= 0)
}

// known reports whether a request of that id waits or is booked.
func (m *Model) known(id string) bool {
	return m.live[id] != nil ||
		slices.ContainsFunc(m.waiting, func(w *waiter) bool { return w.request.ID == id })
}

func (m *Model) dueOf(q *sched.Request) int64 {
	if q.Due.IsZero() {
		return NoDue
	}
	return int64(q.Due.Sub(m.origin))
}

// usage is what the waiting requests of a class amount to.
func (m *Model) usage(class int) (u Usage) {
	for _, w := range m.waiting {
		if w.class == class {
			u[0], u[1], u[2] = u[0]+1, u[1]+w.request.ISL, u[2]+w.cached
		}
	}
	return u
}

func full(q *sched.Request, c *Class, limit int, used, bound int64) error {
	e := refusal(q, sched.ErrQueueFull)
	e.Class, e.Limit, e.Usage, e.Bound = c.Name, LimitNames[limit], used, bound
	return e
}

func (m *Model) refuse(q *sched.Request, query bool, err error) answer {
	m.tell(sched.Decision{Kind: sched.DecisionRejected, Request: q.ID, Query: query, Err: err})
	return answer{err: err}
}
