package actor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/internal/chance"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/sched/pool"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// Engine is a scheduler that is an actor. It has one goroutine, from New until
// Close.
//
// Every decision is made by whoever holds own: the goroutine, which holds it as
// long as it runs, and after that whichever caller or timer has something to be
// done. What is asked comes through one channel, in order, but for two things
// that must not stand in line: a caller that leaves (departures) and the news
// that there is something to look at (wake).
//
// The handover at Close loses nothing: the goroutine first sets stopped and then
// empties channel and departures; a sender first sends and then reads stopped. A
// sender that reads false has sent before the goroutine empties, and one that
// reads true empties itself.
//
// Lock order: own, then a rank's, then the leaves: departures, the clock's. A
// caller in the direct form takes ranks' locks without own.
type Engine struct {
	config Config
	params selector.Params
	clock  clock.Clock
	origin time.Time // times in nanoseconds count from here
	rand   selector.Rand
	env    *shards.Env

	// ids holds the record of every request that waits or is booked. Ids are
	// claimed by the actor and freed by whoever ends what they stand for.
	ids *xsync.MapOf[string, *record]
	// world is written by the actor and read by all.
	world    atomic.Pointer[pool.World]
	attempts atomic.Uint64
	// live counts the bookings with a ttl.
	live atomic.Int64
	// waiting counts the arrivals that are neither granted nor refused. It is
	// raised before the arrival is looked at; written by the actor, read by those
	// who free capacity.
	waiting           atomic.Int64
	admitted, queries atomic.Int64 // written by callers

	commands   chan command
	wake       chan struct{} // room for one token, which means "look"
	departures departures

	own     sync.Mutex
	core    core // guarded by own
	stopped atomic.Bool
	done    chan struct{} // closed when the goroutine ends

	ended chan struct{} // the channel of every booking that ended without its owner

	// Pools of this engine, so that its channels stay in their synctest bubble.
	jobs  sync.Pool // of *job
	ops   sync.Pool // of *op
	looks sync.Pool // of *pool.Look
}

var _ engine.Engine = (*Engine)(nil)

// command is one message.
type command interface {
	// run is called by the actor.
	run(*core)
}

// New starts an engine without workers. The error reports every fault of the
// config; it matches sched.ErrInvalid. The engine must be closed.
func New(config Config) (*Engine, error) {
	profile, params, err := face.Resolve(&config.Config)
	if err = errors.Join(err, config.check()); err != nil {
		return nil, err
	}
	if config.Selector == nil {
		config.Selector = selector.KV()
	}
	if config.Clock == nil {
		config.Clock = clock.System()
	}
	if config.Buffer == 0 {
		config.Buffer = DefaultBuffer
	}
	e := &Engine{
		config: config, params: params, clock: config.Clock, origin: config.Clock.Now(), rand: chance.Global{},
		ids:      xsync.NewMapOf[string, *record](),
		commands: make(chan command, config.Buffer), wake: make(chan struct{}, 1),
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	if config.Rand != nil {
		e.rand = chance.Locked(config.Rand)
	}
	e.env = &shards.Env{Now: e.now, NoPrefixIndex: !config.Index}
	if profile.CanQueue() {
		e.env.EnableHints()
	}
	e.env.Watch(pool.Watched(profile))
	close(e.ended)
	e.jobs.New = func() any { return &job{reply: make(chan signal, 1)} }
	e.ops.New = func() any { return &op{reply: make(chan struct{}, 1)} }
	e.looks.New = func() any { return &pool.Look{Rand: e.rand} }
	e.core.look.Rand = e.rand
	e.world.Store(pool.World{Table: shards.NewTable(), Profile: profile, Selector: config.Selector}.Made())
	e.own.Lock()
	e.core.init(e, profile)
	e.own.Unlock()
	go e.serve()
	return e, nil
}

// now returns the time in nanoseconds since the engine was made.
func (e *Engine) now() int64 { return int64(e.clock.Now().Sub(e.origin)) }

// burst bounds the commands after which timers are set anew.
const burst = 256

// serve is the goroutine.
func (e *Engine) serve() {
	defer close(e.done)
	e.own.Lock()
	defer e.own.Unlock()
	c := &e.core
	for !c.closing {
		select {
		case cmd := <-e.commands:
			cmd.run(c)
			e.drain(burst)
		case <-e.wake:
		}
		c.rest()
	}
	e.stopped.Store(true)
	e.act()
}

// act does all there is to do. REQUIRES: own.
func (e *Engine) act() {
	for e.drain(burst) {
	}
	e.core.rest()
}

// drain runs commands until there are none, at most n; then there may be more.
// REQUIRES: own.
func (e *Engine) drain(n int) (more bool) {
	for ; n > 0; n-- {
		select {
		case cmd := <-e.commands:
			cmd.run(&e.core)
		default:
			return false
		}
	}
	return true
}

// sent is called after something was sent to the actor.
func (e *Engine) sent() {
	if e.stopped.Load() {
		e.own.Lock()
		defer e.own.Unlock()
		e.act()
	}
}

// nudge has the actor look at departures, hints and what is due. However many
// ask before it comes to that, it looks once.
func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
	e.sent()
}

// task is a rare command.
type task struct {
	f    func(*core)
	done chan struct{}
}

func (t *task) run(c *core) {
	c.catchUp()
	t.f(c)
	close(t.done)
}

// do has the actor call f, and waits for that or for the context's end; then f
// may be called later.
func (e *Engine) do(ctx context.Context, f func(*core)) error {
	t := &task{f: f, done: make(chan struct{})}
	select {
	case e.commands <- t:
	case <-ctx.Done():
		return contextError("", ctx.Err())
	}
	e.sent()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return contextError("", ctx.Err())
	}
}

// Recheck implements engine.Engine.
func (e *Engine) Recheck(ctx context.Context) error {
	if p := e.world.Load().Profile; !p.CanQueue() && !p.WaitsForEndpoint() {
		return nil
	}
	return e.do(ctx, func(c *core) {
		c.line.Queue().OpenAll()
		c.catchUp()
	})
}

// Settle implements engine.Engine. What was asked before it is done by then,
// timers are set, and the hook was told.
func (e *Engine) Settle(ctx context.Context) error {
	return e.do(ctx, (*core).rest)
}

// Close implements engine.Engine. It ends the goroutine; from then on callers do
// by themselves, one at a time, what it would have done. So lifecycle calls go
// on working.
func (e *Engine) Close() error {
	err := e.do(context.Background(), (*core).close)
	<-e.done
	return err
}
