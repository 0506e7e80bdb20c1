package kvevents

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// The wire is ZMTP 3.0 with the NULL mechanism, as a client: a greeting, a READY
// command each way, then messages of frames. What engines offer is no more than that, and
// what is needed of it no more than a SUB and a DEALER socket.

// Bounds of what a publisher may send.
const (
	mostBytes  = 64 << 20 // of a message
	mostFrames = 8
	keptBytes  = 1 << 20 // of a buffer, after a large message
)

// Bounds of patience.
const (
	dialTime  = 5 * time.Second
	replyTime = 5 * time.Second  // for the next message of an answer
	restTime  = 30 * time.Second // for the rest of a message
)

var (
	errTooLong = errors.New("kvevents: message is longer than 64 MiB or has more than 8 frames")
	errForeign = errors.New("kvevents: peer does not speak ZMTP 3 without security")
)

// dialer makes a connection; tests have others than the network's.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialNet notices within 15 s that a host is gone.
func dialNet(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 2,
	}}
	return d.DialContext(ctx, network, address)
}

// endpoint takes tcp://host:port and ipc:///path apart.
func endpoint(s string) (network, address string, err error) {
	if address, ok := strings.CutPrefix(s, "tcp://"); ok {
		_, _, err = net.SplitHostPort(address)
		return "tcp", address, err
	}
	if address, ok := strings.CutPrefix(s, "ipc://"); ok && address != "" {
		return "unix", address, nil
	}
	return "", "", fmt.Errorf("kvevents: endpoint %q: must be tcp://host:port or ipc://path", s)
}

// peer is one connection. Not safe for concurrent use.
type peer struct {
	conn  net.Conn
	r     *bufio.Reader
	until time.Time // the read deadline
	buf   []byte    // the frames of the last message, one after the other
	ends  []int
	stop  func() bool
}

// connect returns a peer whose socket is of type other, after both have greeted. It is
// closed when ctx ends.
func connect(ctx context.Context, dial dialer, at, kind, other string) (*peer, error) {
	network, address, err := endpoint(at)
	if err != nil {
		return nil, err
	}
	dialing, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := dial(dialing, network, address)
	if err != nil {
		return nil, err
	}
	p := &peer{conn: conn, r: bufio.NewReaderSize(conn, 128<<10)}
	p.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err = p.greet(kind, other); err != nil {
		p.close()
		return nil, fmt.Errorf("kvevents: greet %s: %w", at, err)
	}
	return p, nil
}

func (p *peer) close() {
	p.stop()
	_ = p.conn.Close()
}

func (p *peer) greet(kind, other string) error {
	if err := p.conn.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	if _, err := p.conn.Write(greeting); err != nil {
		return err
	}
	if _, err := io.ReadFull(p.r, greeting); err != nil {
		return err
	}
	if greeting[0] != 0xff || greeting[9] != 0x7f || greeting[10] < 3 || string(greeting[12:17]) != "NULL\x00" {
		return errForeign
	}
	ready := []byte("\x05READY\x0bSocket-Type")
	ready = binary.BigEndian.AppendUint32(ready, uint32(len(kind)))
	ready = append(ready, kind...)
	if kind == "DEALER" {
		ready = append(ready, "\x08Identity\x00\x00\x00\x00"...)
	}
	if _, err := p.conn.Write(append([]byte{4, byte(len(ready))}, ready...)); err != nil {
		return err
	}
	p.buf, p.ends = p.buf[:0], p.ends[:0]
	flags, err := p.frame()
	if err != nil {
		return err
	}
	if flags&4 == 0 || !strings.HasPrefix(string(p.buf), "\x05READY") {
		return errForeign
	}
	if !strings.Contains(string(p.buf), other) {
		return fmt.Errorf("kvevents: the peer is no %s socket", other)
	}
	return p.conn.SetDeadline(time.Time{})
}

// frame reads a frame to the end of buf and returns its flags. It allocates as bytes
// come and not as they are announced.
func (p *peer) frame() (flags byte, err error) {
	if flags, err = p.r.ReadByte(); err != nil {
		return 0, err
	}
	size := 1
	if flags&2 != 0 {
		size = 8
	}
	var long [8]byte
	if _, err = io.ReadFull(p.r, long[8-size:]); err != nil {
		return flags, err
	}
	n := binary.BigEndian.Uint64(long[:])
	if n > mostBytes || len(p.buf)+int(n) > mostBytes || len(p.ends) >= mostFrames {
		return flags, errTooLong
	}
	for left := int(n); left > 0; {
		from := len(p.buf)
		part := min(left, max(cap(p.buf)-from, 64<<10))
		if cap(p.buf)-from < part {
			p.buf = append(p.buf, make([]byte, part)...)
		}
		p.buf = p.buf[:from+part]
		if _, err = io.ReadFull(p.r, p.buf[from:]); err != nil {
			return flags, err
		}
		left -= part
	}
	p.ends = append(p.ends, len(p.buf))
	return flags, nil
}

// message reads the next message. It waits so long for its first byte, and then returns
// os.ErrDeadlineExceeded with the connection as it was.
func (p *peer) message(idle time.Duration) error {
	if cap(p.buf) > keptBytes {
		p.buf = nil
	}
	for {
		p.buf, p.ends = p.buf[:0], p.ends[:0]
		if p.r.Buffered() == 0 {
			p.until = time.Time{}
			if err := p.conn.SetReadDeadline(time.Now().Add(idle)); err != nil {
				return err
			}
			if _, err := p.r.Peek(1); err != nil {
				return err
			}
		}
		if now := time.Now(); p.until.Sub(now) < restTime/2 {
			p.until = now.Add(restTime)
			if err := p.conn.SetReadDeadline(p.until); err != nil {
				return err
			}
		}
		more := true
		for more {
			flags, err := p.frame()
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) { // within a message
					err = io.ErrUnexpectedEOF
				}
				return err
			}
			if more = flags&1 != 0; flags&4 != 0 {
				p.buf, p.ends = p.buf[:0], p.ends[:0] // a command: none matters here
				break
			}
		}
		if len(p.ends) > 0 {
			return nil
		}
	}
}

// part returns a frame of the last message, counted from the end: engines put more in
// front as they please. It is valid until the next message.
func (p *peer) part(fromEnd int) []byte {
	i := len(p.ends) - 1 - fromEnd
	if i < 0 {
		return nil
	}
	from := 0
	if i > 0 {
		from = p.ends[i-1]
	}
	return p.buf[from:p.ends[i]]
}

// send writes a message of short frames.
func (p *peer) send(frames ...string) error {
	var out []byte
	for i, frame := range frames {
		flags := byte(0)
		if i < len(frames)-1 {
			flags = 1
		}
		if len(frame) > 255 {
			out = binary.BigEndian.AppendUint64(append(out, flags|2), uint64(len(frame)))
		} else {
			out = append(out, flags, byte(len(frame)))
		}
		out = append(out, frame...)
	}
	if err := p.conn.SetWriteDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	_, err := p.conn.Write(out)
	return err
}

// numbered takes the last two frames for a sequence number, with what identifies the
// publisher if it says so, and a payload.
func (p *peer) numbered() (m message, err error) {
	seq := p.part(1)
	if len(seq) < 8 {
		return m, fmt.Errorf("kvevents: message of %d frames without a sequence number", len(p.ends))
	}
	return message{seq: binary.BigEndian.Uint64(seq), identity: seq[8:], payload: p.part(0)}, nil
}

// message is what an engine publishes. Its bytes are valid until the next is read.
type message struct {
	seq               uint64
	identity, payload []byte
}
