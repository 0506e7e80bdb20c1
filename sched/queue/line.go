package queue

// Rules is what the line needs to know of the policy of one class.
type Rules interface {
	// CanQueue reports whether the class has a busy threshold.
	CanQueue() bool
	// NeverQueues names the first limit that is 0.
	NeverQueues() (limit string, never bool)
	// LimitReached tests the class's usage against its limits.
	LimitReached(requests, raw, cached, workers int64) (limit string, usage, bound int64, reached bool)
}

// Gate is what a look at the eligible ranks of a request says.
type Gate struct {
	// Eligible counts the eligible ranks, overload aside; Overloaded those of
	// them that are overloaded.
	Eligible, Overloaded int
	// MustWait: the request cannot run now. Awaits: that is because it has no usable
	// rank and may wait for one.
	MustWait, Awaits bool
	// Witness is a rank that shows that the request can run, if HasWitness.
	Witness    RankID
	HasWitness bool
	// Looked is how many ranks were looked at.
	Looked int
}

// AllOverloaded reports whether the request has ranks and all are overloaded.
func (g Gate) AllOverloaded() bool { return g.Eligible > 0 && g.Overloaded == g.Eligible }

// NoneUsable reports whether the request has no rank or all are overloaded.
func (g Gate) NoneUsable() bool { return g.Overloaded == g.Eligible }

// Usage is what the waiting requests of a class amount to.
type Usage struct{ Requests, Raw, Cached int64 }

// Of returns what counts against a limit.
func (u Usage) Of(limit string) int64 {
	switch limit {
	case "raw-tokens":
		return u.Raw
	case "cached-tokens":
		return u.Cached
	default:
		return u.Requests
	}
}

// Verdict is what became of an attempt to admit.
type Verdict uint8

const (
	// Settled means: the request was admitted, or failed for good.
	Settled Verdict = iota
	// LostRace means: something moved in between; look again.
	LostRace
)

// Reason says why an arrival does not wait.
type Reason uint8

const (
	// Full means: the class is full, or never queues.
	Full Reason = iota
	// WouldQueue means: the request asked not to wait.
	WouldQueue
	// Overloaded means: all its ranks are overloaded.
	Overloaded
)

// Rejection says why an arrival does not wait, given what its class amounts to
// and, if it is full, the limit reached and its bound.
type Rejection struct {
	Why   Reason
	Usage Usage
	Limit string
	Bound int64
}

// Host is what the line asks of the engine around it. All calls are made by the
// goroutine that called the line.
type Host[T any] interface {
	// Now is the instant at which all decisions of this pass are made.
	Now() int64
	Rules(class int) Rules
	// Workers is the number of workers, by which limits scale.
	Workers() int64
	// Gate looks at the ranks. With exact set the answer must have been true at
	// one instant, by the rules that held then: if that cannot be said the request
	// need not wait. Else a look that is overtaken by a change may be wrong, if the
	// change leaves a hint. If time alone will free one of the ranks, it has the
	// line watch it.
	Gate(class int, v T, exact bool) Gate
	// Use looks at one rank.
	Use(class int, v T, rank RankID) Use
	// Usage is what the waiting requests of the class amount to, without those whose
	// owner has left.
	Usage(class int) Usage
	// Guard is called when a lane begins or ceases to guard its ranks: that of a request
	// which has waited for the guard age of its class. What a guard that ceases may have
	// held back is to be freed, by Free or OpenAll, before it returns. The host bounds
	// that work itself: it counts against the budget of the pass.
	Guard(class int, v T, begins bool)
	// DoNotQueue reports whether the request asked not to wait.
	DoNotQueue(v T) bool

	// Book selects a rank and books it, and settles nothing yet.
	Book(class int, v T) Verdict
	// Grant tells the owner what Book found. The request is in no queue by then.
	Grant(v T)
	// Expire tells the owner that the due time has come. The request is in no queue
	// by then.
	Expire(v T)
	// Reject tells the owner of an arrival that it does not wait.
	Reject(class int, v T, why Rejection)
	// Queued says that the request remains in the queue.
	Queued(class int, v T)
}

// Line is the queue together with the rules of admission.
type Line[T any] struct {
	q     *Queue[T]
	host  Host[T]
	ranks Ranks[T] // what the queue asks, by way of the host
	// joined are the arrivals that were queued but may not remain: once no other waiter
	// can run, those that are left are tested against the limits, in ticket order. The
	// first is at joinedFrom. An arrival that has gone leaves nil, and joinedLeft counts
	// the nils.
	joined                 []*Entry[T]
	joinedFrom, joinedLeft int
}

// NewLine returns an empty line.
func NewLine[T any](classes []ClassSpec, host Host[T]) *Line[T] {
	l := &Line[T]{q: New[T](classes), host: host}
	l.q.guard = host.Guard
	l.ranks = lineRanks[T]{l}
	return l
}

// lineRanks is what the queue of a line asks about the ranks.
type lineRanks[T any] struct{ *Line[T] }

func (l lineRanks[T]) CanRun(lane *Lane[T], b *Budget) bool {
	gate := l.host.Gate(lane.class.index, lane.First().Value, false)
	b.Spend(CostLane + CostRank*gate.Looked)
	lane.overloaded = gate.NoneUsable()
	l.q.lack(lane, gate.NoneUsable(), l.host.Now())
	if gate.HasWitness {
		lane.SetWitness(gate.Witness)
	}
	return !gate.MustWait
}

func (l lineRanks[T]) CanUse(lane *Lane[T], rank RankID) Use {
	return l.host.Use(lane.class.index, lane.First().Value, rank)
}

// Status is how far a call of the line came.
type Status uint8

const (
	// Done means: no other waiter can run, or the arrival is done.
	Done Status = iota
	// Again means: a race was lost. Refresh hints, instants that have passed and
	// leavers, and call again.
	Again
	// Paused means: as many were served as asked for, and more may follow.
	Paused
	// Exhausted means: the budget was used up first.
	Exhausted
)

// Serve grants the waiters that can run, in turn, up to so many.
func (l *Line[T]) Serve(most int, b *Budget) Status {
	for served := 0; l.q.length > 0; served++ {
		switch {
		case b.Exhausted():
			return Exhausted
		case served == most:
			return Paused
		}
		e, ok := l.q.Next(l.host.Now(), l.ranks, b)
		if !ok {
			return Exhausted
		}
		if e == nil {
			break
		}
		b.Spend(CostGrant)
		value := e.Value
		if e.Due <= l.host.Now() {
			// It was due with so many others that they are not all answered yet.
			l.Remove(e)
			l.host.Expire(value)
			continue
		}
		if l.host.Book(e.class, value) == LostRace {
			// What the witness says is not enough: look at all the ranks.
			e.lane.hasWitness, e.lane.asked = false, false
			return Again
		}
		l.q.Commit()
		l.leaveJoined(e)
		l.host.Grant(value)
	}
	return Done
}

// Arrive decides about an arrival of the class when no other waiter can run: it is
// admitted, rejected or queued; one that is queued has joined. Unless the status is
// Done the arrival has left no trace, and is to be brought again.
func (l *Line[T]) Arrive(class int, e *Entry[T], b *Budget) Status {
	rules := l.host.Rules(class)
	limit, never := rules.NeverQueues()
	if !never {
		if l.mustWaitToo(class, e) {
			l.join(class, e)
			return Done
		}
	}
	gate := l.gate(class, e, b)
	switch {
	case gate.AllOverloaded() && !gate.Awaits:
		l.host.Reject(class, e.Value, Rejection{Why: Overloaded})
		return Done
	case never:
		return l.arriveNever(class, e, rules, limit, gate, b)
	case l.q.length > 0 || gate.MustWait:
		l.join(class, e)
		return Done
	}
	return l.admit(class, e, b)
}

// Join queues an arrival while others are still being served, so that its
// priority or due time counts from now on. One whose class never queues has nothing to
// wait for: it is decided at once, as Arrive does.
func (l *Line[T]) Join(class int, e *Entry[T], b *Budget) Status {
	if _, never := l.host.Rules(class).NeverQueues(); never {
		return l.Arrive(class, e, b)
	}
	if !l.mustWaitToo(class, e) {
		if gate := l.gate(class, e, b); gate.AllOverloaded() && !gate.Awaits {
			l.host.Reject(class, e.Value, Rejection{Why: Overloaded})
			return Done
		}
	}
	l.join(class, e)
	return Done
}

func (l *Line[T]) gate(class int, e *Entry[T], b *Budget) Gate {
	gate := l.host.Gate(class, e.Value, false)
	b.Spend(CostRank * gate.Looked)
	return gate
}

// mustWaitToo reports whether others wait that are as bound as the arrival, and
// cannot run: then it cannot either, and the ranks need not be looked at.
func (l *Line[T]) mustWaitToo(class int, e *Entry[T]) bool {
	lane := l.q.classes[class].lane(e.Lane)
	return lane != nil && lane.blocked && !lane.overloaded && lane.stamp == l.q.stamp
}

// admit books for an arrival that need not stand in line.
func (l *Line[T]) admit(class int, e *Entry[T], b *Budget) Status {
	b.Spend(CostGrant)
	if l.host.Book(class, e.Value) == LostRace {
		return Again
	}
	l.host.Grant(e.Value)
	return Done
}

func (l *Line[T]) arriveNever(class int, e *Entry[T], rules Rules, limit string, gate Gate, b *Budget) Status {
	usage := l.host.Usage(class)
	full := Rejection{Why: Full, Usage: usage, Limit: limit}
	switch {
	case rules.CanQueue() && usage.Requests > 0:
		l.host.Reject(class, e.Value, full)
		return Done
	case gate.MustWait:
		if !l.exactly(class, e, b) {
			return Again
		}
		l.host.Reject(class, e.Value, full)
		return Done
	}
	return l.admit(class, e, b)
}

// exactly reports whether the request must wait, at one instant.
func (l *Line[T]) exactly(class int, e *Entry[T], b *Budget) bool {
	gate := l.host.Gate(class, e.Value, true)
	b.Spend(CostRank * gate.Looked)
	return gate.MustWait
}

func (l *Line[T]) join(class int, e *Entry[T]) {
	l.q.Add(class, e)
	if l.q.classes[class].guardAfter > 0 {
		// It may have waited elsewhere before. The others of its age have grown by now.
		one := NewBudget(2 * CostEntry)
		l.q.Grow(l.host.Now(), &one)
	}
	if len(l.joined) == cap(l.joined) && l.joinedLeft > len(l.joined)/2 {
		l.trimJoined()
	}
	l.joined = append(l.joined, e)
	e.joined = len(l.joined)
}

// leaveJoined takes an entry off the list of those that may not remain.
func (l *Line[T]) leaveJoined(e *Entry[T]) {
	if e.joined == 0 {
		return
	}
	l.joined[e.joined-1] = nil
	e.joined = 0
	l.joinedLeft++
}

// trimJoined closes the gaps of arrivals that have gone. While one waiter or another can
// always run, SettleJoined does not come to the end of the list.
func (l *Line[T]) trimJoined() {
	stay := l.joined[:0]
	for _, e := range l.joined {
		if e != nil {
			stay = append(stay, e)
			e.joined = len(stay)
		}
	}
	clear(l.joined[len(stay):])
	l.joined, l.joinedFrom, l.joinedLeft = stay, 0, 0
}

// SettleJoined decides whether the first arrival that has joined remains, now that no
// waiter can run: limits apply to requests that remain queued. It is Done if there is
// none, and Paused if there may be more.
func (l *Line[T]) SettleJoined(b *Budget) Status {
	for l.joinedFrom < len(l.joined) && l.joined[l.joinedFrom] == nil {
		l.joinedFrom++
	}
	if l.joinedFrom == len(l.joined) {
		l.joined, l.joinedFrom, l.joinedLeft = l.joined[:0], 0, 0
		if cap(l.joined) > maxJoinedKept {
			l.joined = nil
		}
		return Done
	}
	if !b.Spend(CostEntry) {
		return Exhausted
	}
	return l.remain(l.joined[l.joinedFrom], b)
}

// maxJoinedKept bounds the room that is kept for arrivals.
const maxJoinedKept = 1024

func (l *Line[T]) remain(e *Entry[T], b *Budget) Status {
	class := e.class
	// The pool may have changed since it joined, and Queued was not called for it.
	if e.lane.overloaded {
		if gate := l.gate(class, e, b); gate.AllOverloaded() && !gate.Awaits {
			l.Remove(e)
			l.host.Reject(class, e.Value, Rejection{Why: Overloaded})
			return Paused
		}
	}
	usage := l.host.Usage(class)
	limit, _, bound, full := l.host.Rules(class).LimitReached(usage.Requests, usage.Raw, usage.Cached, l.host.Workers())
	why := Rejection{Why: WouldQueue, Usage: usage}
	switch {
	case full:
		why = Rejection{Why: Full, Usage: usage, Limit: limit, Bound: bound}
	case !l.host.DoNotQueue(e.Value):
		l.leaveJoined(e)
		l.host.Queued(class, e.Value)
		return Paused
	}
	// A rejection must have been right at one instant: between two looks of a pass over
	// the ranks load may have moved from one to the other, and between the two of the
	// usage, which others only lower, a waiter may have left. What keeps it is the head
	// of its lane, which stands for all.
	if !l.exactly(class, e.lane.First(), b) || l.host.Usage(class) != usage {
		l.q.open(e.lane)
		return Again
	}
	l.Remove(e)
	l.host.Reject(class, e.Value, why)
	return Paused
}

// Reset starts an empty queue with other classes. Those that have joined, and are
// added to it, stay so.
func (l *Line[T]) Reset(classes []ClassSpec) (before *Queue[T]) {
	before, l.q = l.q, New[T](classes)
	before.guard, l.q.guard = func(int, T, bool) {}, l.host.Guard
	return before
}

// Failed returns requests that have had no usable rank for longer than their class
// waits for one, at most so many: in the order in which they fail, and in arrival order
// if they fail at the same instant. They stay queued. It may return none if it uses up
// the budget.
func (l *Line[T]) Failed(now int64, most int, b *Budget) []*Entry[T] {
	if l.q.NextFail() > now {
		return nil
	}
	return l.q.failed(now, most, func(lane *Lane[T]) bool {
		gate := l.host.Gate(lane.class.index, lane.First().Value, false)
		b.Spend(CostLane + CostRank*gate.Looked)
		return gate.NoneUsable()
	}, b)
}

// Rebuild makes the queue anew from the waiters, after it was broken off in the middle
// of a change. Deficits start at 0.
func (l *Line[T]) Rebuild() {
	before := l.q
	specs := make([]ClassSpec, len(before.classes))
	for i, c := range before.classes {
		specs[i] = ClassSpec{
			Order: c.order, Quantum: c.quant, MaxAge: c.maxAge, GuardAfter: c.guardAfter, EndpointWait: c.endpointWait,
		}
	}
	l.q = New[T](specs)
	l.q.guard = l.host.Guard
	for e := before.oldest; e != nil; {
		later := e.later
		since, lacks := e.Lacks()
		e.earlier, e.later, e.lane, e.cameBefore, e.cameAfter = nil, nil, nil, nil, nil
		l.q.Add(e.class, e)
		if lacks {
			l.q.LackSince(e, since)
		}
		e = later
	}
}

// Add queues an entry that waited in another queue before. REQUIRES: it is in no
// queue.
func (l *Line[T]) Add(class int, e *Entry[T]) { l.q.Add(class, e) }

// Remove takes an entry out; it does nothing if the entry is not queued.
func (l *Line[T]) Remove(e *Entry[T]) {
	l.leaveJoined(e)
	l.q.Remove(e)
}

// Queue returns the queue of the line, to be looked at.
func (l *Line[T]) Queue() *Queue[T] { return l.q }

// Len returns the number of requests that wait.
func (l *Line[T]) Len() int { return l.q.length }
