package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/seed-3c5df8a4/turnstile/integrations/replicas/protocol"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Config describes a replica.
type Config struct {
	// Name is the replica's, unique in its pool and at most 128 bytes of UTF-8; it is
	// what a Transport sends to. One that starts again should have the same.
	Name string
	// Incarnation must grow with each start under the name; default: the time.
	Incarnation uint64
	// Transport carries the messages. The replica closes it.
	Transport Transport
	// DeadAfter is the silence after which a peer is dropped; default 1.5 s, at least 1 s.
	DeadAfter time.Duration
	// Logger is told of peers that come and go; default slog.Default().
	Logger *slog.Logger
}

// Scheduler is what a replica needs of a *sched.Scheduler.
type Scheduler interface {
	OwnLoads(dst []sched.CausedLoad, mark uint64) ([]sched.CausedLoad, uint64)
	SetPeerLoads(peer sched.PeerID, loads []sched.CausedLoad)
	DropPeer(peer sched.PeerID)
}

// Replica tells the peers of a scheduler what load it causes, and it what they cause.
//
// How: one goroutine, that of Join, has the protocol's state to itself. It wakes when
// the scheduler says that its load has moved, when a message comes, and when the
// protocol has something to do; it then applies what came and sends what is due. Several
// messages that are there are taken in one go. Those who book pay a send into a channel
// that has room or needs none.
type Replica struct {
	config Config
	began  time.Time

	changed chan struct{} // the own load has moved
	stop    chan struct{}
	ended   chan struct{} // nil before Join; guarded by mu until then
	ready   chan struct{}

	mu struct {
		sync.Mutex
		core   *protocol.Core
		joined bool
		closed bool
	}
	counts struct{ sent, bytes, malformed, failed atomic.Int64 }

	// Of the goroutine alone.
	scheduler Scheduler
	mark      uint64
	own       []sched.CausedLoad
	loads     []protocol.Load
	wire      []byte
	failing   bool // the last send failed
}

var _ sched.Fleet = (*Replica)(nil)

// New returns a replica for sched.WithFleet. It says nothing until Join.
func New(config Config) (*Replica, error) {
	var faults []error
	if config.Name == "" || len(config.Name) > protocol.MaxName || !utf8.ValidString(config.Name) {
		faults = append(faults, fmt.Errorf("replicas: name %q: must be UTF-8 of 1 to %d bytes", config.Name, protocol.MaxName))
	}
	if config.Transport == nil {
		faults = append(faults, errors.New("replicas: a transport is needed"))
	}
	if config.DeadAfter != 0 && config.DeadAfter < time.Second {
		faults = append(faults, fmt.Errorf("replicas: DeadAfter %v: must be at least 1s, of which a peer beats four times", config.DeadAfter))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	config.Incarnation = cmp.Or(config.Incarnation, uint64(time.Now().UnixNano()))
	config.Logger = cmp.Or(config.Logger, slog.Default())
	r := &Replica{
		config: config, began: time.Now(), changed: make(chan struct{}, 1),
		stop: make(chan struct{}), ended: make(chan struct{}), ready: make(chan struct{}),
	}
	r.mu.core = protocol.New(protocol.Config{
		Name: config.Name, Incarnation: config.Incarnation, DeadAfter: config.DeadAfter,
	})
	return r, nil
}

// Changed implements sched.Fleet.
func (r *Replica) Changed() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Join begins to speak for the scheduler, which must have been made with
// sched.WithFleet of this replica, and returns when the scheduler has what its peers
// cause: typically within 50 ms, 300 ms if there are none, and 1 s at most, with or
// without. Requests that come before that find the pool emptier than it is, so serve
// after it. It fails only if ctx ends before; then the replica is closed.
func (r *Replica) Join(ctx context.Context, s Scheduler) error {
	r.mu.Lock()
	if r.mu.joined || r.mu.closed {
		r.mu.Unlock()
		return errors.New("replicas: joined before, or closed")
	}
	r.mu.joined = true
	r.mu.Unlock()
	r.scheduler = s
	go r.run()
	select {
	case <-r.ready:
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), r.Close())
	}
}

// Close says good-bye, drops what the peers cause and closes the transport. The peers
// drop at once what this scheduler causes: close it after the scheduler is drained. The
// scheduler goes on alone. A second Close does nothing.
func (r *Replica) Close() error {
	r.mu.Lock()
	joined, closed := r.mu.joined, r.mu.closed
	r.mu.closed = true
	r.mu.Unlock()
	if closed {
		return nil
	}
	close(r.stop)
	if joined {
		<-r.ended
	}
	return r.config.Transport.Close()
}

func (r *Replica) now() time.Duration { return time.Since(r.began) }

// atOnce is how many messages are taken before others get a turn.
const atOnce = 256

func (r *Replica) run() {
	defer close(r.ended)
	r.step((*protocol.Core).Start)
	in := r.config.Transport.Receive()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.stop:
			r.step(func(c *protocol.Core, _ time.Duration) protocol.Output { return c.Close() })
			return
		case <-r.changed:
			r.mu.Lock()
			r.mu.core.Changed()
			r.mu.Unlock()
		case message, open := <-in:
			// All that is there: also after a time in which the process stood still, so
			// that nobody is taken for dead whose words are there already.
			for range atOnce {
				if !open {
					in = nil
					r.config.Logger.Warn("replicas: the transport has ended: going on alone", "name", r.config.Name)
					break
				}
				r.receive(message)
				if len(in) == 0 {
					break
				}
				message, open = <-in
			}
		case <-timer.C:
		}
		timer.Reset(r.tick())
	}
}

// tick does what is due and returns the time until something is.
func (r *Replica) tick() time.Duration {
	r.mu.Lock()
	next := r.mu.core.Next()
	r.mu.Unlock()
	if next <= r.now() {
		r.step((*protocol.Core).Tick)
		r.mu.Lock()
		next = r.mu.core.Next()
		r.mu.Unlock()
	}
	// No more often than in steps of the protocol's shortest time, whatever it says.
	return max(next-r.now(), 50*time.Microsecond)
}

func (r *Replica) receive(wire []byte) {
	if len(wire) == 0 {
		r.step(func(c *protocol.Core, _ time.Duration) protocol.Output { return c.Reconnected() })
		return
	}
	m, err := protocol.Decode(wire)
	if err != nil {
		if r.counts.malformed.Add(1) == 1 {
			r.config.Logger.Warn("replicas: a message could not be read; further ones are only counted", "err", err)
		}
		return
	}
	r.step(func(c *protocol.Core, now time.Duration) protocol.Output { return c.Receive(now, &m) })
}

// step has the protocol take something, and does what comes of it, without its lock.
func (r *Replica) step(f func(*protocol.Core, time.Duration) protocol.Output) {
	r.mu.Lock()
	out := f(r.mu.core, r.now())
	ready := r.mu.core.Ready()
	r.mu.Unlock()
	r.send(out.Send)
	for i := range out.Effects {
		r.apply(&out.Effects[i])
	}
	if ready {
		select {
		case <-r.ready:
		default:
			close(r.ready)
		}
	}
	if out.Collect {
		r.collect()
	}
}

func (r *Replica) send(messages []protocol.Message) {
	for i := range messages {
		m := &messages[i]
		r.wire = m.Append(r.wire[:0])
		var err error
		if m.To == "" {
			err = r.config.Transport.Broadcast(r.wire)
		} else {
			err = r.config.Transport.Send(m.To, r.wire)
		}
		if err != nil {
			r.counts.failed.Add(1)
		} else {
			r.counts.sent.Add(1)
			r.counts.bytes.Add(int64(len(r.wire)))
		}
		if failing := err != nil; failing != r.failing {
			r.failing = failing
			if failing {
				r.config.Logger.Warn("replicas: cannot send: going on alone until it works", "name", r.config.Name, "err", err)
			} else {
				r.config.Logger.Info("replicas: can send again", "name", r.config.Name)
			}
		}
	}
}

func (r *Replica) apply(e *protocol.Effect) {
	peer := sched.PeerID(e.Peer)
	switch {
	case e.Drop:
		r.scheduler.DropPeer(peer)
		r.config.Logger.Info("replicas: a peer is gone", "name", r.config.Name, "peer", e.Name, "why", e.Why)
		return
	case e.Why != "":
		r.config.Logger.Info("replicas: a peer is there", "name", r.config.Name, "peer", e.Name)
	}
	r.own = r.own[:0]
	for _, l := range e.Loads {
		r.own = append(r.own, sched.CausedLoad{
			Rank:          sched.RankID{Worker: l.Worker, Rank: l.Rank.Rank},
			PrefillTokens: l.Prefill, Blocks: l.Blocks, Requests: l.Requests, Version: l.Version,
		})
	}
	r.scheduler.SetPeerLoads(peer, r.own)
}

// collect reads the own load and has it told.
func (r *Replica) collect() {
	r.own, r.mark = r.scheduler.OwnLoads(r.own[:0], r.mark)
	r.loads = r.loads[:0]
	fades := false
	for i := range r.own {
		l := &r.own[i]
		fades = fades || l.Fades
		r.loads = append(r.loads, protocol.Load{
			Rank:    protocol.Rank{Worker: l.Rank.Worker, Rank: l.Rank.Rank},
			Prefill: l.PrefillTokens, Blocks: l.Blocks, Requests: l.Requests,
		})
	}
	r.step(func(c *protocol.Core, now time.Duration) protocol.Output { return c.Loads(now, r.loads, fades) })
}
