package sched

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	uberatomic "go.uber.org/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// outbox holds what observers and the logger are still to be told. It can
// neither block nor break the scheduler: notes are pushed on a lock-free stack,
// under any lock, and told by a goroutine that lives while there are any. A note
// that finds no room is dropped and counted. A nil outbox does nothing.
//
// Why none is forgotten: whoever pushes calls deliver after that, without locks.
// Either it starts the goroutine, or that is running; and the goroutine looks at
// the stack again after it has said that it no longer runs.
//
// Cost: a copy of the event into a pooled note, one addition and one
// compare-and-swap; one goroutine started for each burst.
type outbox struct {
	observers []Observer
	logger    *slog.Logger // nil: no lines
	room      int64        // for notes; lines may take reserved more

	notes   sequencer.Arrivals[*note]
	pending atomic.Int64 // pushed or about to be, and not yet told
	running atomic.Bool  // there is a goroutine, or about to be
	// batch is detached, and told up to next; both are owned by that goroutine.
	batch   []*note
	next    int
	dropped uberatomic.Int64
	unused  sync.Pool // of *note

	// failed is told of a panic in the embedder's code.
	failed func(hook, any)
}

// note is one event or, if line is set, one line for the logger.
type note struct {
	ticket sequencer.Ticket[*note]
	event  Event
	line   *logLine
}

// logLine is one line for the logger.
type logLine struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// reserved is the room that only lines may take, so that a flood of events does
// not hide what went wrong.
const reserved = 256

func newOutbox(o *options, room int, failed func(hook, any)) *outbox {
	if len(o.observers) == 0 && o.logger == nil {
		return nil
	}
	b := &outbox{observers: o.observers, logger: o.logger, room: int64(room), failed: failed}
	b.unused.New = func() any {
		n := new(note)
		n.ticket.Value = n
		return n
	}
	return b
}

// observes reports whether somebody is told of events.
func (o *outbox) observes() bool { return o != nil && len(o.observers) > 0 }

// tell pushes an event. The caller calls deliver once it holds no lock.
func (o *outbox) tell(e *Event) {
	if n := o.note(o.room); n != nil {
		n.event = *e
		o.push(n)
	}
}

// log pushes a line; deliver as with tell.
func (o *outbox) log(level slog.Level, message string, attrs ...slog.Attr) {
	if o == nil || o.logger == nil {
		return
	}
	if n := o.note(o.room + reserved); n != nil {
		n.line = &logLine{level, message, attrs}
		o.push(n)
	}
}

// note returns an empty note if there is room for it.
func (o *outbox) note(room int64) *note {
	if o.pending.Add(1) > room {
		o.pending.Add(-1)
		o.dropped.Inc()
		return nil
	}
	return o.unused.Get().(*note)
}

func (o *outbox) push(n *note) {
	perturb.Point()
	o.notes.Push(&n.ticket)
}

// deliver sees to it that what was pushed is told.
func (o *outbox) deliver() {
	if o == nil || o.notes.Empty() {
		return
	}
	perturb.Point()
	if !o.running.Load() && o.running.CompareAndSwap(false, true) {
		go o.run()
	}
}

// run tells what there is until there is nothing. Should an observer end its
// goroutine, another goes on.
func (o *outbox) run() {
	finished := false
	defer func() {
		if !finished {
			go o.run()
		}
	}()
	for {
		for o.next < len(o.batch) {
			n := o.batch[o.next]
			o.batch[o.next] = nil
			o.next++
			o.tellAll(n)
		}
		o.batch, o.next = o.notes.Detach(trimmed(o.batch)), 0
		if len(o.batch) > 0 {
			continue
		}
		perturb.Point()
		o.running.Store(false)
		perturb.Point()
		if o.notes.Empty() || !o.running.CompareAndSwap(false, true) {
			finished = true
			return
		}
	}
}

// tellAll tells one note and gives it back.
func (o *outbox) tellAll(n *note) {
	event, line := n.event, n.line
	n.event, n.line = Event{}, nil
	o.unused.Put(n)
	defer o.pending.Add(-1)
	if line != nil {
		defer o.recovered(hookLogger)
		o.logger.LogAttrs(context.Background(), line.level, line.message, line.attrs...)
		return
	}
	for _, observer := range o.observers {
		o.tellOne(observer, event)
	}
}

func (o *outbox) tellOne(observer Observer, event Event) {
	defer o.recovered(hookObserver)
	observer(event)
}

// recovered is to be deferred around code of the embedder's.
func (o *outbox) recovered(h hook) {
	if p := recover(); p != nil {
		o.failed(h, p)
	}
}

// quiet reports whether everything has been told.
func (o *outbox) quiet() bool { return o == nil || o.pending.Load() == 0 && !o.running.Load() }
