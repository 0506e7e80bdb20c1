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
	// MustWait: the request cannot run now.
	MustWait bool
	// RetestAt is the instant at which time alone may end that, NoDue if it
	// cannot.
	RetestAt int64
}

// AllOverloaded reports whether the request has ranks and all are overloaded.
func (g Gate) AllOverloaded() bool { return g.Eligible > 0 && g.Overloaded == g.Eligible }

// Usage is what the waiting requests of a class amount to.
type Usage struct{ Requests, Raw, Cached int64 }

// Verdict is what became of an attempt to admit.
type Verdict uint8

const (
	// Settled: the request was admitted, or failed for good.
	Settled Verdict = iota
	// LostRace: something moved in between; look again.
	LostRace
)

// Refusal says why an arrival does not wait.
type Refusal uint8

const (
	// RefusedFull: the class is full, or never queues.
	RefusedFull Refusal = iota
	// RefusedToQueue: the request asked not to wait.
	RefusedToQueue
	// RefusedOverloaded: all its ranks are overloaded.
	RefusedOverloaded
)

// Host is what the line asks of the engine around it. All calls are made by the
// goroutine that called the line.
type Host[T any] interface {
	// Now is the instant at which all decisions of this pass are made.
	Now() int64
	Rules(class int) Rules
	// Workers is the number of workers, by which limits scale.
	Workers() int64
	// Gate looks at the ranks. With exact set the answer must have been true at
	// one instant; else a look that is overtaken by a change may be wrong, if
	// the change leaves a hint.
	Gate(class int, v T, exact bool) Gate
	// Usage is what the waiting requests of the class amount to, without those
	// whose owner has gone.
	Usage(class int) Usage
	// DoNotQueue reports whether the request asked not to wait.
	DoNotQueue(v T) bool

	// Prepare selects a rank and books it, but tells nobody yet.
	Prepare(class int, v T) Verdict
	// Settle tells the owner what Prepare found. The request is in no queue by
	// then.
	Settle(v T)
	// Refresh brings hints, instants that have passed and leavers up to date.
	Refresh()
	// Refuse tells the owner that the request is refused.
	Refuse(class int, v T, why Refusal, limit string, usage, bound int64)
	// Stays is told that the request remains in the queue.
	Stays(class int, v T)
}

// Line is the queue together with the rules of admission.
type Line[T any] struct {
	*Queue[T]
	host Host[T]
	test Test[T]
}

// NewLine returns an empty line.
func NewLine[T any](classes []ClassSpec, host Host[T]) *Line[T] {
	l := &Line[T]{host: host}
	l.test = func(class int, lane *Lane[T]) (bool, int64) {
		gate := host.Gate(class, lane.First().Value, false)
		return !gate.MustWait, gate.RetestAt
	}
	l.Reset(classes)
	return l
}

// Reset starts an empty queue with other classes.
func (l *Line[T]) Reset(classes []ClassSpec) { l.Queue = New[T](classes) }

// Serve dispatches whoever can run, each when it is its turn. Every attempt
// takes one from budget; it reports whether it was left with none.
func (l *Line[T]) Serve(budget *int) (exhausted bool) {
	for l.Len() > 0 {
		if *budget <= 0 {
			return true
		}
		e := l.Next(l.host.Now(), l.test)
		if e == nil {
			return false
		}
		*budget--
		if l.host.Prepare(e.Class(), e.Value) == LostRace {
			l.host.Refresh()
			continue
		}
		l.Commit()
		l.host.Settle(e.Value)
	}
	return false
}

// Arrive decides about an arrival of the class: admitted, queued or refused. If
// the budget runs out before that is clear, the arrival has left no trace and
// is to be brought again.
func (l *Line[T]) Arrive(class int, e *Entry[T], budget *int) (exhausted bool) {
	rules := l.host.Rules(class)
	limit, never := rules.NeverQueues()
	for {
		if *budget <= 0 {
			return true
		}
		gate := l.host.Gate(class, e.Value, false)
		if gate.AllOverloaded() {
			l.host.Refuse(class, e.Value, RefusedOverloaded, "", 0, 0)
			return false
		}
		if never && rules.CanQueue() && (l.host.Usage(class).Requests > 0 || gate.MustWait) {
			if !gate.MustWait || l.host.Gate(class, e.Value, true).MustWait {
				l.host.Refuse(class, e.Value, RefusedFull, limit, 0, 0)
				return false
			}
			continue
		}
		if !never && (l.Len() > 0 || gate.MustWait) {
			break
		}
		*budget--
		if l.host.Prepare(class, e.Value) == Settled {
			l.host.Settle(e.Value)
			return false
		}
		l.host.Refresh()
	}
	return l.stand(class, e, rules, budget)
}

// stand queues the arrival and dispatches whatever can now run. Limits are for
// those who would remain.
func (l *Line[T]) stand(class int, e *Entry[T], rules Rules, budget *int) (exhausted bool) {
	for {
		if !e.Queued() {
			l.Add(class, e)
		}
		exhausted = l.Serve(budget)
		if !e.Queued() {
			return false
		}
		if exhausted {
			l.Remove(e)
			return true
		}
		usage := l.host.Usage(class)
		limit, used, bound, full := rules.LimitReached(usage.Requests, usage.Raw, usage.Cached, l.host.Workers())
		if !full && !l.host.DoNotQueue(e.Value) {
			l.host.Stays(class, e.Value)
			return false
		}
		// A refusal must have been right at one instant: between two looks of a
		// pass over the ranks load may have moved from one to the other.
		if !l.host.Gate(class, e.Value, true).MustWait {
			l.host.Refresh()
			l.UnblockAll()
			continue
		}
		l.Remove(e)
		if full {
			l.host.Refuse(class, e.Value, RefusedFull, limit, used, bound)
		} else {
			l.host.Refuse(class, e.Value, RefusedToQueue, "", usage.Requests, usage.Raw)
		}
		return false
	}
}
