package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func rank(worker uint64, rank uint32) lifecycle.RankID {
	return lifecycle.RankID{Worker: worker, Rank: rank}
}

func TestBlockedLaneStopsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(100)...)
	b.Add(0, named("a1", 1, lane("a")))
	b.Add(0, named("b1", 2, lane("b")))
	b.Add(0, named("a2", 3, lane("a")))
	b.Add(0, named("c1", 4, lane("c")))
	b.block("0/a")
	if got := b.serveAll(); got != "b1 c1" {
		t.Fatalf("served %q", got)
	}
	b.free("0/a")
	if got := b.serveAll(); got != "a1 a2" {
		t.Fatalf("served %q", got)
	}
}

// Blocked lanes are not tested again and again: the price of a decision does not
// grow with their number.
func TestBlockedLaneIsTestedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(100)...)
	b.Add(0, named("a", 1, lane("a")))
	b.Add(0, named("b", 2, lane("b")))
	b.block("0/a")
	b.block("0/b")
	if b.serve(); b.looked() != "0/a, 0/b" {
		t.Fatal("not both were tested")
	}
	// Nor because somebody joins it, or a better one does.
	b.Add(0, named("c", 3, lane("a"), func(e *Entry[string]) { e.Priority = 1 }))
	if b.serve(); b.tested != nil {
		t.Fatalf("tested %s", b.looked())
	}
	// A lane that was emptied is another when it is made again.
	for _, e := range slices.Collect(b.All) {
		if e.Lane == "a" {
			b.Remove(e)
		}
	}
	b.Add(0, named("d", 4, lane("a")))
	if b.serve(); b.looked() != "0/a" {
		t.Fatal("the new lane was not tested")
	}
}

func TestFreedRankAsksTheLanesItConcerns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		rank lifecycle.RankID
		busy []string // the classes it is busy for
		want string
	}{
		{"a rank with pins and lists", rank(1, 0), []string{"0/x", "1/x"}, "0/, 0/allowed [1 2], 0/pin 1/0, 1/"},
		{"another rank of the worker", rank(1, 1), nil, "0/, 0/allowed [1 2], 1/"},
		{"a worker in two lists", rank(2, 0), nil, "0/, 0/allowed [1 2], 0/allowed [2 2 3], 1/"},
		{"a worker that no list names", rank(9, 0), nil, "0/, 1/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quanta(100, 100)...)
			b.Add(0, named("wide", 1))
			b.Add(0, named("pin", 2, pinned(1, 0)))
			b.Add(0, named("some", 3, allowed(1, 2)))
			b.Add(0, named("others", 4, allowed(2, 2, 3)))
			b.Add(0, named("nobody", 5, allowed([]uint64{}...)))
			b.Add(1, named("wide too", 6))
			for _, l := range []string{"0/", "0/pin 1/0", "0/allowed [1 2]", "0/allowed [2 2 3]", "0/allowed []", "1/"} {
				b.block(l) // each for a reason of its own, so that none can use the rank
			}
			if got := b.serve(); got != "" {
				t.Fatalf("served %q", got)
			}
			b.looked()
			b.Free(test.rank)
			b.serve()
			asked := slices.DeleteFunc(b.asked, func(lane string) bool { return lane == "0/allowed []" })
			if got := sortedList(strings.Join(asked, ", ")); got != test.want {
				t.Fatalf("asked %q, want %q", got, test.want)
			}
			if b.tested != nil {
				t.Fatalf("all ranks of %v were looked at", b.tested)
			}
			// And all of them work when their time has come.
			clear(b.blocked)
			b.OpenAll()
			if b.serveAll(); b.Len() != 0 {
				t.Fatalf("%d were left", b.Len())
			}
			for _, c := range b.classes {
				for _, f := range c.fronts {
					if !f.wide.lanes.empty() || !f.narrow.lanes.empty() || len(f.groups) != 0 {
						t.Fatal("lanes are still listed")
					}
				}
			}
		})
	}
}

// A rank that is busy for a class asks one of its lanes, and no more.
func TestBusyRankAsksNobodyElse(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(100)...)
	for i := range uint64(50) {
		b.Add(0, named(fmt.Sprint(i), i+1, lane(fmt.Sprint(i))))
	}
	b.block("0/*")
	b.serve()
	b.looked()
	b.Free(rank(1, 0))
	if got := b.serve(); got != "" || len(b.asked) != 1 || b.tested != nil {
		t.Fatalf("served %q, asked %v, tested %v", got, b.asked, b.tested)
	}
}

// One lane can use the freed rank, whatever waits besides: each lane before it is
// asked once, none behind it, and no lane looks at all its ranks.
func TestFreedRankAsksInOrderAndNoFurther(t *testing.T) {
	t.Parallel()
	const lanes, at = 4000, 3000
	b := newBench(t, quanta(100)...)
	for i := range uint64(lanes) {
		b.Add(0, named(fmt.Sprint(i), i+1, lane(fmt.Sprint(i))))
		b.block(fmt.Sprint("0/", i))
	}
	b.serve()
	b.looked()
	delete(b.blocked, fmt.Sprint("0/", at))
	b.Free(rank(1, 0))
	if got := b.next().Value; got != fmt.Sprint(at) {
		t.Fatalf("%q is next", got)
	}
	if len(b.asked) > at+2 || b.tested != nil {
		t.Fatalf("%d lanes were asked, %d looked at all their ranks", len(b.asked), len(b.tested))
	}
	b.block(fmt.Sprint("0/", at)) // the rank is taken
	b.block("0/*")
	b.looked()
	if b.serve(); len(b.asked) > 2 || b.tested != nil {
		t.Fatalf("once it is taken, %d lanes are asked", len(b.asked))
	}
}

// What a used-up budget leaves is gone on with, and not begun anew.
func TestRankGoesOnWhereTheBudgetEnded(t *testing.T) {
	t.Parallel()
	const lanes = 1000
	b := newBench(t, quanta(100)...)
	for i := range uint64(lanes) {
		b.Add(0, named(fmt.Sprint(i), i+1, lane(fmt.Sprint(i))))
		b.block(fmt.Sprint("0/", i))
	}
	b.serve()
	b.looked()
	delete(b.blocked, fmt.Sprint("0/", lanes-1))
	b.Free(rank(1, 0))
	for pieces := 0; ; pieces++ {
		budget := NewBudget(60)
		e, ok := b.Next(0, b, &budget)
		if ok {
			if e == nil || e.Value != fmt.Sprint(lanes-1) || pieces < lanes/20 || len(b.asked) > lanes+pieces+2 {
				t.Fatalf("%v is next after %d pieces and %d questions", e, pieces, len(b.asked))
			}
			return
		}
		if pieces > lanes {
			t.Fatal("the rank does not get ahead")
		}
	}
}

func TestWatchedRanks(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(100)...)
	b.Add(0, named("a", 1, pinned(1, 0)))
	b.Add(0, named("b", 2, pinned(2, 0)))
	b.Add(0, named("c", 3, pinned(3, 0)))
	b.blocked["0/pin 1/0"], b.blocked["0/pin 2/0"] = 20, 10
	b.block("0/pin 3/0")
	budget := NewBudget(1000)
	if b.NextFree() != NoDue {
		t.Fatal("an instant before anything was tested")
	}
	if got := b.serve(); got != "" || b.NextFree() != 10 {
		t.Fatalf("served %q, next instant %d", got, b.NextFree())
	}
	b.looked()
	b.now = 9
	b.FreeDue(b.now, &budget)
	if b.serve(); b.tested != nil || b.asked != nil {
		t.Fatalf("tested %q too early", b.looked())
	}
	b.now = 10
	b.FreeDue(b.now, &budget)
	if got := b.serveAll(); got != "b" || b.NextFree() != 20 {
		t.Fatalf("served %q, next instant %d", got, b.NextFree())
	}
	for _, e := range slices.Collect(b.All) {
		b.Remove(e)
	}
	if b.NextFree() != NoDue {
		t.Fatalf("next instant %d in an empty queue", b.NextFree())
	}
}

func TestFirstStandsForTheLane(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(100)...)
	b.Add(0, named("late", 2, lane("a")))
	b.Add(0, named("early", 1, lane("a")))
	if e := b.next(); e.Value != "early" || b.looked() != "0/a" {
		t.Fatalf("next is %q", e.Value)
	}
}

// In a class with a maximum age too, nobody stays on the way once all were asked.
func TestAsksByOrderEndWithThoseByAge(t *testing.T) {
	t.Parallel()
	b := newBench(t, ClassSpec{Quantum: 100, MaxAge: 10})
	b.Add(0, named("a", 1))
	b.block("0/*")
	for range 20 {
		b.Free(rank(1, 0))
		if got := b.serve(); got != "" || !b.quiet() {
			t.Fatalf("served %q, quiet: %t", got, b.quiet())
		}
	}
}
