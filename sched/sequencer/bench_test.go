package sequencer_test

import (
	"runtime"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// nothing is an epoch in which there is nothing to do.
type nothing struct{}

func (nothing) Run(allowance int) (int, bool) { return allowance, false }
func (nothing) Broke(any)                     {}
func (nothing) Rest()                         {}

// halves is work of two epochs at a time, of which a caller without an allowance
// does one.
type halves struct {
	nothing
	left int
}

func (h *halves) Run(allowance int) (int, bool) {
	if h.left == 0 {
		h.left = 2
	}
	h.left--
	return allowance, h.left > 0
}

// BenchmarkTurn takes and gives up the turn: the cost of an epoch without work.
func BenchmarkTurn(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		var turn sequencer.Turn
		b.ReportAllocs()
		for b.Loop() {
			turn.Enter(nothing{}, 1)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var turn sequencer.Turn
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				turn.Enter(nothing{}, 1)
			}
		})
	})
}

// BenchmarkHandOver hands the turn over and waits until the helper has given it up:
// what a helper costs that has little to do.
func BenchmarkHandOver(b *testing.B) {
	var turn sequencer.Turn
	var h halves
	b.ReportAllocs()
	for b.Loop() {
		turn.Enter(&h, 0)
		for !turn.Idle() {
			runtime.Gosched()
		}
	}
}

// BenchmarkArrivals pushes and detaches tickets.
func BenchmarkArrivals(b *testing.B) {
	b.Run("push+detach", func(b *testing.B) {
		var a sequencer.Arrivals[int]
		t := &sequencer.Ticket[int]{}
		var got []int
		b.ReportAllocs()
		for b.Loop() {
			a.Push(t)
			got = a.Detach(got[:0])
		}
	})
	b.Run("push×64+take", func(b *testing.B) {
		var a sequencer.Arrivals[int]
		tickets := make([]sequencer.Ticket[int], 64)
		b.ReportAllocs()
		for b.Loop() {
			for i := range tickets {
				a.Push(&tickets[i])
			}
			for t := a.Take(); t != nil; {
				t = t.Next()
			}
		}
	})
	b.Run("push×64+detach", func(b *testing.B) {
		var a sequencer.Arrivals[int]
		tickets := make([]sequencer.Ticket[int], 64)
		var got []int
		b.ReportAllocs()
		for b.Loop() {
			for i := range tickets {
				a.Push(&tickets[i])
			}
			got = a.Detach(got[:0])
		}
	})
}

// BenchmarkWake wakes a waiter that has its token already, and one that has not.
func BenchmarkWake(b *testing.B) {
	waiter := make(chan struct{}, 1)
	b.Run("token", func(b *testing.B) {
		for b.Loop() {
			sequencer.Wake(waiter)
			<-waiter
		}
	})
	b.Run("again", func(b *testing.B) {
		sequencer.Wake(waiter)
		for b.Loop() {
			sequencer.Wake(waiter)
		}
	})
}
