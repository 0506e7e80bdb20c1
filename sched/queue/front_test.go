package queue

import (
	"fmt"
	"slices"
	"testing"
)

// lanesInOrder returns a queue of so many lanes, each with one request and blocked
// for a reason of its own.
func lanesInOrder(t *testing.T, lanes int) *bench {
	b := newBench(t, quanta(100)...)
	for i := range lanes {
		b.Add(0, named(fmt.Sprint(i), uint64(i+1), lane(fmt.Sprint(i))))
		b.block(fmt.Sprint("0/", i))
	}
	b.serve()
	b.looked()
	return b
}

// askSome lets the asks go on with a small budget, until so many more lanes were
// asked.
func (b *bench) askSome(lanes int) {
	b.Helper()
	for n := len(b.asked); len(b.asked) < n+lanes; {
		budget := NewBudget(CostLane + 1) // enough for one question
		if _, ok := b.Next(b.now, b, &budget); ok {
			b.Fatal("all were asked")
		}
	}
}

// A rank that comes up to one that is on the way goes on together with it: each asks
// each lane, once but for that where they met, and the first lane that either can
// serve goes first.
func TestRanksThatMeetGoOnTogether(t *testing.T) {
	t.Parallel()
	const lanes = 20
	b := lanesInOrder(t, lanes)
	for i := range uint64(3) {
		b.Free(rank(i+1, 0))
		b.askSome(4 + int(i))
	}
	if e := b.next(); e != nil {
		t.Fatalf("%s is next", e.Value)
	}
	for i := range lanes {
		name := fmt.Sprint("0/", i)
		if n := len(slices.DeleteFunc(slices.Clone(b.asked), func(s string) bool { return s != name })); n < 3 {
			t.Errorf("lane %d was asked %d times by 3 ranks", i, n)
		}
	}
	if n := len(b.asked); n > 3*lanes+3 {
		t.Errorf("%d lanes were asked %d times by 3 ranks", lanes, n)
	}

	// Only the rank ahead can serve 10, only the one behind 15.
	b.looked()
	b.Free(rank(1, 0))
	b.askSome(8)
	b.Free(rank(2, 0))
	b.only = map[string]RankID{"0/10": rank(1, 0), "0/15": rank(2, 0)}
	delete(b.blocked, "0/10")
	delete(b.blocked, "0/15")
	if got := b.serve(); got != "10" {
		t.Fatalf("served %q", got)
	}
	if got := b.serve(); got != "15" {
		t.Fatalf("served %q", got)
	}
}

// Whoever looks at every lane anew does so for the ranks it meets as well.
func TestRankIsMetByWhoOpensEveryLane(t *testing.T) {
	t.Parallel()
	b := lanesInOrder(t, 10)
	b.Free(rank(1, 0))
	b.askSome(3)
	b.OpenAll()
	delete(b.blocked, "0/8")
	if got := b.serveAll(); got != "8" {
		t.Fatalf("served %q", got)
	}
	if len(b.tested) != 10 || len(b.asked) > 4 {
		t.Fatalf("tested %v, asked %v", b.tested, b.asked)
	}
}

// A lane that comes to stand ahead of a rank on the way is not missed by it.
func TestLaneThatPassesARankOnTheWay(t *testing.T) {
	t.Parallel()
	b := lanesInOrder(t, 10)
	b.Free(rank(1, 0))
	b.askSome(6)
	delete(b.blocked, "0/8")
	b.Add(0, named("urgent", 100, lane("8"), func(e *Entry[string]) { e.Priority = 1 }))
	if got := b.serve(); got != "urgent" {
		t.Fatalf("served %q", got)
	}
	if got := b.serve(); got != "8" {
		t.Fatalf("served %q", got)
	}
}

// Nor is it missed by the other ranks on the way if one of them has opened it.
func TestOpenLaneThatPassesARankOnTheWay(t *testing.T) {
	t.Parallel()
	b := lanesInOrder(t, 2)
	b.Add(0, named("more", 50, lane("0")))
	b.only = map[string]RankID{"0/0": rank(1, 0)}
	clear(b.blocked)
	b.block("0/1")
	b.Free(rank(1, 0))
	b.Free(rank(2, 0))
	if got := b.serve(); got != "0" {
		t.Fatalf("served %q", got)
	}
	b.Add(0, named("urgent", 100, lane("0"), func(e *Entry[string]) { e.Priority = 1 }))
	b.only["0/0"] = rank(2, 0) // the other is taken
	if got := b.serve(); got != "urgent" {
		t.Fatalf("served %q", got)
	}
}

// When a lane goes in the middle of the questions of several ranks, all of them ask
// the next.
func TestAllRanksAskTheLaneAfterOneThatHasGone(t *testing.T) {
	t.Parallel()
	b := lanesInOrder(t, 2)
	b.only = map[string]RankID{"0/0": rank(2, 0), "0/1": rank(1, 0)}
	clear(b.blocked)
	b.Free(rank(1, 0))
	b.Free(rank(2, 0))
	if got := b.serveAll(); got != "0 1" {
		t.Fatalf("served %q", got)
	}
}

// If one rank is not enough to tell, all are looked at, once.
func TestRankThatCannotTell(t *testing.T) {
	t.Parallel()
	b := lanesInOrder(t, 5)
	b.untold = true
	b.Free(rank(1, 0))
	delete(b.blocked, "0/3")
	if got := b.serve(); got != "3" || b.looked() != "0/0, 0/1, 0/2, 0/3" {
		t.Fatalf("served %q", got)
	}
	if got := b.serve(); got != "" || b.looked() != "0/4" {
		t.Fatalf("served %q", got)
	}
}

func TestWatchKeepsTheEarliest(t *testing.T) {
	t.Parallel()
	b := lanesInOrder(t, 1)
	for _, at := range []int64{20, 10, 30} {
		b.Watch(rank(1, 0), at)
	}
	b.Watch(rank(2, 0), 25)
	if b.NextFree() != 10 {
		t.Fatalf("the next instant is %d", b.NextFree())
	}
	budget := NewBudget(plenty)
	if b.FreeDue(24, &budget); b.NextFree() != 25 {
		t.Fatalf("the next instant is %d", b.NextFree())
	}
}
