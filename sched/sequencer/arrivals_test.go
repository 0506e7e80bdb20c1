package sequencer

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

func push(a *Arrivals[int], values ...int) {
	for _, v := range values {
		a.Push(&Ticket[int]{Value: v})
	}
}

func TestDetachGivesTicketsInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	var a Arrivals[int]
	if !a.Empty() || len(a.Detach(nil)) != 0 {
		t.Fatal("a new stack is not empty")
	}
	push(&a, 1, 2, 3)
	if a.Empty() {
		t.Fatal("empty after a push")
	}
	got := a.Detach([]int{-1, 0})
	if want := []int{-1, 0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if !a.Empty() {
		t.Fatal("not empty after a detach")
	}
	push(&a, 4)
	if got := a.Detach(nil); !slices.Equal(got, []int{4}) {
		t.Fatalf("got %v", got)
	}
}

func TestTicketsCanBeUsedAgainAfterDetach(t *testing.T) {
	t.Parallel()
	var a Arrivals[int]
	tickets := [3]Ticket[int]{{Value: 0}, {Value: 1}, {Value: 2}}
	// In another order each time: a link that outlived the detach would show.
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1}, {1, 2}, {0, 2, 1}} {
		for _, i := range order {
			a.Push(&tickets[i])
		}
		if got := a.Detach(nil); !slices.Equal(got, order) {
			t.Fatalf("got %v, want %v", got, order)
		}
		for i := range tickets {
			if tickets[i].next != nil {
				t.Fatalf("ticket %d still holds on to another", i)
			}
		}
	}
}

// Take gives all that were pushed, the last first, and Next lets go of each.
func TestTakenTicketsCanBeReadOnceAndUsedAgain(t *testing.T) {
	t.Parallel()
	var a Arrivals[int]
	if a.Take() != nil {
		t.Fatal("a new stack is not empty")
	}
	tickets := [3]Ticket[int]{{Value: 0}, {Value: 1}, {Value: 2}}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1}, {1, 2}, {0, 2, 1}} {
		for _, i := range order {
			a.Push(&tickets[i])
		}
		first := a.Take()
		if !a.Empty() {
			t.Fatal("not empty after it was taken")
		}
		if last := order[len(order)-1]; first != &tickets[last] {
			t.Fatalf("ticket %d is first, want the last that was pushed, %d", first.Value, last)
		}
		var got []int
		for ticket := first; ticket != nil; {
			next := ticket.Next()
			if ticket.next != nil {
				t.Fatalf("ticket %d still holds on to another", ticket.Value)
			}
			got = append(got, ticket.Value)
			if ticket = next; len(got) > len(order) {
				t.Fatalf("got %v, want what was pushed: %v", got, order)
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(order)); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// A ticket can be pushed again as soon as Next has let go of it, while those after
// it are still being read.
func TestTicketCanBePushedWhileTheOthersAreRead(t *testing.T) {
	t.Parallel()
	var a Arrivals[int]
	push(&a, 1, 2, 3)
	sum, n := 0, 0
	for ticket := a.Take(); ticket != nil; n++ {
		next := ticket.Next()
		sum += ticket.Value
		ticket.Value *= 10
		a.Push(ticket)
		ticket = next
	}
	if again := a.Detach(nil); n != 3 || sum != 6 || !slices.Equal(again, []int{30, 20, 10}) {
		t.Fatalf("%d read, sum %d, pushed again: %v", n, sum, again)
	}
}

func TestArrivalsAllocateNothing(t *testing.T) {
	var a Arrivals[int]
	tickets := make([]Ticket[int], 16)
	dst := make([]int, 0, len(tickets))
	if n := testing.AllocsPerRun(100, func() {
		for i := range tickets {
			a.Push(&tickets[i])
		}
		dst = a.Detach(dst[:0])
		for i := range tickets {
			a.Push(&tickets[i])
		}
		for ticket := a.Take(); ticket != nil; {
			ticket = ticket.Next()
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// Every value comes out once, and those of one goroutine in the order in which it
// pushed them. Tickets are used again as soon as they are back.
func TestArrivalsUnderHammering(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		const pushers, inFlight = 6, 4
		n := rounds(t, 40_000)
		type value struct {
			pusher, number int
			ticket         *Ticket[value]
		}
		var a Arrivals[value]
		var back [pushers]chan *Ticket[value]
		var wg sync.WaitGroup
		for p := range pushers {
			back[p] = make(chan *Ticket[value], inFlight)
			for range inFlight {
				back[p] <- new(Ticket[value])
			}
			wg.Go(func() {
				for i := range n {
					ticket := <-back[p]
					ticket.Value = value{p, i, ticket}
					a.Push(ticket)
				}
			})
		}
		var next [pushers]int
		wg.Go(func() {
			var got []value
			for left := pushers * n; left > 0; left -= len(got) {
				if a.Empty() {
					runtime.Gosched()
				}
				got = a.Detach(got[:0])
				for _, v := range got {
					if v.number != next[v.pusher] {
						t.Errorf("pusher %d: number %d came when %d was due", v.pusher, v.number, next[v.pusher])
					}
					next[v.pusher] = v.number + 1
					back[v.pusher] <- v.ticket
				}
			}
		})
		inTime(t, &wg, func() string { return fmt.Sprint("numbers due: ", next) })
		if !a.Empty() {
			t.Fatal("something came twice")
		}
	})
}
