package sequencer

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// epochs is an Epochs made of functions; broke and rest may be nil.
type epochs struct {
	run   func(allowance int) (left int, more bool)
	broke func(cause any)
	rest  func()
}

func (e *epochs) Run(allowance int) (int, bool) { return e.run(allowance) }

func (e *epochs) Broke(cause any) {
	if e.broke != nil {
		e.broke(cause)
	}
}

func (e *epochs) Rest() {
	if e.rest != nil {
		e.rest()
	}
}

// script is an Epochs that does a number of epochs' work, each at the same cost,
// and notes the allowances of all epochs and how often a helper ended.
type script struct {
	cost, epochs int // guarded by the turn, like allowances
	allowances   []int
	rests        atomic.Int64
}

func (s *script) Run(allowance int) (int, bool) {
	s.allowances = append(s.allowances, allowance)
	s.epochs--
	return allowance - s.cost, s.epochs > 0
}
func (s *script) Broke(any) {}
func (s *script) Rest()     { s.rests.Add(1) }

func TestEnterRunsOneEpochWhenThatIsAll(t *testing.T) {
	t.Parallel()
	var turn Turn
	runs := 0
	e := &epochs{run: func(int) (int, bool) { runs++; return 0, false }}
	for want := 1; want <= 3; want++ {
		turn.Enter(e, want-1) // an epoch is run even without an allowance
		if runs != want || !turn.Idle() {
			t.Fatalf("after %d calls: %d epochs, idle: %t", want, runs, turn.Idle())
		}
	}
}

// Who enters runs epochs with what the one before has left of its allowance. When
// nothing is left, one helper does the rest of the work, with an allowance of its
// own for each epoch, and ends: a bubble does not end before its goroutines.
func TestEnterRunsAsFarAsItsAllowanceGoes(t *testing.T) {
	t.Parallel()
	const own = HelperAllowance
	for name, tc := range map[string]struct {
		allowance, cost, epochs int
		want                    []int
		rests                   int64
	}{
		"it is enough":              {10, 3, 4, []int{10, 7, 4, 1}, 0},
		"it is just enough":         {9, 3, 3, []int{9, 6, 3}, 0},
		"one epoch is left":         {9, 3, 4, []int{9, 6, 3, own}, 1},
		"several epochs are left":   {10, 3, 7, []int{10, 7, 4, 1, own, own, own}, 1},
		"no allowance":              {0, 3, 3, []int{0, own, own}, 1},
		"an epoch costs a lot more": {5, 1000, 2, []int{5, own}, 1},
		"an epoch costs nothing":    {1, 0, 3, []int{1, 1, 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var turn Turn
				s := &script{cost: tc.cost, epochs: tc.epochs}
				turn.Enter(s, tc.allowance)
				synctest.Wait()
				if !slices.Equal(s.allowances, tc.want) || s.rests.Load() != tc.rests {
					t.Errorf("epochs with %v and %d helpers, want %v and %d", s.allowances, s.rests.Load(), tc.want, tc.rests)
				}
				if n := turn.Helped(); n != int64(len(slices.DeleteFunc(tc.want, func(n int) bool { return n != own }))) {
					t.Errorf("%d epochs by helpers", n)
				}
				if !turn.Idle() {
					t.Error("not idle")
				}
			})
		})
	}
}

// The caller returns while the helper still works for others.
func TestCallerDoesNotWaitForTheHelper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turn Turn
		returned := make(chan struct{})
		runs := 0
		turn.Enter(&epochs{run: func(int) (int, bool) {
			if runs++; runs > 1 {
				<-returned
			}
			return 0, runs < 3
		}}, 1)
		synctest.Wait() // the helper stands in its first epoch
		if turn.Idle() || turn.Helped() != 1 {
			t.Errorf("idle: %t, %d epochs by helpers", turn.Idle(), turn.Helped())
		}
		close(returned)
		synctest.Wait()
		if runs != 3 || !turn.Idle() {
			t.Errorf("%d epochs, idle: %t", runs, turn.Idle())
		}
	})
}

func TestEnterDuringAnEpochHasItsHolderRunAnother(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		allowance int
		helped    int64
	}{
		"the caller itself":                   {10, 0},
		"a helper, if the allowance is spent": {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var turn Turn
				runs := 0
				var e epochs
				e.run = func(allowance int) (int, bool) {
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
					return allowance - 1, false
				}
				turn.Enter(&e, tc.allowance)
				synctest.Wait()
				if runs != 2 || turn.Helped() != tc.helped || !turn.Idle() {
					t.Fatalf("%d epochs, %d by helpers, idle: %t", runs, turn.Helped(), turn.Idle())
				}
			})
		})
	}
}

// A mark that is left during a helper's epoch is not lost either.
func TestEnterDuringAHelpersEpochHasItRunAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turn Turn
		runs := 0
		turn.Enter(&epochs{run: func(int) (int, bool) {
			if runs++; runs == 2 && turn.take() {
				t.Error("a second one got the turn")
			}
			return 0, runs == 1
		}}, 0)
		synctest.Wait()
		if runs != 3 || turn.Helped() != 2 || !turn.Idle() {
			t.Fatalf("%d epochs, %d by helpers, idle: %t", runs, turn.Helped(), turn.Idle())
		}
	})
}

// handedOver returns a turn that was handed over to a helper that is still on its
// way: the test is to run it by help.
func handedOver() *Turn {
	turn := new(Turn)
	turn.word.Store(turnRequired)
	turn.onWay.Store(true)
	return turn
}

func TestWhoeverEntersBeforeTheHelperTakesTheTurn(t *testing.T) {
	t.Parallel()
	turn := handedOver()
	s := &script{epochs: 2, cost: 1}
	turn.Enter(s, 10)
	if want := []int{10, 9}; !slices.Equal(s.allowances, want) {
		t.Fatalf("epochs with %v, want %v", s.allowances, want)
	}
	if turn.Idle() {
		t.Fatal("idle, though a helper is on its way")
	}
	turn.help(s) // finds nothing to do, and that is all right
	if len(s.allowances) != 2 || s.rests.Load() != 1 || turn.Helped() != 0 || !turn.Idle() {
		t.Fatalf("epochs with %v, %d by helpers, %d ended, idle: %t", s.allowances, turn.Helped(), s.rests.Load(), turn.Idle())
	}
}

// Who hands over while a helper is on its way starts no other.
func TestHelperOnItsWayIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turn := handedOver()
		s := &script{epochs: 4}
		for range 3 {
			turn.Enter(s, 0)
		}
		synctest.Wait()
		if want := []int{0, 0, 0}; !slices.Equal(s.allowances, want) {
			t.Fatalf("epochs with %v, want %v: another helper was started", s.allowances, want)
		}
		turn.help(s)
		if turn.Helped() != 1 || s.rests.Load() != 1 || !turn.Idle() {
			t.Fatalf("%d epochs by helpers, %d ended, idle: %t", turn.Helped(), s.rests.Load(), turn.Idle())
		}
	})
}

// During an epoch of its own no helper is on its way, so one who takes the turn
// later and hands it over starts the next.
func TestHelperThatWorksIsNotOnItsWay(t *testing.T) {
	t.Parallel()
	turn := handedOver()
	turn.help(&epochs{run: func(int) (int, bool) {
		if turn.onWay.Load() {
			t.Error("the helper works, and says that it is on its way")
		}
		return 0, false
	}})
	if turn.Helped() != 1 || !turn.Idle() {
		t.Fatalf("%d epochs by helpers, idle: %t", turn.Helped(), turn.Idle())
	}
}

// One helper does it all, however often others mark the turn: none is started
// while one works.
func TestOneHelperServesALongLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turn Turn
		const long = 1000
		runs := 0
		var rests atomic.Int64
		turn.Enter(&epochs{
			run: func(int) (int, bool) {
				runs++
				if turn.take() {
					t.Error("a second one got the turn")
				}
				if runs == long {
					turn.word.Store(turnRunning) // nobody marks it any more
				}
				return 0, false
			},
			rest: func() { rests.Add(1) },
		}, 0)
		synctest.Wait()
		if runs != long || turn.Helped() != long-1 || rests.Load() != 1 || !turn.Idle() {
			t.Fatalf("%d epochs, %d by %d helpers, idle: %t", runs, turn.Helped(), rests.Load(), turn.Idle())
		}
	})
}

func TestHelperRestsWithoutTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turn Turn
		runs := 0
		var e epochs
		e.run = func(int) (int, bool) { runs++; return 0, runs == 1 }
		e.rest = func() {
			if !turn.Idle() {
				t.Error("a helper rests, but the turn is not idle")
			}
			turn.Enter(&e, 0) // so it may enter
		}
		turn.Enter(&e, 0)
		synctest.Wait()
		if runs != 3 {
			t.Fatalf("%d epochs", runs)
		}
	})
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
	left := 0
	e := &epochs{run: func(allowance int) (int, bool) { left--; return allowance - 1, left > 0 }}
	if n := testing.AllocsPerRun(100, func() { left = 3; turn.Enter(e, 10) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
