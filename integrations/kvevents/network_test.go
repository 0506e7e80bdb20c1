package kvevents_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/integrations/kvevents/publish"
)

// network connects by address to whoever publishes there now.
type network struct {
	mu sync.Mutex
	at map[string]*publish.Publisher
}

func (n *network) set(address string, p *publish.Publisher) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil {
		n.at = make(map[string]*publish.Publisher)
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
	p.Serve(there, map[string]string{"1": publish.PUB, "2": publish.ROUTER}[port])
	return here, nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
