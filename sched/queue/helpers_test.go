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

func (b *bench) test(class int, l *Lane[string]) (bool, int64) {
	b.tested = append(b.tested, fmt.Sprintf("%d/%s", class, l.key))
	for _, key := range []string{fmt.Sprintf("%d/*", class), fmt.Sprintf("%d/%s", class, l.key)} {
		if until, blocked := b.blocked[key]; blocked && b.now < until {
			return false, until
		}
	}
	return true, NoDue
}

// looked returns the lanes that were tested since it was last called.
func (b *bench) looked() string {
	s := strings.Join(b.tested, ", ")
	b.tested = nil
	return s
}

func (b *bench) block(key string) { b.blocked[key] = math.MaxInt64 }
func (b *bench) free(keys ...string) {
	for _, key := range keys {
		delete(b.blocked, key)
	}
	b.UnblockAll()
}

// serve takes out the next one; "" if nobody can run.
func (b *bench) serve() string {
	b.Helper()
	e := b.Next(b.now, b.test)
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
	for _, class := range q.visiting {
		c := q.classes[class]
		part := fmt.Sprintf("%c%d", 'A'+class, c.deficit)
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
