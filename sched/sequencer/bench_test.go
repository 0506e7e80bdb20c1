package sequencer_test

import (
	"testing"

	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// nothing is an epoch in which there is nothing to do.
type nothing struct{}

func (nothing) Run() bool             { return false }
func (nothing) Heir() chan<- struct{} { return nil }

// BenchmarkTurn takes and gives up the turn: the cost of an epoch without work.
func BenchmarkTurn(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		var turn sequencer.Turn
		b.ReportAllocs()
		for b.Loop() {
			turn.Enter(nothing{})
		}
	})
	b.Run("parallel", func(b *testing.B) {
		var turn sequencer.Turn
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				turn.Enter(nothing{})
			}
		})
	})
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
