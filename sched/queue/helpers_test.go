package queue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// named returns an entry that costs one token and has no wishes; seq is its
// arrival order and, unless changed, its arrival.
func named(name string, seq uint64, change ...func(*Entry[string])) *Entry[string] {
	e := &Entry[string]{Value: name, Seq: seq, Arrival: int64(seq), Due: NoDue, Cost: 1}
	for _, c := range change {
		c(e)
	}
	return e
}

func cost(tokens int64) func(*Entry[string]) {
	return func(e *Entry[string]) { e.Cost = tokens }
}

func lane(key string) func(*Entry[string]) {
	return func(e *Entry[string]) { e.Lane = key }
}

func pinned(worker uint64, rank uint32) func(*Entry[string]) {
	return func(e *Entry[string]) {
		e.Lane = fmt.Sprintf("pin %d/%d", worker, rank)
		e.Scope = Scope{Pinned: true, Rank: lifecycle.RankID{Worker: worker, Rank: rank}}
	}
}

func allowed(workers ...uint64) func(*Entry[string]) {
	return func(e *Entry[string]) {
		e.Lane = fmt.Sprint("allowed ", workers)
		e.Scope = Scope{Workers: workers}
	}
}

func due(at int64) func(*Entry[string]) { return func(e *Entry[string]) { e.Due = at } }

// bench drives a queue of strings and knows which lanes are blocked.
type bench struct {
	*testing.T
	*Queue[string]
	now int64
	// blocked says until when a lane of a class, "class/lane", cannot run; the
	// lane "*" stands for all of the class.
	blocked map[string]int64
	// tested are the lanes that were looked at since the last call of looked.
	tested []string
	// asked are the lanes that a freed rank has asked, likewise.
	asked []string
	// only names the one rank that can serve a lane; untold: no rank can tell alone.
	only   map[string]RankID
	untold bool
}

func newBench(t *testing.T, specs ...ClassSpec) *bench {
	return &bench{T: t, Queue: New[string](specs), blocked: map[string]int64{}}
}

// quanta returns classes that differ in their quantum only.
func quanta(tokens ...int64) []ClassSpec {
	specs := make([]ClassSpec, len(tokens))
	for i, q := range tokens {
		specs[i].Quantum = q
	}
	return specs
}

func (b *bench) isBlocked(l *Lane[string]) (class, lane bool) {
	is := func(key string) bool { until, blocked := b.blocked[key]; return blocked && b.now < until }
	return is(fmt.Sprintf("%d/*", l.Class())), is(fmt.Sprintf("%d/%s", l.Class(), l.key))
}

// CanRun implements Ranks. A pinned lane that is blocked for a time has its rank
// watched.
func (b *bench) CanRun(l *Lane[string], budget *Budget) bool {
	name := fmt.Sprintf("%d/%s", l.Class(), l.key)
	b.tested = append(b.tested, name)
	class, lane := b.isBlocked(l)
	if until := b.blocked[name]; lane && until != math.MaxInt64 {
		b.Watch(l.scope.Rank, until)
	}
	return !class && !lane
}

// CanUse implements Ranks. A rank is busy for a class that is blocked, and not for
// a lane that is.
func (b *bench) CanUse(l *Lane[string], rank lifecycle.RankID) Use {
	b.asked = append(b.asked, fmt.Sprintf("%d/%s", l.Class(), l.key))
	class, lane := b.isBlocked(l)
	switch {
	case class:
		return Busy
	case lane || l.listed != nil && !slices.Contains(l.listed, rank.Worker):
		if b.untold {
			return Untold
		}
		return Unusable
	}
	if only, is := b.only[fmt.Sprintf("%d/%s", l.Class(), l.key)]; is && only != rank {
		return Unusable
	}
	if b.untold {
		return Untold
	}
	return Usable
}

// next is Next with a budget of plenty.
func (b *bench) next() *Entry[string] {
	b.Helper()
	budget := NewBudget(1 << 20)
	e, ok := b.Next(b.now, b, &budget)
	if !ok {
		b.Fatal("the budget was used up")
	}
	return e
}

// looked returns the lanes that were tested since it was last called.
func (b *bench) looked() string {
	s := strings.Join(b.tested, ", ")
	b.tested, b.asked = nil, nil
	return s
}

func (b *bench) block(key string) { b.blocked[key] = math.MaxInt64 }
func (b *bench) free(keys ...string) {
	for _, key := range keys {
		delete(b.blocked, key)
	}
	b.OpenAll()
}

// serve takes out the next one; "" if nobody can run.
func (b *bench) serve() string {
	b.Helper()
	e := b.next()
	if e == nil {
		return ""
	}
	b.Commit()
	if err := b.Check(); err != nil {
		b.Fatal(err)
	}
	if e.Queued() {
		b.Fatalf("%s is still queued", e.Value)
	}
	return e.Value
}

// serveAll takes out everyone who can run.
func (b *bench) serveAll() string {
	b.Helper()
	var served []string
	for {
		name := b.serve()
		if name == "" {
			return strings.Join(served, " ")
		}
		served = append(served, name)
	}
}

// round returns the classes in visiting order, each with its deficit and a star
// if it is on its visit.
func (b *bench) round() string { return roundOf(b.Queue) }

func roundOf[T any](q *Queue[T]) string {
	var parts []string
	for c, n := q.ring.head, 0; n < len(q.classes); c, n = c.after, n+1 {
		part := fmt.Sprintf("%c%d", 'A'+c.index, c.deficit)
		if c.onVisit {
			part += "*"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// expect serves once and compares who was served and how the round stands.
func (b *bench) expect(name, round string) {
	b.Helper()
	if got := b.serve(); got != name {
		b.Fatalf("served %q, want %q; the round: %s", got, name, b.round())
	}
	if got := b.round(); got != round {
		b.Fatalf("after %q the round is %q, want %q", name, got, round)
	}
}

// sortedList sorts what looked returned.
func sortedList(list string) string {
	parts := strings.Split(list, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
