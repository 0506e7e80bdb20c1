package queue

import "slices"

// Test says whether the requests of a lane can run now. If not, retestAt is the
// instant at which time alone may change that, NoDue if it cannot.
type Test[T any] func(class int, lane *Lane[T]) (canRun bool, retestAt int64)

// plan is the outcome of one look at the round: whose turn it is, and how the
// round stands once it is served. It is kept apart from the queue until Commit,
// because the service may turn out to be impossible.
type plan[T any] struct {
	served     *Entry[T]
	deficits   []int64
	onVisit    []bool
	visiting   []int
	candidates []candidate[T]
	// next and passed are scratch for serve.
	next, passed []int
}

// candidate is what a class would serve. It is looked up at most once a plan,
// so that all of a plan holds at one instant.
type candidate[T any] struct {
	known bool
	entry *Entry[T] // nil if the class is empty or blocked
}

// Next says whose turn it is, by deficit round robin (Shreedhar and Varghese
// 1995) over the scheduling costs, with a visiting order instead of a cursor:
// what a class has earned outlasts its being blocked and the service of others.
// It returns nil if nobody can run. Nothing changes but the lanes found blocked,
// until Commit.
func (q *Queue[T]) Next(now int64, test Test[T]) *Entry[T] {
	p := &q.plan
	p.start(q)
	if q.length == 0 {
		return nil
	}
	candidateOf := func(class int) *Entry[T] {
		if c := &p.candidates[class]; !c.known {
			*c = candidate[T]{known: true, entry: q.candidate(q.classes[class], now, test)}
		}
		return p.candidates[class].entry
	}
	served := q.onVisit(candidateOf)
	if served == nil {
		served = q.inOrder(candidateOf)
	}
	if served == nil {
		served = q.catchUp(candidateOf)
	}
	if served == nil {
		return nil
	}
	q.serve(served, candidateOf)
	return served
}

// Commit takes out the request that Next returned last, as served.
func (q *Queue[T]) Commit() {
	served := q.plan.served
	q.adopt()
	q.Remove(served)
	q.plan.served = nil
}

// candidate returns the best head of the class's lanes that can run.
func (q *Queue[T]) candidate(c *class[T], now int64, test Test[T]) *Entry[T] {
	for {
		best := c.best(now)
		if best == nil {
			return nil
		}
		canRun, retestAt := test(c.index, best.lane)
		if canRun {
			return best
		}
		q.block(best.lane, retestAt)
	}
}

func (p *plan[T]) start(q *Queue[T]) {
	p.served = nil
	p.deficits, p.onVisit, p.visiting = p.deficits[:0], p.onVisit[:0], append(p.visiting[:0], q.visiting...)
	p.candidates = p.candidates[:0]
	for _, c := range q.classes {
		p.deficits = append(p.deficits, c.deficit)
		p.onVisit = append(p.onVisit, c.onVisit)
		p.candidates = append(p.candidates, candidate[T]{})
	}
}

func (q *Queue[T]) adopt() {
	p := &q.plan
	for i, c := range q.classes {
		c.deficit, c.onVisit = p.deficits[i], p.onVisit[i]
	}
	q.visiting = append(q.visiting[:0], p.visiting...)
}

// onVisit asks the classes whose visit is not over. One whose candidate costs
// more than it has left ends its visit and goes to the very back.
func (q *Queue[T]) onVisit(candidateOf func(int) *Entry[T]) *Entry[T] {
	p := &q.plan
	for i := 0; i < len(p.visiting); {
		class := p.visiting[i]
		if !p.onVisit[class] {
			i++
			continue
		}
		e := candidateOf(class)
		switch {
		case e == nil:
			i++
		case e.Cost <= p.deficits[class]:
			return e
		default:
			p.onVisit[class] = false
			p.visiting = append(slices.Delete(p.visiting, i, i+1), class)
		}
	}
	return nil
}

// inOrder visits every class once; the visit of a class that can run brings it
// its quantum.
func (q *Queue[T]) inOrder(candidateOf func(int) *Entry[T]) *Entry[T] {
	p := &q.plan
	for _, class := range p.visiting {
		if q.classes[class].pending == 0 {
			p.deficits[class] = 0
			continue
		}
		e := candidateOf(class)
		if e == nil {
			continue
		}
		if e.Cost > p.deficits[class] {
			p.deficits[class] = addSaturating(p.deficits[class], q.classes[class].quant)
		}
		if e.Cost <= p.deficits[class] {
			return e
		}
	}
	return nil
}

// catchUp adds, at once, the least number of whole rounds after which somebody
// can be served.
func (q *Queue[T]) catchUp(candidateOf func(int) *Entry[T]) *Entry[T] {
	p := &q.plan
	rounds := int64(-1)
	for _, class := range p.visiting {
		e := candidateOf(class)
		if e == nil {
			continue
		}
		quantum := q.classes[class].quant
		missing := e.Cost - p.deficits[class]
		n := missing / quantum
		if missing%quantum != 0 {
			n++
		}
		if rounds < 0 || n < rounds {
			rounds = n
		}
	}
	if rounds < 0 {
		return nil
	}
	var served *Entry[T]
	for _, class := range p.visiting {
		e := candidateOf(class)
		if e == nil {
			continue
		}
		p.deficits[class] = addSaturating(p.deficits[class], mulSaturating(rounds, q.classes[class].quant))
		if served == nil && e.Cost <= p.deficits[class] {
			served = e
		}
	}
	return served
}

// serve charges the class and moves it and those before it in the order.
func (q *Queue[T]) serve(e *Entry[T], candidateOf func(int) *Entry[T]) {
	p := &q.plan
	class := e.class
	p.served = e
	p.deficits[class] = max(0, p.deficits[class]-e.Cost)
	if q.classes[class].pending == 1 {
		p.deficits[class] = 0
	}
	stays := p.deficits[class] > 0
	p.onVisit[class] = stays

	at := slices.Index(p.visiting, class)
	next, passed := p.next[:0], p.passed[:0]
	for _, before := range p.visiting[:at] {
		if q.classes[before].pending > 0 && candidateOf(before) == nil {
			next = append(next, before)
		} else {
			passed = append(passed, before)
		}
	}
	if stays {
		next = append(next, class)
	}
	next = append(next, p.visiting[at+1:]...)
	next = append(next, passed...)
	if !stays {
		next = append(next, class)
	}
	p.visiting = append(p.visiting[:0], next...)
	p.next, p.passed = next, passed
}
