package publish

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"sync"
)

// The kinds of sockets that a publisher has.
const (
	PUB    = "PUB"    // the stream
	ROUTER = "ROUTER" // what was published before, again
)

// Publisher publishes the changes of one rank's cache to its subscribers. It is safe for
// concurrent use.
type Publisher struct {
	ring   int
	served sync.WaitGroup
	mu     struct {
		sync.Mutex
		life
		subs      map[net.Conn]chan message
		conns     map[net.Conn]bool
		listeners []net.Listener
		closed    bool
		down      bool // no follower is served
		mute      bool // requests for what was published before get no answer
		identity  []byte
		noTopic   bool // in answers to such requests
	}
}

// life is what a process of an engine knows.
type life struct {
	seq  uint64
	past []message
}

type message struct {
	seq     uint64
	payload []byte
}

// highWater is how many messages wait for a subscriber before it misses some.
const highWater = 1 << 16

// New returns a publisher that repeats up to ring batches.
func New(ring int) *Publisher {
	p := &Publisher{ring: ring}
	p.mu.subs, p.mu.conns = make(map[net.Conn]chan message), make(map[net.Conn]bool)
	return p
}

// Listen has the publisher serve on these TCP addresses, such as 127.0.0.1:0, and returns
// them as followers need them.
func (p *Publisher) Listen(events, replay string) (eventsAt, replayAt string, err error) {
	if eventsAt, err = p.listen(events, PUB); err != nil {
		return "", "", err
	}
	replayAt, err = p.listen(replay, ROUTER)
	return eventsAt, replayAt, err
}

func (p *Publisher) listen(address, kind string) (at string, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return "", errors.Join(net.ErrClosed, l.Close())
	}
	p.mu.listeners = append(p.mu.listeners, l)
	p.served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.Serve(conn, kind)
		}
	})
	return "tcp://" + l.Addr().String(), nil
}

// Serve serves a connection as a socket of a kind, on goroutines of its own.
func (p *Publisher) Serve(conn net.Conn, kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed || p.mu.down {
		_ = conn.Close()
		return
	}
	p.mu.conns[conn] = true
	p.served.Go(func() {
		defer func() {
			_ = conn.Close()
			p.mu.Lock()
			delete(p.mu.conns, conn)
			p.mu.Unlock()
		}()
		r := bufio.NewReader(conn)
		if Greet(conn, r, kind) != nil {
			return
		}
		if kind == PUB {
			p.stream(conn, r)
		} else {
			p.repeat(conn, r)
		}
	})
}

// Publish sends a batch to all subscribers.
func (p *Publisher) Publish(payload []byte) { p.publish(payload, true) }

// Lose publishes a batch that no subscriber hears, as if all were too slow. It is repeated
// on request.
func (p *Publisher) Lose(payload []byte) { p.publish(payload, false) }

func (p *Publisher) publish(payload []byte, heard bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := message{p.mu.seq, payload}
	p.mu.seq++
	if p.mu.past = append(p.mu.past, m); len(p.mu.past) > p.ring {
		p.mu.past = p.mu.past[1:]
	}
	if !heard {
		return
	}
	for _, queue := range p.mu.subs {
		select {
		case queue <- m:
		default: // at the high-water mark
		}
	}
}

// Cut closes all connections. The publisher lives on.
func (p *Publisher) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

func (p *Publisher) cutLocked() {
	for conn := range p.mu.conns {
		_ = conn.Close()
	}
}

// Kill ends this life: until Restart no follower is served.
func (p *Publisher) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.down = true
	p.cutLocked()
}

// Restart begins a new life at the same addresses: numbers begin anew, and nothing that
// was published before is known.
func (p *Publisher) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.down = false
	p.mu.life = life{}
	p.cutLocked()
}

// Renew begins a new life behind the same connections, as a proxy would have it.
func (p *Publisher) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.life = life{}
}

// Mute has the publisher take the questions for what was published before and give no
// answer.
func (p *Publisher) Mute(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.mute = mute
}

// Identify puts an identity into each message. Nil, as at first, puts none.
func (p *Publisher) Identify(identity []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.identity = identity
}

// OmitTopic leaves the topic out of what is repeated, as engines did until 2026.
func (p *Publisher) OmitTopic() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.noTopic = true
}

// Raw writes bytes to all subscribers, past all rules.
func (p *Publisher) Raw(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.mu.subs {
		_, _ = conn.Write(text)
	}
}

// Close ends the publisher for good. It returns when nothing of it runs any more.
func (p *Publisher) Close() {
	p.mu.Lock()
	p.mu.closed = true
	for _, l := range p.mu.listeners {
		_ = l.Close()
	}
	p.cutLocked()
	p.mu.Unlock()
	p.served.Wait()
}

// stream sends what is published to one subscriber, whatever topic it asks for.
func (p *Publisher) stream(conn net.Conn, r *bufio.Reader) {
	if _, body, err := ReadFrame(r); err != nil || len(body) == 0 || body[0] != 1 {
		return
	}
	queue := make(chan message, highWater)
	p.mu.Lock()
	p.mu.subs[conn] = queue
	p.mu.Unlock()
	gone := make(chan struct{})
	p.served.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, r)
	})
	defer func() {
		_ = conn.Close()
		<-gone
		p.mu.Lock()
		delete(p.mu.subs, conn)
		p.mu.Unlock()
	}()
	for {
		select {
		case <-gone:
			return
		case m := <-queue:
			p.mu.Lock()
			identity := p.mu.identity
			p.mu.Unlock()
			if _, err := conn.Write(m.append(nil, true, identity)); err != nil {
				return
			}
		}
	}
}

// repeat answers requests for what was published from a number on.
func (p *Publisher) repeat(conn net.Conn, r *bufio.Reader) {
	for {
		if _, _, err := ReadFrame(r); err != nil { // the delimiter
			return
		}
		_, from, err := ReadFrame(r)
		if err != nil || len(from) != 8 {
			return
		}
		p.mu.Lock()
		past := append([]message(nil), p.mu.past...)
		mute, topic, identity := p.mu.mute, !p.mu.noTopic, p.mu.identity
		p.mu.Unlock()
		if mute {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		for _, m := range append(past, message{seq: math.MaxUint64}) {
			if m.seq < binary.BigEndian.Uint64(from) {
				continue
			}
			if _, err := conn.Write(m.append(AppendFrame(nil, more, nil), topic, identity)); err != nil {
				return
			}
		}
	}
}

func (m message) append(to []byte, topic bool, identity []byte) []byte {
	if topic {
		to = AppendFrame(to, more, []byte("kv"))
	}
	to = AppendFrame(to, more, append(binary.BigEndian.AppendUint64(nil, m.seq), identity...))
	return AppendFrame(to, 0, m.payload)
}
