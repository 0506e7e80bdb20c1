package queue_test

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched/queue"
)

// Two classes share what is freed by their quanta, in tokens: three to one.
func ExampleQueue() {
	q := queue.New[string]([]queue.ClassSpec{{Quantum: 300}, {Quantum: 100}})
	for i := range uint64(4) {
		q.Add(0, &queue.Entry[string]{Value: "chat", Seq: i, Due: queue.NoDue, Cost: 100})
		q.Add(1, &queue.Entry[string]{Value: "batch", Seq: 10 + i, Due: queue.NoDue, Cost: 100})
	}
	budget := queue.NewBudget(1_000_000)
	for {
		e, _ := q.Next(0, idle{}, &budget)
		if e == nil {
			break
		}
		q.Commit() // it was booked; without this nothing has happened
		fmt.Print(e.Value, " ")
	}
	// Output: chat chat chat batch chat batch batch batch
}

// idle says that every lane can run.
type idle struct{}

func (idle) CanRun(*queue.Lane[string], *queue.Budget) bool     { return true }
func (idle) CanUse(*queue.Lane[string], queue.RankID) queue.Use { return queue.Usable }

// pinnedIs says that a pinned lane can run, or not, and every other can.
type pinnedIs bool

func (p pinnedIs) CanRun(l *queue.Lane[string], _ *queue.Budget) bool {
	return !l.First().Scope.Pinned || bool(p)
}

func (p pinnedIs) CanUse(l *queue.Lane[string], _ queue.RankID) queue.Use {
	if l.First().Scope.Pinned && !bool(p) {
		return queue.Busy
	}
	return queue.Usable
}

// A lane that cannot run holds up no other, and is asked again only by a rank that
// it may use.
func ExampleQueue_Free() {
	q := queue.New[string]([]queue.ClassSpec{{Quantum: 1}})
	pin := queue.Scope{Pinned: true}
	pin.Rank.Worker = 7
	q.Add(0, &queue.Entry[string]{Value: "pinned", Seq: 1, Due: queue.NoDue, Cost: 1, Lane: "pin 7/0", Scope: pin})
	q.Add(0, &queue.Entry[string]{Value: "any", Seq: 2, Due: queue.NoDue, Cost: 1})

	serve := func(ranks queue.Ranks[string]) {
		budget := queue.NewBudget(1_000_000)
		if e, _ := q.Next(0, ranks, &budget); e != nil {
			q.Commit()
			fmt.Println(e.Value)
		} else {
			fmt.Println("nobody")
		}
	}
	serve(pinnedIs(false))
	serve(pinnedIs(false))
	serve(pinnedIs(true)) // it was not told that anything has changed
	q.Free(pin.Rank)
	serve(pinnedIs(true))
	// Output:
	// any
	// nobody
	// nobody
	// pinned
}
