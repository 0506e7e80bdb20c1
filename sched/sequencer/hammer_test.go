package sequencer

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// atProcs runs a hammer at several values of GOMAXPROCS, on its own.
func atProcs(t *testing.T, hammer func(t *testing.T)) {
	for _, procs := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("%d procs", procs), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			hammer(t)
		})
	}
}

// inTime fails the test if the goroutines do not end; else it returns after them.
func inTime(t *testing.T, wg *sync.WaitGroup, state func() string) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("stuck: " + state())
	}
}

// atRest waits until the helpers have gone, and fails the test if they do not.
func atRest(t *testing.T, turn *Turn) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !turn.Idle(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("stuck: word %d, a helper on its way: %t", turn.word.Load(), turn.onWay.Load())
		}
	}
}

func rounds(t *testing.T, n int) int {
	if testing.Short() {
		return n / 20
	}
	return n
}

// Work is a number that grows; an epoch sees it as it is.
func TestTurnHasOneHolderAndLosesNoWork(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		const callers = 8
		n := rounds(t, 20_000)
		var turn Turn
		var published, seen, inside atomic.Int64
		plain := 0 // written by the holder only: the race detector is the judge
		e := &epochs{run: func(allowance int) (int, bool) {
			if inside.Add(1) != 1 {
				t.Error("two have the turn")
			}
			plain++
			now := published.Load()
			if plain%4 == 0 {
				runtime.Gosched() // with the turn: the others shall find it taken
			}
			if seen.Swap(now) > now {
				t.Error("an epoch saw less than the one before")
			}
			inside.Add(-1)
			return allowance - 1, false
		}}
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for range n {
					mine := published.Add(1)
					turn.Enter(e, c%3)
					// Either seen, or somebody has the turn and will run again.
					if seen.Load() < mine && turn.Idle() && seen.Load() < mine {
						t.Errorf("work %d is lost", mine)
						return
					}
				}
			})
		}
		inTime(t, &wg, func() string { return fmt.Sprint("word ", turn.word.Load()) })
		atRest(t, &turn)
		if seen.Load() != published.Load() || !turn.Idle() {
			t.Fatalf("seen %d of %d, idle: %t", seen.Load(), published.Load(), turn.Idle())
		}
		t.Logf("%d epochs for %d calls, %d by helpers", plain, callers*n, turn.Helped())
	})
}

// waiter is a request of the hammer below: granted by the holder, or left by its
// owner.
type waiter struct {
	arrival, leave Ticket[*waiter]
	state          atomic.Uint32
	wake           chan struct{}
}

// service grants a few requests an epoch, so that the turn is often handed over,
// and some of its epochs break.
type service struct {
	t                 *testing.T
	turn              Turn
	arrivals, leavers Arrivals[*waiter]
	backlog           []*waiter
	inside            atomic.Int64
	granted, epochs   int
	broken            int
	rests             atomic.Int64
}

func (s *service) Run(allowance int) (int, bool) {
	if s.inside.Add(1) != 1 {
		s.t.Error("two have the turn")
	}
	defer s.inside.Add(-1)
	s.epochs++
	s.backlog = s.arrivals.Detach(s.backlog)
	for leaver := s.leavers.Take(); leaver != nil; leaver = leaver.Next() {
		if leaver.Value.state.Load() != uint32(left) {
			s.t.Error("one who has not left is among the leavers")
		}
	}
	if s.epochs%2 == 0 {
		runtime.Gosched() // with the turn: the others shall find it taken
	}
	switch {
	case s.epochs%101 == 0:
		panic(errBroken)
	case s.epochs%7 == 0 && allowance == HelperAllowance:
		runtime.Goexit() // a caller is needed on
	}
	for range 2 {
		for len(s.backlog) > 0 {
			w := s.backlog[0]
			s.backlog = s.backlog[1:]
			if w.state.CompareAndSwap(uint32(waiting), uint32(granted)) {
				s.granted++
				Wake(w.wake)
				break
			}
		}
	}
	return allowance - 1, len(s.backlog) > 0
}

func (s *service) Broke(cause any) {
	s.broken++
	if cause != nil && cause != any(errBroken) {
		panic(cause)
	}
}

func (s *service) Rest() { s.rests.Add(1) }

// ask is one call from arrival to outcome; it reports whether it was granted.
func (s *service) ask(impatient bool, allowance int) bool {
	w := &waiter{wake: make(chan struct{}, 1)}
	w.arrival.Value, w.leave.Value = w, w
	s.arrivals.Push(&w.arrival)
	s.turn.Enter(s, allowance)
	if impatient && w.state.CompareAndSwap(uint32(waiting), uint32(left)) {
		s.leavers.Push(&w.leave)
		s.turn.Enter(s, allowance)
		return false
	}
	<-w.wake // one who waits does nothing for the others
	return true
}

func TestEveryWaiterIsAnsweredThoughOthersLeaveAndEpochsBreak(t *testing.T) {
	atProcs(t, func(t *testing.T) {
		const callers = 16
		n := rounds(t, 4_000)
		s := &service{t: t}
		var granted atomic.Int64
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(c), 1))
				for range n {
					if s.ask(rnd.IntN(3) == 0, rnd.IntN(3)) {
						granted.Add(1)
					}
				}
			})
		}
		inTime(t, &wg, func() string {
			return fmt.Sprintf("word %d, arrivals empty: %t", s.turn.word.Load(), s.arrivals.Empty())
		})
		atRest(t, &s.turn)
		if !s.arrivals.Empty() || !s.leavers.Empty() || len(s.backlog) != 0 {
			t.Fatalf("left behind: word %d, backlog %d", s.turn.word.Load(), len(s.backlog))
		}
		if int64(s.granted) != granted.Load() {
			t.Fatalf("%d were granted, %d know of it", s.granted, granted.Load())
		}
		t.Logf("%d epochs, %d by %d helpers, %d broken, %d granted",
			s.epochs, s.turn.Helped(), s.rests.Load(), s.broken, s.granted)
	})
}
