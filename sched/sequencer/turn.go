package sequencer

import (
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
)

// The states of the turn.
const (
	turnIdle     uint32 = iota // nobody has it and nothing is left to do
	turnRequired               // nobody has it and work is left: whoever comes first takes it
	turnRunning                // somebody has it
	turnDirty                  // somebody has it and must run once more
)

// maxEpochs is how many epochs a holder runs before it passes the turn on, so
// that no caller works for the others without end.
const maxEpochs = 4

// Turn is the right to run epochs. It is a word, not a goroutine and not a
// lock: who does not get it marks it dirty and goes on, and waits for nothing
// but its own result.
//
// Why no work is lost: whoever has work publishes it and then calls Enter.
// Either Enter takes the turn, and its epoch sees the work; or the word was
// running and becomes dirty (or was dirty already), and the holder, who gives
// the turn up by a compare-and-swap from running only, finds that and runs an
// epoch that begins after the work was published. A holder that passes the turn
// on first sets the word to required and then wakes a waiter; the waiter, or
// anyone who comes before it, takes it.
//
// A waiter that leaves enters the turn before it goes, so a hand-over to a leaver
// is not lost either: one that enters after the word says required takes it. One
// that enters before that, but after it was chosen, leaves a dirty mark, and the
// turn is then not passed on. For this the mark is cleared before the heir is
// chosen, and the word set to required by a compare-and-swap. (A plain store was
// tried; exhaustive exploration finds the lost turn.)
//
// The state is guarded by the word itself: the compare-and-swap that takes the
// turn synchronises with the one, or the store, that gave it up.
type Turn struct {
	word atomic.Uint32 // written by whoever enters and by the holder
}

// Epochs is the work of whoever holds the turn. Its methods are called by the
// holder only, and must not enter the turn themselves.
type Epochs interface {
	// Run does all the work there is, up to its bound, and reports whether work
	// is left.
	Run() (more bool)
	// Heir returns the channel, of capacity 1, of somebody who waits, has not
	// left, and will Enter when there is a token in it; nil if nobody does.
	Heir() chan<- struct{}
}

// Enter runs epochs if the turn is free, and else has its holder run another.
func (t *Turn) Enter(e Epochs) {
	if !t.take() {
		return
	}
	for epochs := 1; ; epochs++ {
		more := e.Run()
		perturb.Point()
		if !more && t.word.CompareAndSwap(turnRunning, turnIdle) {
			return
		}
		// Overwriting a dirty mark is right: the epoch that follows, whoever runs
		// it, begins after whatever the mark stood for was published.
		t.word.Store(turnRunning)
		if epochs < maxEpochs {
			continue
		}
		// An heir that leaves before the swap marks the turn dirty, and the swap
		// fails; one that leaves after it finds the turn required.
		heir := e.Heir()
		perturb.Point()
		if heir != nil && t.word.CompareAndSwap(turnRunning, turnRequired) {
			perturb.Point()
			Wake(heir)
			return
		}
	}
}

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

// Idle reports whether nobody has the turn and no work was left.
func (t *Turn) Idle() bool { return t.word.Load() == turnIdle }
