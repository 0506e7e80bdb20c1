package sequencer_test

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// counterDesk serves whoever has drawn a ticket, on the goroutine of a caller.
type counterDesk struct {
	turn     sequencer.Turn
	arrivals sequencer.Arrivals[string]
	line     []string // guarded by the turn
	rested   chan struct{}
}

// Run is one epoch; only the holder of the turn is here. Serving one costs one of
// the allowance, and no more are served than it is for.
func (d *counterDesk) Run(allowance int) (left int, more bool) {
	d.line = d.arrivals.Detach(d.line)
	for len(d.line) > 0 && allowance > 0 {
		fmt.Println("serving", d.line[0])
		d.line = d.line[1:]
		allowance--
	}
	return allowance, len(d.line) > 0
}

// Broke puts right what an epoch left that panicked: the one it was for is gone.
func (d *counterDesk) Broke(any) { d.line = d.line[1:] }

// Rest is the last thing that a helper does.
func (d *counterDesk) Rest() { close(d.rested) }

func ExampleTurn() {
	desk := counterDesk{rested: make(chan struct{})}
	// Publish first, then enter: whoever has the turn sees it.
	desk.arrivals.Push(&sequencer.Ticket[string]{Value: "ada"})
	desk.arrivals.Push(&sequencer.Ticket[string]{Value: "bob"})
	desk.turn.Enter(&desk, 10)
	fmt.Println("idle:", desk.turn.Idle())
	// A caller with little to give serves one; a helper comes for the others.
	desk.arrivals.Push(&sequencer.Ticket[string]{Value: "cleo"})
	desk.arrivals.Push(&sequencer.Ticket[string]{Value: "dan"})
	desk.turn.Enter(&desk, 1)
	<-desk.rested
	fmt.Println("idle:", desk.turn.Idle(), "epochs by helpers:", desk.turn.Helped())
	// Output:
	// serving ada
	// serving bob
	// idle: true
	// serving cleo
	// serving dan
	// idle: true epochs by helpers: 1
}
