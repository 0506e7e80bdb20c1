package proxy

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"
)

// pulse sends a comment line on a stream that waits for its turn, again and again, so
// that nothing on the way takes the connection for dead. The first one begins the
// answer: what is refused after that is told by an event, as its status cannot be.
type pulse struct {
	to     http.ResponseWriter
	id     string
	every  time.Duration
	header http.Header // of the answer, until it is sent; the handler's alone

	// mu guards what follows and all use of to, by the timer's goroutine and the
	// handler's: it is held while a line is written, which the write deadline bounds.
	mu struct {
		sync.Mutex
		timer *time.Timer // nil once the answer itself has begun
		begun bool        // a comment was sent
		late  bool        // the answer is no stream, and comes after a comment
		held  bytes.Buffer
	}
}

const comment = ": the request waits for its turn\n\n"

// mostHeld bounds what is kept of an answer that must become an event.
const mostHeld = 64 << 10

func newPulse(to http.ResponseWriter, id string, every time.Duration) *pulse {
	p := &pulse{to: to, id: id, every: every, header: maps.Clone(to.Header())}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.timer = time.AfterFunc(every, p.beat)
	return p
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.timer == nil {
		return
	}
	if !p.mu.begun {
		p.mu.begun = true
		h := p.to.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Request-Id", p.id)
		p.to.WriteHeader(http.StatusOK)
	}
	if _, err := io.WriteString(p.to, comment); err != nil {
		return // the client has gone, and is noticed elsewhere
	}
	_ = http.NewResponseController(p.to).Flush()
	p.mu.timer.Reset(p.every)
}

// Header is that of the answer itself.
func (p *pulse) Header() http.Header { return p.header }

// WriteHeader begins the answer itself.
func (p *pulse) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	informs := status < http.StatusOK
	if informs && p.mu.begun {
		return
	}
	if p.mu.timer != nil && !informs {
		p.mu.timer.Stop()
		p.mu.timer = nil
	}
	if p.mu.begun {
		p.mu.late = status != http.StatusOK
		return
	}
	h := p.to.Header()
	clear(h)
	maps.Copy(h, p.header)
	p.to.WriteHeader(status)
}

// Write passes the answer on, or keeps what must become an event.
func (p *pulse) Write(piece []byte) (int, error) {
	p.mu.Lock()
	begun := p.mu.timer == nil
	p.mu.Unlock()
	if !begun {
		p.WriteHeader(http.StatusOK)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.late {
		return p.to.Write(piece)
	}
	if p.mu.held.Len()+len(piece) <= mostHeld {
		p.mu.held.Write(piece)
	}
	return len(piece), nil
}

// FlushError sends what was written.
func (p *pulse) FlushError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.late || p.mu.timer != nil {
		return nil
	}
	return http.NewResponseController(p.to).Flush()
}

// Unwrap has deadlines reach the connection.
func (p *pulse) Unwrap() http.ResponseWriter { return p.to }

// end stops the comments, and sends the event of an answer that is none.
func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.timer != nil {
		p.mu.timer.Stop()
		p.mu.timer = nil
	}
	if !p.mu.late {
		return
	}
	var event bytes.Buffer
	event.WriteString("data: ")
	if json.Compact(&event, p.mu.held.Bytes()) != nil { // an engine's own words
		text, _ := json.Marshal(p.mu.held.String())
		event.Write(text)
	}
	event.WriteString("\n\n")
	_, _ = p.to.Write(event.Bytes())
	_ = http.NewResponseController(p.to).Flush()
}
