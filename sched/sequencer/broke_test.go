package sequencer

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

var errBroken = errors.New("broken")

// An epoch that does not return is reported once, with its cause. The turn goes on
// without it, whoever ran it: a helper does what is left, and whoever enters later
// is served.
func TestTurnOutlivesAnEpochThatBreaks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end   func()
		cause any
		gone  bool // the goroutine ends
	}{
		"a panic":               {func() { panic(errBroken) }, errBroken, false},
		"an end of a goroutine": {runtime.Goexit, nil, true},
		// The panic is recovered by the turn, and the goroutine ends in spite of that.
		"a panic while a goroutine ends": {func() {
			defer panic(errBroken)
			runtime.Goexit()
		}, errBroken, true},
		"an end of a goroutine while it panics": {func() {
			defer runtime.Goexit()
			panic(errBroken)
		}, nil, true},
	} {
		for who, breaks := range map[string][]int{
			"caller":             {1},
			"caller later":       {2},
			"helper":             {4},
			"caller and helpers": {1, 2, 3},
		} {
			t.Run(name+" of a "+who, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var turn Turn
					var causes []any
					runs, work := 0, 6
					e := &epochs{
						run: func(allowance int) (int, bool) {
							runs++
							if slices.Contains(breaks, runs) {
								tc.end()
							}
							work--
							return allowance - 1, work > 0
						},
						broke: func(cause any) {
							if turn.take() {
								t.Error("the turn is free while it is put right")
							}
							causes = append(causes, cause)
						},
					}
					returned := false
					go func() {
						turn.Enter(e, 3)
						returned = true
					}()
					synctest.Wait()
					if gone := breaks[0] <= 3 && tc.gone; returned == gone {
						t.Errorf("the caller has returned: %t", returned)
					}
					if want := slices.Repeat([]any{tc.cause}, len(breaks)); !slices.Equal(causes, want) {
						t.Errorf("broken by %v, want %v", causes, want)
					}
					if work != 0 || !turn.Idle() || runs != 6+len(breaks) {
						t.Errorf("%d epochs, work left %d, idle: %t", runs, work, turn.Idle())
					}
					work = 1
					turn.Enter(e, 3)
					if work != 0 || !turn.Idle() {
						t.Errorf("one who enters later is not served: word %d", turn.word.Load())
					}
				})
			})
		}
	}
}

// What cannot even be put right reaches the caller, but does not take the turn
// along.
func TestTurnOutlivesBrokeThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var turn Turn
		runs := 0
		func() {
			defer func() {
				if cause := fmt.Sprint(recover()); cause != "not to be put right" {
					t.Errorf("the caller sees %s", cause)
				}
			}()
			turn.Enter(&epochs{
				run: func(int) (int, bool) {
					if runs++; runs == 1 {
						panic(errBroken)
					}
					return 0, false
				},
				broke: func(any) { panic("not to be put right") },
			}, 10)
		}()
		synctest.Wait()
		if runs != 2 || !turn.Idle() {
			t.Fatalf("%d epochs, idle: %t", runs, turn.Idle())
		}
	})
}
