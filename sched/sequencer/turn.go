package sequencer

import (
	"runtime"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
)

// The states of the turn.
const (
	turnIdle     uint32 = iota // free, and nothing is left to do
	turnRequired               // free, and work is left: the next caller that enters takes it
	turnRunning                // held
	turnDirty                  // held, and the holder must run once more
)

// Turn is the right to run epochs. It is a word, not a goroutine and not a lock: a
// caller that does not get it marks it dirty and goes on, and waits only for its own
// result.
//
// Why no work is lost: a caller that has work publishes it and then calls Enter. Either
// Enter takes the turn, and its epoch sees the work; or the word was running and
// becomes dirty (or was dirty already). The holder gives the turn up only by a
// compare-and-swap from running, so it finds the mark and runs an epoch that begins
// after the work was published.
//
// A holder works for others no longer than its allowance. If work is left then, it
// hands over: it sets the word to required, which also stands for a dirty mark, since
// the epoch that follows begins later; then it sees to it that a helper is on its way:
// a goroutine that lives only while work is left. A caller that enters before the
// helper takes the turn. A helper says that it is on its way no longer *before* it
// looks at the word, and a holder looks whether one is on its way *after* it has set
// the word: so the helper sees the word, or the holder starts another.
//
// An epoch that panics or ends its goroutine gives the turn back as well: it is
// reported to Broke, and the turn is handed over.
//
// The state is guarded by the word itself: the compare-and-swap that takes the
// turn synchronises with the one, or the store, that gave it up.
type Turn struct {
	word   atomic.Uint32 // written by callers that enter and by the holder
	onWay  atomic.Bool   // a helper will look at the word; set by the holder that hands over, cleared by the helper
	helped atomic.Int64  // epochs run by helpers
}

// Epochs is the work of the holder of the turn. Run and Broke are called by the holder
// only, and must not enter the turn themselves.
type Epochs interface {
	// Run does the work there is, as far as the allowance goes, and reports what is
	// left of that, and whether work is left.
	Run(allowance int) (left int, more bool)
	// Broke is called when Run did not return: with what it panicked with, or with
	// nil if it ended its goroutine. What it was about is to be put right, so that
	// the next epoch does not end likewise.
	Broke(cause any)
	// Rest is called by a helper that ends, without the turn: nothing is left to do, or
	// a caller has taken the turn, or the helper's epoch broke.
	Rest()
}

// HelperAllowance is what a helper has for one epoch, after which it lets other
// goroutines run.
const HelperAllowance = 20_000

// Enter runs epochs if the turn is free, as far as the allowance goes, and else has
// its holder run another.
func (t *Turn) Enter(e Epochs, allowance int) {
	if !t.take() {
		return
	}
	for {
		left, more, returned := t.run(e, allowance)
		perturb.Point()
		if !returned {
			return
		}
		if !more && t.word.CompareAndSwap(turnRunning, turnIdle) {
			return
		}
		if left <= 0 {
			t.handOver(e)
			return
		}
		allowance = left
		// Overwriting a dirty mark is right: the epoch that follows begins after
		// whatever the mark stood for was published.
		t.word.Store(turnRunning)
	}
}

// run runs one epoch. If that does not return, the turn is handed over here, not by
// the caller: a goroutine that is ending goes on to end even after a panic on its
// way was recovered, so what comes after this call may never run.
func (t *Turn) run(e Epochs, allowance int) (left int, more, returned bool) {
	defer func() {
		if returned {
			return
		}
		defer t.handOver(e) // even if Broke panics
		e.Broke(recover())
	}()
	left, more = e.Run(allowance)
	return left, more, true
}

// handOver leaves the turn to the next caller, and makes sure that a helper comes.
func (t *Turn) handOver(e Epochs) {
	t.word.Store(turnRequired)
	perturb.Point()
	if t.onWay.CompareAndSwap(false, true) {
		go t.help(e)
	}
}

// help runs epochs while work is left that no caller does.
func (t *Turn) help(e Epochs) {
	defer e.Rest()
	for {
		t.onWay.Store(false)
		perturb.Point()
		if !t.word.CompareAndSwap(turnRequired, turnRunning) {
			return
		}
		t.helped.Add(1)
		_, more, returned := t.run(e, HelperAllowance)
		perturb.Point()
		if !returned {
			return
		}
		if !more && t.word.CompareAndSwap(turnRunning, turnIdle) {
			return
		}
		// The helper may be kept waiting for a processor: meanwhile others can go on.
		t.onWay.Store(true)
		t.word.Store(turnRequired)
		runtime.Gosched()
	}
}

// Helped returns how many epochs were run by helpers.
func (t *Turn) Helped() int64 { return t.helped.Load() }

// Wake leaves a token, which means only "look". One that is there already says
// the same.
func Wake(waiter chan<- struct{}) {
	select {
	case waiter <- struct{}{}:
	default:
	}
}

func (t *Turn) take() bool {
	for {
		word := t.word.Load()
		perturb.Point()
		switch word {
		case turnIdle, turnRequired:
			if t.word.CompareAndSwap(word, turnRunning) {
				return true
			}
		case turnRunning:
			if t.word.CompareAndSwap(turnRunning, turnDirty) {
				return false
			}
		default:
			return false
		}
	}
}

// Idle reports whether the turn is free, no work was left and no helper is on its way.
func (t *Turn) Idle() bool { return t.word.Load() == turnIdle && !t.onWay.Load() }
