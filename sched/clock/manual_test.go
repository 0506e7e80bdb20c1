package clock_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2031, 5, 17, 9, 0, 0, 0, time.UTC)

// watch is a manual clock with a log of what ran when, in milliseconds from the
// start.
type watch struct {
	*clock.Manual
	log []string
}

func newWatch() *watch { return &watch{Manual: clock.NewManual(start)} }

func (w *watch) at() int64 { return w.Now().Sub(start).Milliseconds() }

func (w *watch) set(ms int, name string) clock.Timer {
	return w.AfterFunc(time.Duration(ms)*time.Millisecond, func() {
		w.log = append(w.log, fmt.Sprintf("%s@%d", name, w.at()))
	})
}

func (w *watch) advance(ms int) string {
	w.log = nil
	w.Advance(time.Duration(ms) * time.Millisecond)
	return strings.Join(w.log, " ")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestManualStandsUntilAdvanced(t *testing.T) {
	t.Parallel()
	w := newWatch()
	if !w.Now().Equal(start) {
		t.Fatalf("starts at %v", w.Now())
	}
	w.Advance(3 * time.Second)
	w.Advance(0)
	w.Advance(-time.Hour) // time does not go back
	if !w.Now().Equal(start.Add(3 * time.Second)) {
		t.Fatalf("stands at %v", w.Now())
	}
}

func TestTimersRunInTheOrderOfTheirTimes(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.set(30, "c")
	w.set(10, "a")
	w.set(20, "b1")
	w.set(20, "b2") // at one time, in the order in which they were set
	w.set(20, "b3")
	w.set(40, "d")
	expect(t, w.advance(9), "")
	expect(t, w.advance(1), "a@10")
	expect(t, w.advance(20), "b1@20 b2@20 b3@20 c@30")
	expect(t, w.advance(1000), "d@40")
	if w.at() != 1030 {
		t.Fatalf("stands at %d", w.at())
	}
	expect(t, w.advance(1000), "")
}

func TestTimersOfThePastRunWithTheNextAdvance(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.Advance(5 * time.Millisecond)
	w.set(0, "now")
	w.set(-50, "long ago")
	if w.log != nil {
		t.Fatalf("ran without Advance: %v", w.log)
	}
	expect(t, w.advance(0), "now@5 long ago@5")
}

func TestTimersSetOnTheWay(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.AfterFunc(10*time.Millisecond, func() {
		w.set(5, "within")
		w.set(0, "at once")
		w.set(10, "on the end")
		w.set(11, "beyond")
	})
	w.set(12, "before")
	expect(t, w.advance(20), "at once@10 before@12 within@15 on the end@20")
	expect(t, w.advance(1), "beyond@21")
}

func TestStop(t *testing.T) {
	t.Parallel()
	w := newWatch()
	timers := make([]clock.Timer, 5)
	for i := range timers {
		timers[i] = w.set(10+i, fmt.Sprint(i))
	}
	for _, i := range []int{0, 3, 2} {
		if !timers[i].Stop() {
			t.Fatalf("timer %d could not be stopped", i)
		}
		if timers[i].Stop() {
			t.Fatalf("timer %d was stopped twice", i)
		}
	}
	expect(t, w.advance(100), "1@11 4@14")
	if timers[1].Stop() {
		t.Fatal("a timer that has run was stopped")
	}

	// One timer stops another of the same instant, and itself, which is too late.
	var second clock.Timer
	var self clock.Timer
	self = w.AfterFunc(0, func() {
		if !second.Stop() {
			t.Error("the timer after this one could not be stopped")
		}
		if self.Stop() {
			t.Error("a timer that runs was stopped")
		}
	})
	second = w.set(0, "second")
	expect(t, w.advance(0), "")
}

func TestNext(t *testing.T) {
	t.Parallel()
	w := newWatch()
	if at, ok := w.Next(); ok {
		t.Fatalf("a timer at %v", at)
	}
	w.set(20, "b")
	early := w.set(10, "a")
	next := func() int64 {
		at, ok := w.Next()
		if !ok {
			return -1
		}
		return at.Sub(start).Milliseconds()
	}
	if got := next(); got != 10 {
		t.Fatalf("next at %d", got)
	}
	early.Stop()
	if got := next(); got != 20 {
		t.Fatalf("next at %d", got)
	}
	w.advance(20)
	if got := next(); got != -1 {
		t.Fatalf("next at %d", got)
	}
}

// A timer that advances the clock further does not make it go back afterwards.
func TestTimeDoesNotGoBack(t *testing.T) {
	t.Parallel()
	w := newWatch()
	w.AfterFunc(10*time.Millisecond, func() { w.Advance(100 * time.Millisecond) })
	w.set(60, "on the inner way")
	expect(t, w.advance(50), "on the inner way@60")
	if w.at() != 110 {
		t.Fatalf("stands at %d", w.at())
	}
}

// Against a list that is sorted anew each time.
func TestManualAgainstAList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		w := newWatch()
		type entry struct {
			at, serial int
			timer      clock.Timer
		}
		var pending []entry
		for serial := range 400 {
			switch rnd.IntN(5) {
			case 0:
				d := rnd.IntN(15)
				end := int(w.at()) + d
				slices.SortStableFunc(pending, func(a, b entry) int { return a.at - b.at })
				var want []string
				for len(pending) > 0 && pending[0].at <= end {
					want = append(want, fmt.Sprintf("%d@%d", pending[0].serial, pending[0].at))
					pending = pending[1:]
				}
				if got := w.advance(d); got != strings.Join(want, " ") {
					t.Fatalf("seed %d: ran %q, want %q", seed, got, want)
				}
			case 1:
				if len(pending) > 0 {
					i := rnd.IntN(len(pending))
					if !pending[i].timer.Stop() {
						t.Fatalf("seed %d: timer %d could not be stopped", seed, pending[i].serial)
					}
					pending = slices.Delete(pending, i, i+1)
				}
			default:
				d := rnd.IntN(40)
				// The list stays in the order of setting until it is sorted, and
				// the sort is stable.
				pending = append(pending, entry{int(w.at()) + d, serial, w.set(d, fmt.Sprint(serial))})
			}
		}
	}
}

// Setting and stopping from elsewhere, while one goroutine advances: each timer
// runs or is stopped, never both.
func TestManualUnderHammering(t *testing.T) {
	t.Parallel()
	n := 2_000
	if testing.Short() {
		n /= 10
	}
	m := clock.NewManual(start)
	var ran, stopped atomic.Int64
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 4))
			for range n {
				timer := m.AfterFunc(time.Duration(rnd.IntN(50)), func() { ran.Add(1) })
				if rnd.IntN(2) == 0 && timer.Stop() {
					stopped.Add(1)
				}
			}
		})
	}
	setters := make(chan struct{})
	go func() {
		wg.Wait()
		close(setters)
	}()
	for last, done := start, false; !done; {
		select {
		case <-setters:
			done = true
		default:
		}
		m.Advance(7)
		if now := m.Now(); now.Before(last) {
			t.Fatalf("the time went from %v back to %v", last, now)
		} else {
			last = now
		}
	}
	m.Advance(time.Second)
	if _, ok := m.Next(); ok || ran.Load()+stopped.Load() != int64(4*n) {
		t.Fatalf("%d ran, %d were stopped, of %d; one is left: %t", ran.Load(), stopped.Load(), 4*n, ok)
	}
}

func TestSystemClock(t *testing.T) {
	t.Parallel()
	c := clock.System()
	before := time.Now()
	if now := c.Now(); now.Before(before) {
		t.Fatalf("%v is before %v", now, before)
	}
	ran := make(chan struct{})
	timer := c.AfterFunc(0, func() { close(ran) })
	<-ran
	if timer.Stop() {
		t.Fatal("a timer that has run was stopped")
	}
	if far := c.AfterFunc(time.Hour, func() { t.Error("an hour has passed") }); !far.Stop() {
		t.Fatal("a timer that has not run could not be stopped")
	}
}
