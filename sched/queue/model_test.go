package queue

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// The model is the contract on order, lanes and rounds written down a second
// time with no thought of cost: one slice of all who wait, sorted anew for each
// question, and every lane tested at every decision. It remembers nothing of
// what was blocked.

type model struct {
	specs    []ClassSpec
	waiting  []*Entry[int]
	class    map[*Entry[int]]int
	deficit  []int64
	visit    []bool
	visiting []int
}

func newModel(specs []ClassSpec) *model {
	m := &model{specs: specs, class: map[*Entry[int]]int{}, deficit: make([]int64, len(specs)), visit: make([]bool, len(specs))}
	for i := range specs {
		m.visiting = append(m.visiting, i)
	}
	return m
}

func (m *model) add(class int, e *Entry[int]) {
	m.waiting = append(m.waiting, e)
	m.class[e] = class
}

func (m *model) of(class int) []*Entry[int] {
	return slices.DeleteFunc(slices.Clone(m.waiting), func(e *Entry[int]) bool { return m.class[e] != class })
}

func (m *model) remove(e *Entry[int]) {
	class := m.class[e]
	m.waiting = slices.DeleteFunc(m.waiting, func(o *Entry[int]) bool { return o == e })
	delete(m.class, e)
	if len(m.of(class)) == 0 {
		m.deficit[class], m.visit[class] = 0, false
	}
}

// sorted is the order within a class.
func (m *model) sorted(class int, now int64) []*Entry[int] {
	spec := m.specs[class]
	aged := func(e *Entry[int]) bool { return spec.MaxAge > 0 && now-e.Arrival >= spec.MaxAge }
	score := func(e *Entry[int]) float64 { // exact for the small numbers used here
		switch spec.Order {
		case LCFS:
			return float64(e.Jump + e.Arrival)
		case WSPT:
			return float64(1e9+e.Jump) / float64(e.Cost)
		default:
			return float64(e.Jump - e.Arrival)
		}
	}
	all := m.of(class)
	slices.SortFunc(all, func(a, b *Entry[int]) int {
		if a.Priority != b.Priority {
			return -cmp.Compare(a.Priority, b.Priority)
		}
		if aged(a) != aged(b) {
			if aged(a) {
				return -1
			}
			return 1
		}
		if aged(a) {
			return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Seq, b.Seq))
		}
		return cmp.Or(cmp.Compare(a.Due, b.Due), -cmp.Compare(score(a), score(b)), cmp.Compare(a.Seq, b.Seq))
	})
	return all
}

// next applies rule 8 to a copy, which it returns with the one whose turn it is.
func (m *model) next(now int64, canRun func(class int, e *Entry[int]) bool) (*Entry[int], *model) {
	n := *m
	n.deficit, n.visit, n.visiting = slices.Clone(m.deficit), slices.Clone(m.visit), slices.Clone(m.visiting)
	candidates := make([]*Entry[int], len(m.specs))
	for class := range m.specs {
		for _, e := range m.sorted(class, now) {
			if canRun(class, e) {
				candidates[class] = e
				break
			}
		}
	}
	served := n.pick(candidates)
	if served == nil {
		return nil, &n
	}
	class := m.class[served]
	n.deficit[class] = max(0, n.deficit[class]-served.Cost)
	if len(m.of(class)) == 1 {
		n.deficit[class] = 0
	}
	n.visit[class] = n.deficit[class] > 0

	at := slices.Index(n.visiting, class)
	var front, back []int
	for _, c := range n.visiting[:at] {
		if candidates[c] == nil && len(m.of(c)) > 0 {
			front = append(front, c) // blocked
		} else {
			back = append(back, c)
		}
	}
	after := n.visiting[at+1:]
	if n.deficit[class] > 0 {
		n.visiting = slices.Concat(front, []int{class}, after, back)
	} else {
		n.visiting = slices.Concat(front, after, back, []int{class})
	}
	return served, &n
}

// pick is 8a to 8c.
func (m *model) pick(candidates []*Entry[int]) *Entry[int] {
	for _, class := range slices.Clone(m.visiting) {
		e := candidates[class]
		if !m.visit[class] || e == nil {
			continue
		}
		if e.Cost <= m.deficit[class] {
			return e
		}
		m.visit[class] = false
		m.visiting = append(slices.DeleteFunc(m.visiting, func(c int) bool { return c == class }), class)
	}
	for _, class := range m.visiting {
		e := candidates[class]
		if e == nil {
			continue
		}
		if e.Cost > m.deficit[class] {
			m.deficit[class] += m.specs[class].Quantum
		}
		if e.Cost <= m.deficit[class] {
			return e
		}
	}
	if len(candidates) == 0 || slices.IndexFunc(candidates, func(e *Entry[int]) bool { return e != nil }) < 0 {
		return nil
	}
	for { // round after round, until somebody can be served
		for class, e := range candidates {
			if e != nil {
				m.deficit[class] += m.specs[class].Quantum
			}
		}
		for _, class := range m.visiting {
			if e := candidates[class]; e != nil && e.Cost <= m.deficit[class] {
				return e
			}
		}
	}
}

func (m *model) round() string {
	s := ""
	for i, class := range m.visiting {
		if i > 0 {
			s += " "
		}
		s += fmt.Sprintf("%c%d", 'A'+class, m.deficit[class])
		if m.visit[class] {
			s += "*"
		}
	}
	return s
}

// pool is the ranks behind the queue: what makes a lane runnable.
type pool struct {
	ranks []poolRank
}

// poolRank is busy for class c while its level is above c, until idleAt.
type poolRank struct {
	id     lifecycle.RankID
	level  int
	idleAt int64
}

func newPool() *pool {
	p := &pool{}
	for worker := range uint64(3) {
		for r := range uint32(2) {
			p.ranks = append(p.ranks, poolRank{id: lifecycle.RankID{Worker: worker, Rank: r}, idleAt: NoDue})
		}
	}
	return p
}

func (r *poolRank) busy(class int, now int64) bool { return r.level > class && now < r.idleAt }

// poolLane is a set of constraints: which ranks it leaves.
type poolLane struct {
	key    string
	scope  Scope
	serves func(lifecycle.RankID) bool
}

var poolLanes = []poolLane{
	{key: "", serves: func(lifecycle.RankID) bool { return true }},
	{key: "without 1", serves: func(r lifecycle.RankID) bool { return r.Worker != 1 }},
	{key: "tainted", serves: func(r lifecycle.RankID) bool { return r.Worker == 2 }},
	{key: "tainted otherwise", serves: func(r lifecycle.RankID) bool { return r.Worker == 1 }},
	{
		key: "pin 0/1", scope: Scope{Pinned: true, Rank: lifecycle.RankID{Rank: 1}},
		serves: func(r lifecycle.RankID) bool { return r == lifecycle.RankID{Rank: 1} },
	},
	{
		key: "pin 2/0", scope: Scope{Pinned: true, Rank: lifecycle.RankID{Worker: 2}},
		serves: func(r lifecycle.RankID) bool { return r == lifecycle.RankID{Worker: 2} },
	},
	{key: "only 1", scope: Scope{Workers: []uint64{1}}, serves: func(r lifecycle.RankID) bool { return r.Worker == 1 }},
	{key: "0 and 2", scope: Scope{Workers: []uint64{0, 2}}, serves: func(r lifecycle.RankID) bool { return r.Worker != 1 }},
	{key: "none", scope: Scope{Workers: []uint64{}}, serves: func(lifecycle.RankID) bool { return false }},
}

// canRun tests a lane, and says when time alone will change the answer.
func (p *pool) canRun(class int, key string, now int64) (ok bool, retestAt int64) {
	at := slices.IndexFunc(poolLanes, func(l poolLane) bool { return l.key == key })
	retestAt = NoDue
	for i := range p.ranks {
		if r := &p.ranks[i]; poolLanes[at].serves(r.id) {
			if !r.busy(class, now) {
				return true, NoDue
			}
			retestAt = min(retestAt, r.idleAt)
		}
	}
	return false, retestAt
}

// differential drives queue and model with the same operations, drawn from
// bytes so that a fuzzer can drive them too.
type differential struct {
	testing.TB
	data  []byte
	steps []string

	q    *Queue[int]
	m    *model
	pool *pool
	now  int64
	seq  uint64
	// untold: one rank is never enough to tell; fills: who is served takes a rank;
	// budget is what a piece of work has.
	untold, fills bool
	budget        int
	lanes         int // how many of poolLanes requests wait in
}

func (d *differential) byte() int {
	if len(d.data) == 0 {
		return 0
	}
	b := d.data[0]
	d.data = d.data[1:]
	return int(b)
}

func (d *differential) note(format string, args ...any) {
	d.steps = append(d.steps, fmt.Sprintf(format, args...))
}

func (d *differential) fail(format string, args ...any) {
	d.Helper()
	from := max(0, len(d.steps)-40)
	for _, s := range d.steps[from:] {
		d.Log(s)
	}
	d.Fatalf(format, args...)
}

// runDifferential lets the bytes be operations until they are used up.
func runDifferential(tb testing.TB, data []byte) {
	tb.Helper()
	d := &differential{TB: tb, data: data, pool: newPool()}
	specs := make([]ClassSpec, 1+d.byte()%4)
	for i := range specs {
		specs[i] = ClassSpec{Order: Order(d.byte() % 3), Quantum: int64(1 + d.byte()%12)}
		if age := d.byte(); age%2 == 1 {
			specs[i].MaxAge = int64(1 + age%30)
		}
		d.note("class %c: %+v", 'A'+i, specs[i])
	}
	d.q, d.m = New[int](specs), newModel(specs)
	how := d.byte()
	d.untold, d.fills, d.budget = how%4 == 3, how%8 >= 4, 1+how/8*16
	d.lanes = 1 + d.byte()%len(poolLanes)
	for len(d.data) > 0 {
		d.step()
		d.compare()
	}
	d.serveAll()
}

func (d *differential) step() {
	switch d.byte() % 17 {
	case 0, 1, 2, 3:
		d.add()
	case 4:
		d.remove()
	case 5, 6, 7:
		d.serve()
	case 8:
		d.serveAll()
	case 9, 10:
		r := &d.pool.ranks[d.byte()%len(d.pool.ranks)]
		d.load(r, min(r.level+1+d.byte()%2, 5))
	case 11, 12:
		r := &d.pool.ranks[d.byte()%len(d.pool.ranks)]
		d.load(r, max(r.level-1-d.byte()%3, 0))
	case 13:
		d.now += int64(d.byte() % 12)
		d.note("at %d", d.now)
		budget := NewBudget(1 << 20)
		d.q.FreeDue(d.now, &budget)
		d.overdue()
	case 14:
		e := d.next() // and no Commit
		d.note("next is %v", e)
	case 16: // several ranks at once
		for range 2 + d.byte()%5 {
			r := &d.pool.ranks[d.byte()%len(d.pool.ranks)]
			d.load(r, max(r.level-1-d.byte()%6, 0))
		}
	case 15:
		d.note("open all")
		d.q.OpenAll()
	}
}

func (d *differential) add() {
	l := poolLanes[d.byte()%d.lanes]
	wishes := d.byte()
	d.seq++
	e := &Entry[int]{
		Value: int(d.seq), Seq: d.seq, Arrival: d.now - int64(wishes%5), Due: NoDue,
		Priority: uint32(wishes / 8 % 3), Cost: int64(1 + d.byte()%25), Lane: l.key, Scope: l.scope,
	}
	if wishes&1 != 0 {
		e.Due = d.now + 1 + int64(d.byte()%40)
	}
	if wishes&2 != 0 {
		e.Jump = int64(d.byte() % 20)
	}
	class := d.byte() % len(d.m.specs)
	d.note("add %+v to %c, lane %q", *e, 'A'+class, l.key)
	d.q.Add(class, e)
	d.m.add(class, e)
}

func (d *differential) remove() {
	if len(d.m.waiting) > 0 {
		e := d.m.waiting[d.byte()%len(d.m.waiting)]
		d.note("remove %d", e.Seq)
		d.q.Remove(e)
		d.m.remove(e)
	}
}

// CanRun implements Ranks.
func (d *differential) CanRun(l *Lane[int], b *Budget) bool {
	b.Spend(CostLane)
	class, key := l.Class(), l.First().Lane
	at := slices.IndexFunc(poolLanes, func(l poolLane) bool { return l.key == key })
	for i := range d.pool.ranks {
		if r := &d.pool.ranks[i]; poolLanes[at].serves(r.id) && r.busy(class, d.now) && r.idleAt != NoDue {
			d.q.Watch(r.id, r.idleAt)
		}
	}
	ok, _ := d.pool.canRun(class, key, d.now)
	return ok
}

// CanUse implements Ranks.
func (d *differential) CanUse(l *Lane[int], rank RankID) Use {
	at := slices.IndexFunc(d.pool.ranks, func(r poolRank) bool { return r.id == rank })
	r := &d.pool.ranks[at]
	key := l.First().Lane
	lane := slices.IndexFunc(poolLanes, func(l poolLane) bool { return l.key == key })
	switch {
	case d.untold && poolLanes[lane].serves(rank):
		return Untold
	case r.busy(l.Class(), d.now):
		if r.idleAt != NoDue {
			d.q.Watch(rank, r.idleAt)
		}
		return Busy
	case poolLanes[lane].serves(rank):
		return Usable
	}
	return Unusable
}

// next is Next in pieces, so that what a used-up budget leaves behind is tried.
func (d *differential) next() *Entry[int] {
	for units := d.budget; ; units++ {
		budget := NewBudget(units)
		if e, ok := d.q.Next(d.now, d, &budget); ok {
			return e
		}
		if err := d.q.Check(); err != nil {
			d.fail("when the budget was used up: %v", err)
		}
	}
}

func (d *differential) serve() (served bool) {
	want, next := d.m.next(d.now, func(class int, e *Entry[int]) bool {
		ok, _ := d.pool.canRun(class, e.Lane, d.now)
		return ok
	})
	got := d.next()
	d.note("serve: %v", got)
	if got != want {
		d.fail("%v is served, want %v; the round before: %s", got, want, d.m.round())
	}
	if got == nil {
		// Nobody can run now; nor may the moment be missed when somebody can.
		for _, e := range d.m.waiting {
			if _, at := d.pool.canRun(d.m.class[e], e.Lane, d.now); at < d.q.NextFree() {
				d.fail("%v can run at %d, but the next look is at %d", e, at, d.q.NextFree())
			}
		}
		return false
	}
	d.q.Commit()
	d.m = next
	d.m.remove(want)
	if d.fills {
		d.fill(want)
	}
	return true
}

// fill has the first rank that could serve a request be busy with it.
func (d *differential) fill(e *Entry[int]) {
	lane := slices.IndexFunc(poolLanes, func(l poolLane) bool { return l.key == e.Lane })
	for i := range d.pool.ranks {
		if r := &d.pool.ranks[i]; poolLanes[lane].serves(r.id) && !r.busy(e.class, d.now) {
			r.level, r.idleAt = len(d.m.specs), NoDue
			d.note("rank %v is taken", r.id)
			return
		}
	}
}

func (d *differential) serveAll() {
	for d.serve() {
		d.compare()
	}
}

// load changes a rank's load, and leaves a hint if that may have freed it.
func (d *differential) load(r *poolRank, level int) {
	before := *r
	was := r.level > 0 && d.now < r.idleAt
	r.level = level
	if idleAt := d.now + int64(d.byte()%50); idleAt%2 == 0 && level > 0 {
		r.idleAt = idleAt
	} else {
		r.idleAt = NoDue
	}
	d.note("rank %v has level %d until %d", r.id, r.level, r.idleAt)
	if was && (r.level < before.level || r.idleAt < before.idleAt) {
		d.note("hint")
		d.q.Free(r.id)
	}
}

func (d *differential) overdue() {
	var want []*Entry[int]
	for _, e := range d.m.waiting {
		if e.Due <= d.now {
			want = append(want, e)
		}
	}
	slices.SortFunc(want, func(a, b *Entry[int]) int { return cmp.Compare(a.Seq, b.Seq) })
	got := d.q.Overdue(d.now, 1<<30)
	if !slices.Equal(got, want) {
		d.fail("overdue are %v, want %v", got, want)
	}
	for _, e := range got {
		d.note("remove %d, which is due", e.Seq)
		d.q.Remove(e)
		d.m.remove(e)
	}
}

func (d *differential) compare() {
	if err := d.q.Check(); err != nil {
		d.fail("%v", err)
	}
	if got, want := roundOf(d.q), d.m.round(); got != want {
		d.fail("the round is %q, want %q", got, want)
	}
	if d.q.Len() != len(d.m.waiting) {
		d.fail("%d wait, want %d", d.q.Len(), len(d.m.waiting))
	}
	next := int64(math.MaxInt64)
	for _, e := range d.m.waiting {
		next = min(next, e.Due)
		if !e.Queued() || e.Class() != d.m.class[e] {
			d.fail("%v is queued: %t", e, e.Queued())
		}
	}
	if d.q.NextDue() != next {
		d.fail("the next is due at %d, want %d", d.q.NextDue(), next)
	}
	for class := range d.m.specs {
		if got, want := d.q.Pending(class), len(d.m.of(class)); got != want {
			d.fail("%d wait in class %c, want %d", got, 'A'+class, want)
		}
		if got, want := d.q.Deficit(class), d.m.deficit[class]; got != want {
			d.fail("class %c has deficit %d, want %d", 'A'+class, got, want)
		}
	}
}

func TestAgainstModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(96)
	if testing.Short() {
		seeds /= 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 8))
			data := make([]byte, 8_000)
			for i := range data {
				data[i] = byte(rnd.Uint32())
			}
			runDifferential(t, data)
		})
	}
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte{})
	// Two classes; some are added, the ranks fill up, somebody is served.
	f.Add([]byte{1, 0, 4, 0, 2, 9, 7, 0, 0, 0, 4, 0, 1, 3, 1, 6, 0, 0, 9, 1, 1, 7, 5, 5, 8, 13, 9, 8})
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2_000 {
			t.Skip("longer runs find nothing that two short ones do not")
		}
		runDifferential(t, data)
	})
}
