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

// Refusal says why an arrival does not wait.
type Refusal uint8

const (
	// RefusedFull means: the class is full, or never queues.
	RefusedFull Refusal = iota
	// RefusedToQueue means: the request asked not to wait.
	RefusedToQueue
	// RefusedOverloaded means: all its ranks are overloaded.
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
	// one instant, by the rules that held then: if that cannot be said the request
	// need not wait. Else a look that is overtaken by a change may be wrong, if the
	// change leaves a hint.
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
	// Refuse tells the owner that the request is refused, given what its class
	// amounts to and, if it is full, the limit reached and its bound.
	Refuse(class int, v T, why Refusal, usage Usage, limit string, bound int64)
	// Stays is told that the request remains in the queue.
	Stays(class int, v T)
}

// Line is the queue together with the rules of admission.
type Line[T any] struct {
	*Queue[T]
	host Host[T]
	test Test[T]
	// Unfinished: an arrival was served, but then a race was lost or the budget
	// used up for somebody else; reset by the caller.
	Unfinished bool
}

// NewLine returns an empty line.
func NewLine[T any](classes []ClassSpec, host Host[T]) *Line[T] {
	l := &Line[T]{host: host}
	l.test = func(class int, lane *Lane[T]) (bool, int64) {
		gate := host.Gate(class, lane.First().Value, false)
		lane.overloaded = gate.AllOverloaded()
		return !gate.MustWait, gate.RetestAt
	}
	l.Reset(classes)
	return l
}

// Reset starts an empty queue with other classes.
func (l *Line[T]) Reset(classes []ClassSpec) { l.Queue = New[T](classes) }

// Status is how far a call of the line came.
type Status uint8

const (
	// Done means: nobody else can run, or the arrival is decided.
	Done Status = iota
	// Again means: a race was lost. Bring hints, instants that have passed and leavers
	// up to date, and call again.
	Again
	// Exhausted means: the budget was used up first.
	Exhausted
)

// Serve dispatches whoever can run, each when it is its turn. Every attempt
// takes one from budget.
func (l *Line[T]) Serve(budget *int) Status {
	status, _ := l.serve(budget, nil)
	return status
}

// serve also says whether watched was among those served: once settled, an entry
// is its owner's and must not be looked at.
func (l *Line[T]) serve(budget *int, watched *Entry[T]) (status Status, served bool) {
	for l.Len() > 0 {
		if *budget <= 0 {
			return Exhausted, served
		}
		e := l.Next(l.host.Now(), l.test)
		if e == nil {
			break
		}
		*budget--
		value := e.Value
		if l.host.Prepare(e.Class(), value) == LostRace {
			return Again, served
		}
		l.Commit()
		served = served || e == watched
		l.host.Settle(value)
	}
	return Done, served
}

// Arrive decides about an arrival of the class: admitted, queued or refused.
// Unless the status is Done the arrival has left no trace, and is to be brought
// again.
func (l *Line[T]) Arrive(class int, e *Entry[T], budget *int) Status {
	rules := l.host.Rules(class)
	limit, never := rules.NeverQueues()
	if lane := l.classes[class].lanes[e.Lane]; lane != nil && lane.blocked && !lane.overloaded && !never {
		// Who is as bound as it is waits already: it will too.
		return l.stand(class, e, rules, budget)
	}
	gate := l.host.Gate(class, e.Value, false)
	if gate.AllOverloaded() {
		l.host.Refuse(class, e.Value, RefusedOverloaded, Usage{}, "", 0)
		return Done
	}
	var usage Usage
	if never {
		usage = l.host.Usage(class)
	}
	switch {
	case never && rules.CanQueue() && usage.Requests > 0:
		l.host.Refuse(class, e.Value, RefusedFull, usage, limit, 0)
		return Done
	case never && gate.MustWait:
		if !l.host.Gate(class, e.Value, true).MustWait {
			return l.again(budget)
		}
		l.host.Refuse(class, e.Value, RefusedFull, usage, limit, 0)
		return Done
	case never, l.Len() == 0 && !gate.MustWait:
		if l.host.Prepare(class, e.Value) == LostRace {
			return l.again(budget)
		}
		l.host.Settle(e.Value)
		return Done
	}
	return l.stand(class, e, rules, budget)
}

// stand queues the arrival and dispatches whatever can now run. Limits are for
// those who would remain.
func (l *Line[T]) stand(class int, e *Entry[T], rules Rules, budget *int) Status {
	l.Add(class, e)
	status, served := l.serve(budget, e)
	if served {
		if status != Done {
			l.Unfinished = true
		}
		return Done
	}
	if status != Done {
		l.Remove(e)
		return status
	}
	usage := l.host.Usage(class)
	limit, _, bound, full := rules.LimitReached(usage.Requests, usage.Raw, usage.Cached, l.host.Workers())
	if !full && !l.host.DoNotQueue(e.Value) {
		l.host.Stays(class, e.Value)
		return Done
	}
	l.Remove(e)
	// A refusal must have been right at one instant: between two looks of a pass
	// over the ranks load may have moved from one to the other, and between the two
	// of the usage, which others only lower, somebody may have left.
	if !l.host.Gate(class, e.Value, true).MustWait || l.host.Usage(class) != usage {
		l.UnblockAll()
		return l.again(budget)
	}
	if full {
		l.host.Refuse(class, e.Value, RefusedFull, usage, limit, bound)
	} else {
		l.host.Refuse(class, e.Value, RefusedToQueue, usage, "", 0)
	}
	return Done
}

func (l *Line[T]) again(budget *int) Status {
	if *budget--; *budget <= 0 {
		return Exhausted
	}
	return Again
}
