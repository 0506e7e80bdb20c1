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

// epochs is an Epochs made of functions.
type epochs struct {
	run  func() bool
	heir func() chan<- struct{}
}

func (e *epochs) Run() bool { return e.run() }
func (e *epochs) Heir() chan<- struct{} {
	if e.heir == nil {
		return nil
	}
	return e.heir()
}

func TestEnterRunsOneEpochWhenThatIsAll(t *testing.T) {
	t.Parallel()
	var turn Turn
	runs := 0
	e := &epochs{run: func() bool { runs++; return false }}
	for want := 1; want <= 3; want++ {
		turn.Enter(e)
		if runs != want || !turn.Idle() {
			t.Fatalf("after %d calls: %d epochs, idle: %t", want, runs, turn.Idle())
		}
	}
}

func TestEnterRunsOnWhileWorkIsLeftAndNobodyWaits(t *testing.T) {
	t.Parallel()
	var turn Turn
	runs := 0
	turn.Enter(&epochs{run: func() bool { runs++; return runs < 10*maxEpochs }})
	if runs != 10*maxEpochs || !turn.Idle() {
		t.Fatalf("%d epochs, idle: %t", runs, turn.Idle())
	}
}

func TestEnterDuringAnEpochHasItsHolderRunAnother(t *testing.T) {
	t.Parallel()
	var turn Turn
	runs := 0
	var e epochs
	e.run = func() bool {
		if turn.Idle() {
			t.Error("idle in the middle of an epoch")
		}
		if runs++; runs == 1 {
			// Any number of them ask for one epoch more.
			for range 3 {
				if turn.take() {
					t.Error("a second one got the turn")
				}
			}
		}
		return false
	}
	turn.Enter(&e)
	if runs != 2 || !turn.Idle() {
		t.Fatalf("%d epochs, idle: %t", runs, turn.Idle())
	}
}

// takeToken fails the test if there is none: nobody was woken.
func takeToken(t *testing.T, token <-chan struct{}) {
	t.Helper()
	select {
	case <-token:
	default:
		t.Fatal("the heir was not woken")
	}
}

func TestTurnIsPassedOnAfterSomeEpochs(t *testing.T) {
	t.Parallel()
	var turn Turn
	token := make(chan struct{}, 1)
	runs, asked := 0, 0
	e := &epochs{
		run: func() bool { runs++; return true },
		heir: func() chan<- struct{} {
			asked++
			if turn.Idle() {
				t.Error("the heir is chosen after the turn was given up")
			}
			return token
		},
	}
	turn.Enter(e)
	if runs != maxEpochs || asked != 1 {
		t.Fatalf("%d epochs, asked for an heir %d times", runs, asked)
	}
	if turn.Idle() {
		t.Fatal("work is left, but the turn says that it is idle")
	}
	takeToken(t, token)
	e.run = func() bool { runs++; return false }
	turn.Enter(e) // as the heir does
	if runs != maxEpochs+1 || !turn.Idle() {
		t.Fatalf("%d epochs, idle: %t", runs, turn.Idle())
	}
}

func TestWhoeverComesFirstTakesAnInheritance(t *testing.T) {
	t.Parallel()
	var turn Turn
	token := make(chan struct{}, 1)
	e := &epochs{run: func() bool { return true }, heir: func() chan<- struct{} { return token }}
	turn.Enter(e)
	done := &epochs{run: func() bool { return false }}
	turn.Enter(done) // somebody else
	if !turn.Idle() {
		t.Fatal("the turn was not taken")
	}
	takeToken(t, token)
	turn.Enter(done) // the heir finds nothing to do, and that is all right
	if !turn.Idle() {
		t.Fatal("the turn was not given up")
	}
}

// The heir leaves after it was chosen and before the turn is passed on: its
// Enter only finds somebody running, so that one must go on.
func TestHeirThatLeavesWhileItIsChosen(t *testing.T) {
	t.Parallel()
	var turn Turn
	token := make(chan struct{}, 1)
	runs, asked := 0, 0
	turn.Enter(&epochs{
		run: func() bool { runs++; return runs <= maxEpochs },
		heir: func() chan<- struct{} {
			if asked++; asked > 1 {
				return nil
			}
			if turn.take() {
				t.Error("a second one got the turn")
			}
			return token
		},
	})
	if len(token) != 0 || runs <= maxEpochs || !turn.Idle() {
		t.Fatalf("the turn went to somebody who has left: %d epochs, idle: %t", runs, turn.Idle())
	}
}

// An heir that leaves after the turn was passed on enters, and so takes it.
func TestHeirThatLeavesInsteadOfLooking(t *testing.T) {
	t.Parallel()
	var turn Turn
	token := make(chan struct{}, 1)
	left := 5
	e := &epochs{run: func() bool { left--; return left > 0 }, heir: func() chan<- struct{} { return token }}
	turn.Enter(e)
	turn.Enter(e) // the leaver, which does not look at its token
	if left != 0 || !turn.Idle() {
		t.Fatalf("%d left, idle: %t", left, turn.Idle())
	}
}

func TestWakeDoesNotBlock(t *testing.T) {
	t.Parallel()
	token := make(chan struct{}, 1)
	Wake(token)
	Wake(token)
	if len(token) != 1 {
		t.Fatalf("%d tokens", len(token))
	}
}

func TestEnterAllocatesNothing(t *testing.T) {
	var turn Turn
	e := &epochs{run: func() bool { return false }}
	if n := testing.AllocsPerRun(100, func() { turn.Enter(e) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// atProcs runs a hammer at several values of GOMAXPROCS, on its own.
func atProcs(t *testing.T, hammer func(t *testing.T)) {
	for _, procs := range []int{1, 2, 4, 8} {
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
		e := &epochs{run: func() bool {
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
			return false
		}}
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range n {
					mine := published.Add(1)
					turn.Enter(e)
					// Either seen, or somebody has the turn and will run again.
					if seen.Load() < mine && turn.Idle() && seen.Load() < mine {
						t.Errorf("work %d is lost", mine)
						return
					}
				}
			})
		}
		inTime(t, &wg, func() string { return fmt.Sprint("word ", turn.word.Load()) })
		if seen.Load() != published.Load() || !turn.Idle() {
			t.Fatalf("seen %d of %d, idle: %t", seen.Load(), published.Load(), turn.Idle())
		}
		t.Logf("%d epochs for %d calls", plain, callers*n)
	})
}

// waiter is a request of the hammer below: granted by the holder, or left by its
// owner.
type waiter struct {
	arrival, leave Ticket[*waiter]
	state          atomic.Uint32
	wake           chan struct{}
}

// service grants a few requests an epoch, so that the turn is often passed on.
type service struct {
	t                 *testing.T
	turn              Turn
	arrivals, leavers Arrivals[*waiter]
	backlog           []*waiter
	inside            atomic.Int64
	granted, epochs   int
	inherited         atomic.Int64
}

func (s *service) Run() bool {
	if s.inside.Add(1) != 1 {
		s.t.Error("two have the turn")
	}
	defer s.inside.Add(-1)
	s.epochs++
	s.backlog = s.arrivals.Detach(s.backlog)
	s.leavers.Detach(nil)
	if s.epochs%2 == 0 {
		runtime.Gosched() // with the turn: the others shall find it taken
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
	return len(s.backlog) > 0
}

func (s *service) Heir() chan<- struct{} {
	defer runtime.Gosched() // so that heirs leave between choice and hand-over
	for _, w := range s.backlog {
		if w.state.Load() == uint32(waiting) {
			return w.wake
		}
	}
	return nil
}

// ask is one call from arrival to outcome; it reports whether it was granted.
func (s *service) ask(impatient bool) bool {
	w := &waiter{wake: make(chan struct{}, 1)}
	w.arrival.Value, w.leave.Value = w, w
	s.arrivals.Push(&w.arrival)
	s.turn.Enter(s)
	if impatient && w.state.CompareAndSwap(uint32(waiting), uint32(left)) {
		s.leavers.Push(&w.leave)
		s.turn.Enter(s)
		return false
	}
	for w.state.Load() == uint32(waiting) {
		<-w.wake
		if w.state.Load() == uint32(waiting) {
			s.inherited.Add(1)
			s.turn.Enter(s)
		}
	}
	return true
}

func TestEveryWaiterIsAnsweredThoughHeirsLeave(t *testing.T) {
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
					if s.ask(rnd.IntN(3) == 0) {
						granted.Add(1)
					}
				}
			})
		}
		inTime(t, &wg, func() string {
			return fmt.Sprintf("word %d, arrivals empty: %t", s.turn.word.Load(), s.arrivals.Empty())
		})
		if !s.turn.Idle() || !s.arrivals.Empty() || !s.leavers.Empty() || len(s.backlog) != 0 {
			t.Fatalf("left behind: word %d, backlog %d", s.turn.word.Load(), len(s.backlog))
		}
		if int64(s.granted) != granted.Load() {
			t.Fatalf("%d were granted, %d know of it", s.granted, granted.Load())
		}
		t.Logf("%d epochs, %d granted, %d inherited", s.epochs, s.granted, s.inherited.Load())
	})
}
