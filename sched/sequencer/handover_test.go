package sequencer

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Whoever hands over meets a helper that comes, goes or works: when all have come
// to rest, nothing is left. A bubble knows when that is, without a clock.
func TestHandOverMeetsHelpers(t *testing.T) {
	t.Parallel()
	rounds := rounds(t, 4_000)
	for range rounds {
		synctest.Test(t, func(t *testing.T) {
			var turn Turn
			var work atomic.Int64
			e := &epochs{run: func(allowance int) (int, bool) {
				if work.Load() > 0 {
					work.Add(-1)
				}
				return allowance - 1, work.Load() > 0
			}}
			for range 3 {
				go func() {
					for range 3 {
						work.Add(2)
						turn.Enter(e, 1)
					}
				}()
			}
			synctest.Wait()
			if !turn.Idle() || work.Load() != 0 {
				t.Fatalf("work left: %d, word %d, a helper on its way: %t", work.Load(), turn.word.Load(), turn.onWay.Load())
			}
		})
		if t.Failed() {
			return
		}
	}
}

const pushers, each = 4, 20

// pushAtOnce has each of the pushers push so many.
func pushAtOnce(a *Arrivals[int]) *sync.WaitGroup {
	var wg sync.WaitGroup
	for p := range pushers {
		wg.Go(func() {
			for i := range each {
				push(a, p*each+i)
			}
		})
	}
	return &wg
}

// Whoever pushes at the same time is on the stack.
func TestNoArrivalIsLost(t *testing.T) {
	t.Parallel()
	for range 200 {
		var a Arrivals[int]
		wg := pushAtOnce(&a)
		wg.Wait()
		if got := len(a.Detach(nil)); got != pushers*each {
			t.Fatalf("%d of %d are left", got, pushers*each)
		}
	}
}

// Who pushes while others are taken comes with the next take.
func TestTakeLosesNoArrival(t *testing.T) {
	t.Parallel()
	for range 200 {
		var a Arrivals[int]
		wg := pushAtOnce(&a)
		got := 0
		take := func() {
			for ticket := a.Take(); ticket != nil; ticket = ticket.Next() {
				got++
			}
		}
		for range each {
			take()
			runtime.Gosched()
		}
		wg.Wait()
		if take(); got != pushers*each {
			t.Fatalf("%d of %d were taken", got, pushers*each)
		}
	}
}
