package storm

import (
	"sync"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// pause says what everybody is to do.
type pause int32

const (
	goOn  pause = iota
	rest        // stop where one is
	lull        // release everything and stop
	ended       // release everything and return
)

// pauser stops the storm and starts it again.
type pauser struct {
	now atomic.Int32 // pause
	mu  struct {
		sync.Mutex
		resume chan struct{}
	}
}

func newPauser() *pauser {
	p := &pauser{}
	p.mu.resume = make(chan struct{})
	return p
}

func (p *pauser) get() pause { return pause(p.now.Load()) }

// set changes what everybody is to do.
func (p *pauser) set(to pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Store(int32(to))
	close(p.mu.resume)
	p.mu.resume = make(chan struct{})
}

func (p *pauser) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.resume
}

// activity is what a participant is doing.
type activity int32

const (
	running activity = iota
	calling          // in a call that may wait for its turn
	parked
	returned
)

// participant is a goroutine of the storm.
type participant struct {
	pauser *pauser
	state  atomic.Int32  // activity
	moves  atomic.Uint64 // changes of state
	ops    atomic.Int64
	// call is the request of the call that may wait; nil if that is not known.
	call atomic.Pointer[sched.Request]
	_    [64]byte // its counters are its own
}

func (p *participant) is() activity { return activity(p.state.Load()) }

func (p *participant) become(a activity) {
	p.moves.Add(1)
	p.state.Store(int32(a))
}

// checkpoint stops here while the storm pauses and reports whether to go on.
// With letGo, what a lull asks for is done before.
func (p *participant) checkpoint(letGo func()) bool {
	for {
		changed := p.pauser.changed()
		switch p.pauser.get() {
		case goOn:
			return true
		case ended:
			letGo()
			return false
		case lull:
			letGo()
		case rest:
		}
		p.become(parked)
		<-changed
		p.become(running)
	}
}

// paused is the quick look before a checkpoint.
func (p *participant) paused() bool { return p.pauser.get() != goOn }
