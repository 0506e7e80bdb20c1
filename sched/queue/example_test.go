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
	anyLane := func(int, *queue.Lane[string]) (bool, int64) { return true, queue.NoDue }
	for e := q.Next(0, anyLane); e != nil; e = q.Next(0, anyLane) {
		q.Commit() // it was booked; without this nothing has happened
		fmt.Print(e.Value, " ")
	}
	// Output: chat chat chat batch chat batch batch batch
}

// A lane that cannot run holds up no other, and is tested again only when
// something may have changed for it.
func ExampleQueue_Unblock() {
	q := queue.New[string]([]queue.ClassSpec{{Quantum: 1}})
	pin := queue.Scope{Pinned: true}
	pin.Rank.Worker = 7
	q.Add(0, &queue.Entry[string]{Value: "pinned", Seq: 1, Due: queue.NoDue, Cost: 1, Lane: "pin 7/0", Scope: pin})
	q.Add(0, &queue.Entry[string]{Value: "any", Seq: 2, Due: queue.NoDue, Cost: 1})

	busy := true
	test := func(_ int, lane *queue.Lane[string]) (bool, int64) {
		return !busy || !lane.First().Scope.Pinned, queue.NoDue
	}
	serve := func() {
		if e := q.Next(0, test); e != nil {
			q.Commit()
			fmt.Println(e.Value)
		} else {
			fmt.Println("nobody")
		}
	}
	serve()
	serve()
	busy = false
	serve()
	q.Unblock(pin.Rank, func(class int) bool { return true })
	serve()
	// Output:
	// any
	// nobody
	// nobody
	// pinned
}
