package queue

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// fill queues a request for each cost in a class; they are named a1, a2, …
func (b *bench) fill(class int, seq uint64, costs ...int64) {
	for i, c := range costs {
		name := fmt.Sprintf("%c%d", 'a'+class, i+1)
		b.Add(class, named(name, seq+uint64(i), cost(c)))
	}
}

// All of the figures below were worked out by hand from the rules.

func TestVisitsByDeficit(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10)...)
	b.fill(0, 1, 3, 3, 3, 3, 3)
	b.fill(1, 10, 4, 4, 4, 4)
	if got := b.round(); got != "A0 B0" {
		t.Fatal("at first the order is that of the profile: ", got)
	}
	b.expect("a1", "A7* B0") // 0+10−3
	b.expect("a2", "A4* B0")
	b.expect("a3", "A1* B0")
	b.expect("b1", "B6* A1") // a4 costs more than 1: the visit is over, A goes to the back
	b.expect("b2", "B2* A1")
	b.expect("a4", "A8* B2") // b3 costs more than 2; A has 1+10−3
	b.expect("a5", "B2 A0")  // and is empty: deficit 0, to the very back
}

func TestEmptyClassLosesItsDeficitWhenServed(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10)...)
	b.fill(0, 1, 3)
	b.fill(1, 10, 4, 4)
	b.expect("a1", "B0 A0")
	b.expect("b1", "B6* A0")
	b.expect("b2", "A0 B0")
}

func TestEmptyClassLosesItsDeficitWhenLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10)...)
	b.fill(0, 1, 3, 3)
	b.fill(1, 10, 4)
	b.expect("a1", "A7* B0")
	b.Remove(slices.Collect(b.All)[0]) // a2 leaves: no deficit, no visit, but the place is kept
	if got := b.round(); got != "A0 B0" {
		t.Fatalf("the round is %q", got)
	}
	b.fill(0, 20, 3)
	b.expect("a1", "B0 A0")
}

func TestServedClassWithNothingLeftGoesToTheBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(4, 4, 4)...)
	for class := range 3 {
		b.fill(class, uint64(10*class+1), 4, 4)
	}
	b.expect("a1", "B0 C0 A0")
	b.expect("b1", "C0 A0 B0")
	b.expect("c1", "A0 B0 C0")
	b.expect("a2", "B0 C0 A0")
}

func TestEmptyClassesArePassed(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10, 10)...)
	b.fill(1, 1, 4, 4)
	b.expect("b1", "B6* C0 A0") // A stood before B: behind all that stood after
	b.fill(0, 10, 1)
	b.fill(2, 20, 1)
	b.expect("b2", "C0 A0 B0")
	b.expect("c1", "A0 B0 C0")
	b.expect("a1", "B0 C0 A0")
}

// A class that is blocked keeps its place in front, its deficit and its visit.
func TestBlockedClassStaysInFront(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10, 10)...)
	b.fill(0, 1, 3, 3, 3)
	b.fill(1, 10, 10, 4, 4)
	b.fill(2, 20, 6, 6)
	b.expect("a1", "A7* B0 C0")
	b.block("0/*")
	b.expect("b1", "A7* C0 B0") // B served its whole deficit: to the very back
	b.expect("c1", "A7* C4* B0")
	b.block("2/*")
	b.expect("b2", "A7* C4* B6*") // both blocked, both stay in front
	b.free("0/*", "2/*")
	b.expect("a2", "A4* C4* B6*") // the first on a visit
	b.expect("a3", "C4* B6* A0")
	b.expect("b3", "A0 C4 B0") // c2 costs more than 4: C to the back; then B, the last on a visit, empties
	b.expect("c2", "B0 A0 C0") // A, empty, is passed; C gets 4+10 and is emptied
}

// A blocked class earns nothing, in a round or in rounds that are made up for.
func TestBlockedClassEarnsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(5, 1)...)
	b.fill(0, 1, 50)
	b.fill(1, 10, 20, 20)
	b.block("0/*")
	b.expect("b1", "A0 B0")
	b.expect("b2", "A0 B0")
	b.free("0/*")
	b.expect("a1", "B0 A0")
}

// Nothing is affordable in a round: all get as many rounds as one of them needs.
func TestRoundsAreMadeUpFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(1, 10)...)
	b.fill(0, 1, 100, 1)
	b.fill(1, 10, 95, 1)
	// Round: A 1, B 10. A lacks 99 rounds, B ceil(85/10) = 9: A 10, B 100.
	b.expect("b1", "B5* A10")
	b.expect("b2", "A10 B0")
	// Round: A 11; it lacks 89 rounds more.
	b.expect("a1", "B0 A0")
	if b.Pending(0) != 1 {
		t.Fatal("a2 is gone")
	}
}

func TestRoundsMadeUpForServeTheFirstInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10, 3)...)
	b.fill(0, 1, 25, 1)
	b.fill(1, 10, 29, 1)
	b.fill(2, 20, 100, 1)
	// Round: 10 10 3. Both A and B need 2 more: 30 30 9. A stands first.
	b.expect("a1", "A5* B30 C9")
	b.expect("a2", "B30 C9 A0")
	b.expect("b1", "B1* C9 A0") // affordable: nothing is added
}

func TestVisitsThatEndTogetherGoToTheBackInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10, 10)...)
	b.fill(0, 1, 2, 20)
	b.fill(1, 10, 3, 20)
	b.fill(2, 20, 4, 20)
	b.expect("a1", "A8* B0 C0")
	b.block("0/*")
	b.expect("b1", "A8* B7* C0")
	b.block("1/*")
	b.expect("c1", "A8* B7* C6*")
	b.free("0/*", "1/*")
	// Each has something dear now: the visits end one after the other. Then the
	// round: A 18, B 17, C 16; one more for each: 28 27 26.
	b.expect("a2", "B27 C26 A0")
}

// The dear one's class waits its turn and is not passed for ever by cheap ones.
func TestDearRequestIsServedInItsTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(1, 1)...)
	b.fill(0, 1, 5)
	b.fill(1, 10, 1, 1, 1, 1, 1, 1, 1, 1)
	order := b.serveAll()
	// One token each a round: four cheap ones, then the fifth round is A's.
	if want := "b1 b2 b3 b4 a1 b5 b6 b7 b8"; order != want {
		t.Fatalf("served %q, want %q", order, want)
	}
}

func TestQuantaOfAllSizes(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(0, math.MaxInt64)...)
	b.fill(0, 1, math.MaxInt64, math.MaxInt64)
	b.fill(1, 10, math.MaxInt64, 1)
	b.expect("b1", "A1 B0")
	b.expect("b2", "A2 B0")
	// A quantum of 0 counts as 1, and deficits do not run over.
	b.expect("a1", "B0 A0")
	b.expect("a2", "B0 A0")
}

func TestNextChangesNothingUntilCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(10, 10, 3)...)
	b.fill(0, 1, 12, 30)
	b.fill(1, 10, 25)
	b.fill(2, 20, 100)
	b.block("1/*")
	for b.Len() > 1 {
		round, length := b.round(), b.Len()
		var next *Entry[string]
		for range 3 {
			e := b.next()
			if next != nil && e != next {
				t.Fatalf("next is %q, and then %q", next.Value, e.Value)
			}
			next = e
			if b.round() != round || b.Len() != length || !e.Queued() {
				t.Fatalf("the round went from %q to %q", round, b.round())
			}
		}
		b.Commit()
		if b.round() == round {
			t.Fatalf("served, and the round is still %q", round)
		}
	}
	if e := b.next(); e != nil || b.Len() != 1 {
		t.Fatalf("%q is next, though blocked", e.Value)
	}
}

func TestEmptyQueueHasNoNext(t *testing.T) {
	t.Parallel()
	for _, specs := range [][]ClassSpec{nil, quanta(1), quanta(1, 2)} {
		b := newBench(t, specs...)
		if e := b.next(); e != nil || b.tested != nil {
			t.Fatalf("next is %v", e)
		}
	}
}

// In the steady state, a lane that never runs empty, nothing is allocated.
func TestQueueAllocatesNothing(t *testing.T) {
	q := New[string]([]ClassSpec{{Quantum: 10}, {Quantum: 7, Order: WSPT, MaxAge: 50}})
	workers := []uint64{1, 2}
	seq := uint64(0)
	add := func(e *Entry[string], i int) {
		seq++
		*e = Entry[string]{Seq: seq, Arrival: int64(seq), Due: int64(seq) + 1000, Cost: 1 + int64(i%9)}
		if i%4 == 0 {
			e.Lane, e.Scope.Workers = "some", workers
		}
		q.Add(i%2, e)
	}
	for i := range 64 {
		add(new(Entry[string]), i)
	}
	ranks, budget := &sometimesBusy{}, new(Budget)
	step := 0
	if n := testing.AllocsPerRun(2000, func() {
		step++
		ranks.blocked = step%3 == 0
		*budget = NewBudget(plenty)
		e, _ := q.Next(int64(seq), ranks, budget)
		class := e.Class()
		q.Commit()
		add(e, class+2*(step%2))
		q.Remove(e)
		add(e, class+2*(step%2))
		q.Free(rank(2, 0))
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// sometimesBusy blocks class 1, or nobody.
type sometimesBusy struct{ blocked bool }

func (s *sometimesBusy) CanRun(l *Lane[string], _ *Budget) bool { return l.Class() == 0 || !s.blocked }

func (s *sometimesBusy) CanUse(l *Lane[string], _ RankID) Use {
	if l.Class() == 1 && s.blocked {
		return Busy
	}
	return Usable
}

// A grant deals with the classes that have waiters, however many have none.
func TestGrantDealsWithActiveClasses(t *testing.T) {
	t.Parallel()
	specs := make([]ClassSpec, 1000)
	for i := range specs {
		specs[i].Quantum = 10
	}
	b := newBench(t, specs...)
	for i := range uint64(20) {
		b.Add(int(400+200*(i%2)), named(fmt.Sprint(i), i+1, cost(7)))
	}
	b.Changed()
	for range 20 {
		if b.next() == nil {
			t.Fatal("no request is next")
		}
		if n := len(b.plan.at); n > 2 {
			t.Fatalf("%d classes were looked at", n)
		}
		b.Commit()
		if n := len(b.Changed()); n > 4 {
			t.Fatalf("%d deficits were noted", n)
		}
	}
}
