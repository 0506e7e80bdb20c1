package queue

import (
	"math"
	"slices"
	"testing"
)

func TestOrderInAClass(t *testing.T) {
	t.Parallel()
	with := func(change func(*Entry[string])) func(*Entry[string]) { return change }
	priority := func(p uint32) func(*Entry[string]) { return func(e *Entry[string]) { e.Priority = p } }
	arrival := func(at int64) func(*Entry[string]) { return func(e *Entry[string]) { e.Arrival = at } }
	jump := func(ns int64) func(*Entry[string]) { return func(e *Entry[string]) { e.Jump = ns } }
	const second = int64(1e9)

	for _, test := range []struct {
		name string
		spec ClassSpec
		now  int64
		in   []*Entry[string]
		want string
	}{
		{
			name: "arrival order, when all else is equal",
			in:   []*Entry[string]{named("c", 3, arrival(7)), named("a", 1, arrival(7)), named("b", 2, arrival(7))},
			want: "a b c",
		},
		{
			name: "priority comes before due time and score",
			in:   []*Entry[string]{named("low", 1, priority(1), due(5), jump(second)), named("high", 2, priority(2))},
			want: "high low",
		},
		{
			name: "the highest priority there is",
			in:   []*Entry[string]{named("b", 1, priority(math.MaxUint32-1)), named("a", 2, priority(math.MaxUint32))},
			want: "a b",
		},
		{
			name: "priority comes before age",
			spec: ClassSpec{MaxAge: 10}, now: 1000,
			in:   []*Entry[string]{named("old", 1, arrival(0)), named("young", 2, arrival(999), priority(1))},
			want: "young old",
		},
		{
			name: "age counts from exactly the maximum",
			spec: ClassSpec{MaxAge: 10}, now: 100,
			in:   []*Entry[string]{named("due", 1, arrival(95), due(200)), named("aged", 2, arrival(90))},
			want: "aged due",
		},
		{
			name: "a nanosecond less is not of age",
			spec: ClassSpec{MaxAge: 10}, now: 99,
			in:   []*Entry[string]{named("due", 1, arrival(95), due(200)), named("young", 2, arrival(90))},
			want: "due young",
		},
		{
			name: "no maximum, nobody of age",
			spec: ClassSpec{Order: LCFS}, now: math.MaxInt64,
			in:   []*Entry[string]{named("a", 1, arrival(0)), named("b", 2, arrival(1))},
			want: "b a",
		},
		{
			name: "those of age go oldest first, whatever due time and score say",
			spec: ClassSpec{MaxAge: 10, Order: LCFS}, now: 100,
			in: []*Entry[string]{
				named("b", 2, arrival(80), due(101)), named("a", 1, arrival(70), jump(second)),
				named("c", 3, arrival(90), due(100)), named("young", 4, arrival(91), due(100)),
			},
			want: "a b c young",
		},
		{
			name: "those of age that came together go in arrival order",
			spec: ClassSpec{MaxAge: 10, Order: LCFS}, now: 100,
			in:   []*Entry[string]{named("b", 2, arrival(70), due(101)), named("a", 1, arrival(70))},
			want: "a b",
		},
		{
			name: "age within each priority",
			spec: ClassSpec{MaxAge: 10, Order: LCFS}, now: 100,
			in: []*Entry[string]{
				named("low old", 1, arrival(0)), named("high new", 2, arrival(99), priority(1)),
				named("high old", 3, arrival(5), priority(1)), named("low new", 4, arrival(98)),
				named("low older than new", 5, arrival(97)),
			},
			want: "high old high new low old low new low older than new",
		},
		{
			name: "earlier due time first, none last",
			in: []*Entry[string]{
				named("none", 1, jump(second)), named("later", 2, due(20), jump(second)), named("sooner", 3, due(10)),
			},
			want: "sooner later none",
		},
		{
			name: "score among equal due times",
			in:   []*Entry[string]{named("a", 1, due(10)), named("b", 2, due(10), jump(second))},
			want: "b a",
		},
		{
			name: "fcfs: a jump is worth as much waiting",
			in: []*Entry[string]{
				named("a", 1, arrival(0)), named("b", 2, arrival(10), jump(10)), named("c", 3, arrival(20), jump(21)),
				named("d", 4, arrival(30), jump(29)),
			},
			want: "c a b d",
		},
		{
			name: "fcfs saturates",
			in: []*Entry[string]{
				named("b", 2, arrival(-9), jump(math.MaxInt64-1)), named("a", 1, arrival(-5), jump(math.MaxInt64)),
				named("c", 3, arrival(1), jump(math.MaxInt64)),
			},
			want: "a b c",
		},
		{
			name: "lcfs: the latest first, a jump counts as later",
			spec: ClassSpec{Order: LCFS},
			in: []*Entry[string]{
				named("a", 1, arrival(0)), named("b", 2, arrival(10), jump(11)), named("c", 3, arrival(20)),
				named("d", 4, arrival(20)),
			},
			want: "b c d a",
		},
		{
			name: "lcfs saturates",
			spec: ClassSpec{Order: LCFS},
			in: []*Entry[string]{
				named("b", 2, arrival(100), jump(math.MaxInt64)), named("a", 1, arrival(5), jump(math.MaxInt64-5)),
				named("c", 3, arrival(1), jump(math.MaxInt64-2)),
			},
			want: "a b c",
		},
		{
			name: "wspt: cheap first, a jump weighs as much as a second for each",
			spec: ClassSpec{Order: WSPT},
			in: []*Entry[string]{
				named("dear", 1, cost(100)), named("cheap", 2, cost(10)), named("pushed", 3, cost(100), jump(10*second)),
			},
			want: "pushed cheap dear",
		},
		{
			name: "wspt: the exact ratio decides, not its whole part",
			spec: ClassSpec{Order: WSPT},
			in: []*Entry[string]{
				named("a", 1, cost(second)), named("b", 2, cost(second), jump(second/2)),
				named("c", 3, cost(2*second), jump(second)),
			},
			want: "b a c",
		},
		{
			name: "wspt saturates",
			spec: ClassSpec{Order: WSPT},
			in: []*Entry[string]{
				named("b", 2, cost(3), jump(math.MaxInt64)), named("a", 1, cost(3), jump(math.MaxInt64-second)),
				named("c", 3, cost(4), jump(math.MaxInt64)),
			},
			want: "a b c",
		},
		{
			name: "wspt: a cost below a token counts as one",
			spec: ClassSpec{Order: WSPT},
			in:   []*Entry[string]{named("b", 2, cost(0)), named("a", 1, cost(1))},
			want: "a b",
		},
		{
			name: "the order holds across lanes",
			in: []*Entry[string]{
				named("c", 3, lane("x")), named("a", 1, lane("y")), named("d", 4, lane("x")), named("b", 2, with(lane("z"))),
			},
			want: "a b c d",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.spec.Quantum = 1 << 40
			b := newBench(t, test.spec)
			b.now = test.now
			for _, e := range test.in {
				b.Add(0, e)
				if !e.Queued() || e.Class() != 0 {
					t.Fatalf("%s: queued: %t, class %d", e.Value, e.Queued(), e.Class())
				}
			}
			if got := b.serveAll(); got != test.want {
				t.Fatalf("served %q, want %q", got, test.want)
			}
		})
	}
}

func TestSaturation(t *testing.T) {
	t.Parallel()
	const lowest, highest = math.MinInt64, math.MaxInt64
	for _, test := range []struct{ a, b, sum int64 }{
		{1, 2, 3}, {-1, 2, 1}, {highest, 0, highest}, {highest, 1, highest}, {highest, highest, highest},
		{lowest, 0, lowest}, {lowest, -1, lowest}, {lowest, lowest, lowest}, {lowest, highest, -1}, {highest, -1, highest - 1},
	} {
		if got := addSaturating(test.a, test.b); got != test.sum {
			t.Errorf("%d + %d = %d, want %d", test.a, test.b, got, test.sum)
		}
	}
	for _, test := range []struct{ a, b, product int64 }{
		{0, highest, 0}, {highest, 0, 0}, {3, 4, 12}, {highest, 1, highest}, {1, highest, highest},
		{2, highest/2 + 1, highest}, {2, highest / 2, highest - 1}, {highest, highest, highest},
	} {
		if got := mulSaturating(test.a, test.b); got != test.product {
			t.Errorf("%d · %d = %d, want %d", test.a, test.b, got, test.product)
		}
	}
}

func TestDueTimes(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(1, 1)...)
	if b.NextDue() != NoDue || b.Overdue(math.MaxInt64, 9) != nil {
		t.Fatal("somebody is due in an empty queue")
	}
	b.Add(0, named("never", 1))
	b.Add(1, named("last", 5, due(30)))
	b.Add(0, named("second", 3, due(20), lane("x")))
	b.Add(1, named("first", 2, due(10)))
	b.Add(0, named("with it", 4, due(10)))
	if b.NextDue() != 10 || b.Overdue(9, 9) != nil {
		t.Fatalf("the next is due at %d", b.NextDue())
	}
	names := func(entries []*Entry[string]) (s string) {
		for _, e := range entries {
			s += e.Value + " "
		}
		return s
	}
	if got := names(b.Overdue(20, 9)); got != "first second with it " {
		t.Fatalf("overdue in arrival order: %q", got)
	}
	if got := names(slices.Collect(b.All)); got != "never first second with it last " {
		t.Fatalf("all in arrival order: %q", got)
	}
	// Of too many, those that were due first.
	if got := names(b.Overdue(20, 2)); got != "first with it " {
		t.Fatalf("two of the overdue: %q", got)
	}
	seen := 0
	for e := range b.All {
		if seen++; e == nil || seen == 3 {
			break
		}
	}
	if seen != 3 {
		t.Fatalf("the walk went on for %d", seen)
	}
	for _, e := range b.Overdue(20, 9) {
		b.Remove(e)
		b.Remove(e) // a second time changes nothing
	}
	if b.NextDue() != 30 || b.Len() != 2 || b.Pending(0) != 1 || b.Pending(1) != 1 {
		t.Fatalf("next due %d, %d wait", b.NextDue(), b.Len())
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
}

// Of very many that are due, those that were due first are given piece by piece.
func TestOverdueInPieces(t *testing.T) {
	t.Parallel()
	const entries, most = 300, 7
	b := newBench(t, quanta(1)...)
	for i := range entries {
		b.Add(0, named("", uint64(i+1), due(int64(i*7919%entries))))
	}
	for served := 0; served < entries; {
		piece := b.Overdue(entries, most)
		if len(piece) != min(most, entries-served) {
			t.Fatalf("%d at once after %d", len(piece), served)
		}
		for i, e := range piece {
			if e.Due < int64(served) || e.Due >= int64(served+len(piece)) {
				t.Fatalf("due at %d, given after %d", e.Due, served)
			}
			if i > 0 && piece[i-1].Seq > e.Seq {
				t.Fatal("not in arrival order")
			}
		}
		if err := b.Check(); err != nil {
			t.Fatal(err)
		}
		for _, e := range piece {
			b.Remove(e)
		}
		served += len(piece)
	}
}
