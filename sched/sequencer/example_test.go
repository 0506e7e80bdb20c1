package sequencer_test

import (
	"fmt"

	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// counterDesk serves whoever has drawn a ticket, on the goroutine of a caller.
type counterDesk struct {
	turn     sequencer.Turn
	arrivals sequencer.Arrivals[string]
}

// Run is one epoch; only the holder of the turn is here.
func (d *counterDesk) Run() (more bool) {
	for _, name := range d.arrivals.Detach(nil) {
		fmt.Println("serving", name)
	}
	return false
}

// Heir is asked when there is more work than one caller should do.
func (d *counterDesk) Heir() chan<- struct{} { return nil }

func ExampleTurn() {
	var desk counterDesk
	// Publish first, then enter: whoever has the turn sees it.
	desk.arrivals.Push(&sequencer.Ticket[string]{Value: "ada"})
	desk.arrivals.Push(&sequencer.Ticket[string]{Value: "bob"})
	desk.turn.Enter(&desk)
	fmt.Println("idle:", desk.turn.Idle())
	// Output:
	// serving ada
	// serving bob
	// idle: true
}
