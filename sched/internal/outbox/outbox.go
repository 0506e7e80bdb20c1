// Package outbox holds the events that observers have not received yet, and the
// records that the logger has not.
//
// It can neither block nor break the scheduler: items are pushed on a lock-free
// stack, under any lock, and handed on by a goroutine that lives while there are any.
// An item that finds no room is dropped and counted. A nil Outbox does nothing.
//
// Why none is forgotten: after pushing, the caller calls Flush, without locks. Either
// that starts the goroutine, or it is running; and the goroutine looks at the stack
// again after it has said that it no longer runs.
//
// Cost: a copy of the event into a pooled item, one addition and one
// compare-and-swap; one goroutine started for each burst.
package outbox

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	uberatomic "go.uber.org/atomic"

	"github.com/seed-3c5df8a4/turnstile/internal/perturb"
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
)

// Config says what an outbox is for.
type Config[E any] struct {
	// Observers receive each event, one after the other.
	Observers []func(E)
	// Logger receives the log records; nil: there are none.
	Logger *slog.Logger
	// Room is how many events may be on their way.
	Room int
	// ObserverFailed and LoggerFailed are called with what a panic of either was.
	ObserverFailed, LoggerFailed func(panicked any)
}

// Outbox is made with New.
type Outbox[E any] struct {
	config  Config[E]
	items   sequencer.Arrivals[*item[E]]
	pending atomic.Int64 // pushed or about to be, and not yet handed on
	running atomic.Bool  // there is a goroutine, or about to be
	// batch is detached, and handed on up to next; both are owned by that goroutine.
	batch   []*item[E]
	next    int
	dropped uberatomic.Int64
	unused  sync.Pool // of *item[E]
}

// item is one event or, if record is set, one log record.
type item[E any] struct {
	ticket sequencer.Ticket[*item[E]]
	event  E
	record *logRecord
}

// logRecord is what the logger receives.
type logRecord struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

const (
	// reserved is the room that only log records may take, so that a flood of events
	// does not hide what went wrong.
	reserved = 256
	// longestBatch is the most room for a batch that is kept for the next.
	longestBatch = 4096
)

// New returns an outbox, nil without an observer and a logger.
func New[E any](c Config[E]) *Outbox[E] {
	if len(c.Observers) == 0 && c.Logger == nil {
		return nil
	}
	o := &Outbox[E]{config: c}
	o.unused.New = func() any {
		i := new(item[E])
		i.ticket.Value = i
		return i
	}
	return o
}

// Observes reports whether there is an observer.
func (o *Outbox[E]) Observes() bool { return o != nil && len(o.config.Observers) > 0 }

// Send pushes an event. The caller calls Flush once it holds no lock. REQUIRES:
// there is an observer.
func (o *Outbox[E]) Send(e *E) {
	if i := o.item(o.config.Room); i != nil {
		i.event = *e
		o.push(i)
	}
}

// Log pushes a log record; Flush as with Send.
func (o *Outbox[E]) Log(level slog.Level, message string, attrs ...slog.Attr) {
	if o == nil || o.config.Logger == nil {
		return
	}
	if i := o.item(o.config.Room + reserved); i != nil {
		i.record = &logRecord{level, message, attrs}
		o.push(i)
	}
}

// item returns an empty item if there is room for it.
func (o *Outbox[E]) item(room int) *item[E] {
	if o.pending.Add(1) > int64(room) {
		o.pending.Add(-1)
		o.dropped.Inc()
		return nil
	}
	return o.unused.Get().(*item[E])
}

func (o *Outbox[E]) push(i *item[E]) {
	perturb.Point()
	o.items.Push(&i.ticket)
}

// Flush sees to it that what was pushed is handed on. REQUIRES: no locks.
func (o *Outbox[E]) Flush() {
	if o != nil && !o.items.Empty() {
		o.start()
	}
}

// start starts the goroutine, unless it is running.
func (o *Outbox[E]) start() {
	perturb.Point()
	if !o.running.Load() && o.running.CompareAndSwap(false, true) {
		go o.run()
	}
}

// run hands on what there is until there is nothing. Should an observer end its
// goroutine, another goes on.
func (o *Outbox[E]) run() {
	finished := false
	defer func() {
		if !finished {
			go o.run()
		}
	}()
	for {
		for o.next < len(o.batch) {
			i := o.batch[o.next]
			o.batch[o.next] = nil
			o.next++
			o.handOn(i)
		}
		if cap(o.batch) > longestBatch {
			o.batch = nil
		}
		o.batch, o.next = o.items.Detach(o.batch[:0]), 0
		if len(o.batch) > 0 {
			continue
		}
		perturb.Point()
		o.running.Store(false)
		perturb.Point()
		if o.items.Empty() || !o.running.CompareAndSwap(false, true) {
			finished = true
			return
		}
	}
}

// handOn hands on one item and gives it back.
func (o *Outbox[E]) handOn(i *item[E]) {
	event, record := i.event, i.record
	var none E
	i.event, i.record = none, nil
	o.unused.Put(i)
	defer o.pending.Add(-1)
	if record != nil {
		defer recovered(o.config.LoggerFailed)
		o.config.Logger.LogAttrs(context.Background(), record.level, record.message, record.attrs...)
		return
	}
	for _, observer := range o.config.Observers {
		o.observe(observer, event)
	}
}

func (o *Outbox[E]) observe(observer func(E), event E) {
	defer recovered(o.config.ObserverFailed)
	observer(event)
}

// recovered is to be deferred around foreign code.
func recovered(failed func(any)) {
	if p := recover(); p != nil {
		failed(p)
	}
}

// Quiet reports whether everything has been handed on.
func (o *Outbox[E]) Quiet() bool { return o == nil || o.pending.Load() == 0 && !o.running.Load() }

// Dropped returns how many events and log records found no room.
func (o *Outbox[E]) Dropped() int64 {
	if o == nil {
		return 0
	}
	return o.dropped.Load()
}
