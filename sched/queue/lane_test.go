package queue

import (
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

func rank(worker uint64, rank uint32) lifecycle.RankID {
	return lifecycle.RankID{Worker: worker, Rank: rank}
}

func always(int) bool { return true }

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
	for _, e := range b.All() {
		if e.Lane == "a" {
			b.Remove(e)
		}
	}
	b.Add(0, named("d", 4, lane("a")))
	if b.serve(); b.looked() != "0/a" {
		t.Fatal("the new lane was not tested")
	}
}

func TestHintWakesTheLanesItConcerns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		hint lifecycle.RankID
		room func(class int) bool
		want string
	}{
		{"a rank with pins and lists", rank(1, 0), always, "0/, 0/allowed [1 2], 0/pin 1/0, 1/"},
		{"another rank of the worker", rank(1, 1), always, "0/, 0/allowed [1 2], 1/"},
		{"a worker in two lists", rank(2, 0), always, "0/, 0/allowed [1 2], 0/allowed [2 2 3], 1/"},
		{"a worker nobody names", rank(9, 0), always, "0/, 1/"},
		{"room for one class only", rank(1, 0), func(class int) bool { return class == 1 }, "1/"},
		{"room for no class", rank(1, 0), func(int) bool { return false }, ""},
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
			b.block("0/*")
			b.block("1/*")
			if got := b.serve(); got != "" {
				t.Fatalf("served %q", got)
			}
			b.looked()
			b.Unblock(test.hint, test.room)
			b.serve()
			if got := sortedList(b.looked()); got != test.want {
				t.Fatalf("tested %q, want %q", got, test.want)
			}
			// And all of them work when their time has come.
			b.free("0/*", "1/*")
			if b.serveAll(); b.Len() != 0 {
				t.Fatalf("%d were left", b.Len())
			}
			if w := &b.watch; len(w.pinned)+len(w.worker)+len(w.wide) != 0 {
				t.Fatalf("somebody still watches: %+v", w)
			}
		})
	}
}

func TestRetestInstants(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(100)...)
	b.Add(0, named("a", 1, lane("a")))
	b.Add(0, named("b", 2, lane("b")))
	b.Add(0, named("c", 3, lane("c")))
	b.blocked["0/a"], b.blocked["0/b"] = 20, 10
	b.block("0/c")
	if b.NextRetest() != NoDue {
		t.Fatal("an instant before anything was tested")
	}
	if got := b.serve(); got != "" || b.NextRetest() != 10 {
		t.Fatalf("served %q, next instant %d", got, b.NextRetest())
	}
	b.looked()
	b.now = 9
	b.UnblockDue(b.now)
	if b.serve(); b.tested != nil {
		t.Fatalf("tested %q too early", b.looked())
	}
	b.now = 10
	b.UnblockDue(b.now)
	if got := b.serveAll(); got != "b" || b.NextRetest() != 20 {
		t.Fatalf("served %q, next instant %d", got, b.NextRetest())
	}
	// The instant goes with the lane, and with a hint.
	b.Unblock(rank(1, 0), always)
	if b.NextRetest() != NoDue {
		t.Fatalf("next instant %d though all are to be tested", b.NextRetest())
	}
	if b.serve(); b.NextRetest() != 20 {
		t.Fatalf("next instant %d", b.NextRetest())
	}
	for _, e := range b.All() {
		b.Remove(e)
	}
	if b.NextRetest() != NoDue {
		t.Fatalf("next instant %d in an empty queue", b.NextRetest())
	}
}

func TestFirstStandsForTheLane(t *testing.T) {
	t.Parallel()
	b := newBench(t, quanta(100)...)
	b.Add(0, named("late", 2, lane("a")))
	b.Add(0, named("early", 1, lane("a")))
	e := b.Next(0, func(_ int, l *Lane[string]) (bool, int64) {
		if got := l.First().Lane; got != "a" {
			t.Errorf("the first is of lane %q", got)
		}
		return true, NoDue
	})
	if e.Value != "early" {
		t.Fatalf("next is %q", e.Value)
	}
}
