package queue

import "slices"

// Use is what a rank says of itself to a lane.
type Use uint8

const (
	// Busy means for the lane's class, whatever the lane.
	Busy Use = iota
	// Unusable means that the lane's requests may not have it.
	Unusable
	// Usable means that they may, and it is not busy.
	Usable
	// Untold means that one rank is not enough to tell: all have to be looked at.
	Untold
)

// Ranks is what a queue asks about the ranks.
type Ranks[T any] interface {
	// CanRun looks at all ranks of a lane and says whether its requests can run now.
	// It spends what that took, and may note a witness in the lane. If time alone
	// will free one of the ranks, it has the queue watch it.
	CanRun(l *Lane[T], b *Budget) bool
	// CanUse looks at one rank.
	CanUse(l *Lane[T], rank RankID) Use
}

// plan is the outcome of one look at the round: whose turn it is, and how the round
// stands once it is served. It is kept apart from the queue until Commit, because the
// service may turn out to be impossible. It lists the active classes only: those
// without a waiter have no deficit and are on no visit.
type plan[T any] struct {
	served *Entry[T]
	// at holds the classes in visiting order, place the index of the served one.
	at    []planned[T]
	place int
	// back are those whose visit was over, in the order in which they went to the
	// very back.
	back []*class[T]
}

// planned is one class in a plan. What it would serve is looked up at most once,
// so that all of a plan holds at one instant.
type planned[T any] struct {
	class     *class[T]
	deficit   int64
	onVisit   bool
	known     bool
	candidate *Entry[T] // nil if the class is blocked
}

// Next says whose turn it is, by deficit round robin (Shreedhar and Varghese 1995) over
// the scheduling costs, with a visiting order instead of a cursor: what a class has
// earned outlasts its being blocked and the service of others. It returns nil if no
// waiter can run. Nothing changes but the lanes found blocked, until Commit. It is not
// ok if the budget was used up before that was clear; what was found out stays known.
func (q *Queue[T]) Next(now int64, r Ranks[T], b *Budget) (e *Entry[T], ok bool) {
	if q.quiet() {
		return nil, true
	}
	p := &q.plan
	p.start(q)
	look := looker[T]{q: q, now: now, ranks: r, budget: b}
	at := look.pickVisiting()
	if at < 0 && !look.usedUp {
		at = look.pickInOrder()
	}
	if at < 0 && !look.usedUp {
		at = look.pickAfterRounds()
	}
	for i := range max(0, at) {
		look.candidate(&p.at[i]) // which of those before it are blocked
	}
	if look.usedUp || at < 0 {
		return nil, !look.usedUp
	}
	p.place, p.served = at, p.at[at].candidate
	return p.served, true
}

// quiet reports whether no waiter can run, as far as is known without a look.
func (q *Queue[T]) quiet() bool {
	for _, c := range q.active {
		for i := range c.fronts {
			if !c.fronts[i].quiet() {
				return false
			}
		}
	}
	return true
}

// Commit takes out the request that Next returned last, as served.
func (q *Queue[T]) Commit() {
	p := &q.plan
	served := p.served
	for i := range p.at {
		c := p.at[i].class
		c.deficit, c.onVisit = p.at[i].deficit, p.at[i].onVisit
		q.touch(c)
	}
	for _, c := range p.back {
		q.ring.toBack(c)
	}
	q.charge(served)
	q.sortActive()
	q.Remove(served)
	p.served = nil
	clear(p.at)
	clear(p.back)
}

func (p *plan[T]) start(q *Queue[T]) {
	p.served, p.at, p.back = nil, p.at[:0], p.back[:0]
	for _, c := range q.active {
		p.at = append(p.at, planned[T]{class: c, deficit: c.deficit, onVisit: c.onVisit})
	}
}

// looker is one look at the round.
type looker[T any] struct {
	q      *Queue[T]
	now    int64
	ranks  Ranks[T]
	budget *Budget
	usedUp bool
}

// candidate returns what a class would serve.
func (k *looker[T]) candidate(p *planned[T]) *Entry[T] {
	if !p.known && !k.usedUp {
		p.candidate, p.known = k.q.candidate(p.class, k.now, k.ranks, k.budget)
		k.usedUp = !p.known
	}
	return p.candidate
}

// candidate returns the best head of the class's lanes that can run.
func (q *Queue[T]) candidate(c *class[T], now int64, r Ranks[T], b *Budget) (e *Entry[T], ok bool) {
	for {
		best, ok := c.best(now, r, b)
		if best == nil || !ok {
			return nil, ok
		}
		if q.canRun(best.lane, r, b) {
			return best, true
		}
		c.block(best.lane)
		if b.Exhausted() {
			return nil, false
		}
	}
}

// canRun tests an open lane: by its witness, or else by all its ranks. One that a
// freed rank has opened can run on no other, but for those on their way.
func (q *Queue[T]) canRun(l *Lane[T], r Ranks[T], b *Budget) bool {
	if l.hasWitness {
		b.Spend(CostRank)
		switch r.CanUse(l, l.witness) {
		case Usable:
			return true
		case Busy, Unusable:
			if l.asked {
				return false
			}
		case Untold:
		}
	}
	l.hasWitness, l.asked, l.stamp = false, false, q.stamp
	return r.CanRun(l, b)
}

// best returns the request that goes first among the lanes that are not blocked. Strict
// priority leads both orders, so if the oldest of the highest priority has not come of
// age, no waiter of that priority has.
func (c *class[T]) best(now int64, r Ranks[T], b *Budget) (e *Entry[T], ok bool) {
	if c.maxAge > 0 {
		l, ok := c.fronts[byAge].best(r, b)
		if l == nil && ok {
			// The walk by order would ask the same lanes: all were asked just now.
			c.fronts[byOrder].dismiss()
		}
		if l == nil || !ok {
			return nil, ok
		}
		if oldest := l.age.top(); now-oldest.Arrival >= c.maxAge {
			return oldest, true
		}
	}
	l, ok := c.fronts[byOrder].best(r, b)
	if l == nil || !ok {
		return nil, ok
	}
	return l.order.top(), true
}

// pickVisiting asks the classes whose visit is not over. One whose candidate costs
// more than it has left ends its visit and goes to the very back.
func (k *looker[T]) pickVisiting() int {
	p := &k.q.plan
	for i := 0; i < len(p.at); {
		at := &p.at[i]
		if !at.onVisit {
			i++
			continue
		}
		e := k.candidate(at)
		switch {
		case k.usedUp:
			return -1
		case e == nil:
			i++
		case e.Cost <= at.deficit:
			return i
		default:
			at.onVisit = false
			p.back = append(p.back, at.class)
			moved := *at
			p.at = append(slices.Delete(p.at, i, i+1), moved)
		}
	}
	return -1
}

// pickInOrder visits every class once; the visit of a class that can run adds its
// quantum.
func (k *looker[T]) pickInOrder() int {
	p := &k.q.plan
	for i := range p.at {
		at := &p.at[i]
		e := k.candidate(at)
		if k.usedUp {
			return -1
		}
		if e == nil {
			continue
		}
		if e.Cost > at.deficit {
			at.deficit = addSaturating(at.deficit, at.class.quant)
		}
		if e.Cost <= at.deficit {
			return i
		}
	}
	return -1
}

// pickAfterRounds adds, at once, the least number of whole rounds after which some
// class can be served.
func (k *looker[T]) pickAfterRounds() int {
	p := &k.q.plan
	rounds := int64(-1)
	for i := range p.at {
		at := &p.at[i]
		if at.candidate == nil {
			continue
		}
		missing := at.candidate.Cost - at.deficit
		n := missing / at.class.quant
		if missing%at.class.quant != 0 {
			n++
		}
		if rounds < 0 || n < rounds {
			rounds = n
		}
	}
	if rounds < 0 {
		return -1
	}
	served := -1
	for i := range p.at {
		at := &p.at[i]
		if at.candidate == nil {
			continue
		}
		at.deficit = addSaturating(at.deficit, mulSaturating(rounds, at.class.quant))
		if served < 0 && at.candidate.Cost <= at.deficit {
			served = i
		}
	}
	return served
}

// charge has the class of a request pay for it, and moves the class and those
// before it in the visiting order: they go behind all that stand after it, except
// the blocked ones, which stay in front; it stays before the rest while it has
// deficit left, else it goes to the very back.
func (q *Queue[T]) charge(e *Entry[T]) {
	served := q.classes[e.class]
	served.deficit = max(0, served.deficit-e.Cost)
	if served.pending == 1 {
		served.deficit = 0
	}
	served.onVisit = served.deficit > 0

	q.ring.head = served
	if !served.onVisit {
		q.ring.toBack(served)
	}
	for i := q.plan.place - 1; i >= 0; i-- {
		if p := &q.plan.at[i]; p.candidate == nil {
			q.ring.toFront(p.class)
		}
	}
}
