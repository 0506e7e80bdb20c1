package kvevents_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"time"
)

// publisher is the engine's side of the wire in this process: a PUB and a ROUTER socket
// over any connection, written for the tests from the description of the protocol.
type publisher struct {
	identity []byte // after the sequence number, if any
	topics   bool   // answers of the replay have a topic, too
	ring     int    // batches that are repeated

	mu     sync.Mutex
	seq    uint64
	past   []published
	subs   map[net.Conn]chan published
	conns  map[net.Conn]bool
	closed bool
	mute   bool // replay is not answered
	served sync.WaitGroup
}

type published struct {
	seq     uint64
	payload []byte
}

func newPublisher(ring int) *publisher {
	return &publisher{ring: ring, topics: true, subs: make(map[net.Conn]chan published), conns: make(map[net.Conn]bool)}
}

// publish sends a batch to those who listen, or to nobody: as if they were too slow.
func (p *publisher) publish(payload []byte, heard bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := published{p.seq, payload}
	p.seq++
	p.past = append(p.past, m)
	if len(p.past) > p.ring {
		p.past = p.past[1:]
	}
	if !heard {
		return
	}
	for _, queue := range p.subs {
		select {
		case queue <- m:
		default: // at the high-water mark
		}
	}
}

// cut closes all connections; the publisher lives on.
func (p *publisher) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// end is the end of this life.
func (p *publisher) end() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cut()
	p.served.Wait()
}

func (p *publisher) setMute(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
}

// serve takes a connection and serves it on goroutines of its own.
func (p *publisher) serve(conn net.Conn, kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return
	}
	p.conns[conn] = true
	p.served.Go(func() {
		defer func() {
			_ = conn.Close()
			p.mu.Lock()
			delete(p.conns, conn)
			p.mu.Unlock()
		}()
		r := bufio.NewReader(conn)
		if handshake(conn, r, kind) != nil {
			return
		}
		if kind == "PUB" {
			p.pub(conn, r)
		} else {
			p.router(conn, r)
		}
	})
}

func handshake(conn net.Conn, r *bufio.Reader, kind string) error {
	greeting := make([]byte, 64)
	if _, err := io.ReadFull(r, greeting); err != nil {
		return err
	}
	greeting[0], greeting[9], greeting[10], greeting[11] = 0xff, 0x7f, 3, 1
	if _, err := conn.Write(greeting); err != nil {
		return err
	}
	flags, ready, err := readFrame(r)
	if err != nil {
		return err
	}
	if flags != 4 || !bytes.HasPrefix(ready, []byte("\x05READY")) {
		return errors.New("no READY")
	}
	body := append([]byte("\x05READY\x0bSocket-Type\x00\x00\x00"), byte(len(kind)))
	return writeFrame(conn, 4, append(body, kind...))
}

func readFrame(r *bufio.Reader) (flags byte, body []byte, err error) {
	if flags, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n := uint64(0)
	if flags&2 != 0 {
		err = binary.Read(r, binary.BigEndian, &n)
	} else {
		var short byte
		short, err = r.ReadByte()
		n = uint64(short)
	}
	if err != nil {
		return 0, nil, err
	}
	body = make([]byte, n)
	_, err = io.ReadFull(r, body)
	return flags &^ 2, body, err
}

func frameOf(flags byte, body []byte) []byte {
	var out []byte
	if len(body) > 255 {
		out = binary.BigEndian.AppendUint64([]byte{flags | 2}, uint64(len(body)))
	} else {
		out = []byte{flags, byte(len(body))}
	}
	return append(out, body...)
}

func writeFrame(w io.Writer, flags byte, body []byte) error {
	_, err := w.Write(frameOf(flags, body))
	return err
}

func (p *publisher) numbered(topic bool, m published) []byte {
	var out []byte
	if topic {
		out = frameOf(1, []byte("kv"))
	}
	out = append(out, frameOf(1, append(binary.BigEndian.AppendUint64(nil, m.seq), p.identity...))...)
	return append(out, frameOf(0, m.payload)...)
}

func (p *publisher) pub(conn net.Conn, r *bufio.Reader) {
	if _, body, err := readFrame(r); err != nil || len(body) == 0 || body[0] != 1 {
		return
	}
	queue := make(chan published, 1<<16)
	p.mu.Lock()
	p.subs[conn] = queue
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
		delete(p.subs, conn)
		p.mu.Unlock()
	}()
	for {
		select {
		case <-gone:
			return
		case m := <-queue:
			if _, err := conn.Write(p.numbered(true, m)); err != nil {
				return
			}
		}
	}
}

func (p *publisher) router(conn net.Conn, r *bufio.Reader) {
	for {
		if _, _, err := readFrame(r); err != nil { // the delimiter
			return
		}
		_, from, err := readFrame(r)
		if err != nil || len(from) != 8 {
			return
		}
		p.mu.Lock()
		past := append([]published(nil), p.past...)
		mute := p.mute
		p.mu.Unlock()
		if mute {
			_, _ = io.Copy(io.Discard, r)
			return
		}
		past = append(past, published{seq: math.MaxUint64})
		for _, m := range past {
			if m.seq < binary.BigEndian.Uint64(from) {
				continue
			}
			if _, err := conn.Write(append(frameOf(1, nil), p.numbered(p.topics, m)...)); err != nil {
				return
			}
		}
	}
}

// network connects by address to whoever publishes there now.
type network struct {
	mu sync.Mutex
	at map[string]*publisher
}

func (n *network) set(address string, p *publisher) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil {
		n.at = make(map[string]*publisher)
	}
	n.at[address] = p
}

// dial is the dialer of an index: events at :1, replay at :2.
func (n *network) dial(_ context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	p := n.at[host]
	n.mu.Unlock()
	if p == nil {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	p.serve(there, map[string]string{"1": "PUB", "2": "ROUTER"}[port])
	return here, nil
}

// listen serves the publisher on ports of this machine.
func (p *publisher) listen(t interface {
	Fatal(...any)
	Cleanup(func())
}) (events, replay string) {
	at := make(map[string]string)
	for _, kind := range []string{"PUB", "ROUTER"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at[kind] = "tcp://" + l.Addr().String()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				p.serve(conn, kind)
			}
		}()
		t.Cleanup(func() { _ = l.Close() })
	}
	t.Cleanup(p.end)
	return at["PUB"], at["ROUTER"]
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
