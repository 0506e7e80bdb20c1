package sequencer

import (
	"sync"
	"testing"
)

// An heir that looks at once finds the turn free to take.
func TestHeirIsWokenWhenTheTurnCanBeTaken(t *testing.T) {
	t.Parallel()
	for range 2000 {
		var turn Turn
		token := make(chan struct{}, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			<-token
			if word := turn.word.Load(); word != turnRequired {
				t.Errorf("woken while the word is %d", word)
			}
		})
		turn.Enter(&epochs{run: func() bool { return true }, heir: func() chan<- struct{} { return token }})
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}

// Whoever pushes at the same time is on the stack.
func TestNoArrivalIsLost(t *testing.T) {
	t.Parallel()
	const pushers, each = 4, 20
	for range 200 {
		var a Arrivals[int]
		var wg sync.WaitGroup
		for p := range pushers {
			wg.Go(func() {
				for i := range each {
					push(&a, p*each+i)
				}
			})
		}
		wg.Wait()
		if got := len(a.Detach(nil)); got != pushers*each {
			t.Fatalf("%d of %d are left", got, pushers*each)
		}
	}
}
