package replicas

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// Network is a transport in memory, for replicas in one process: for tests and
// simulations. Its zero value is ready and delivers at once and in order.
type Network struct {
	// Route, if not nil, says of each message how long it is on its way and whether it
	// is lost. It is called with a lock held. Set it before the first Join.
	Route func(from, to string) (delay time.Duration, lost bool)

	mu sync.Mutex
	// nodes are those that joined and did not close; guarded by mu. A name may be there
	// twice, as with a real network.
	nodes []*node
}

// ErrClosed is returned by what was closed.
var ErrClosed = errors.New("replicas: closed")

// inbox is how many messages may be unread; further ones are lost.
const inbox = 4096

type node struct {
	network *Network
	name    string
	in      chan []byte // sent to and closed under the network's lock
	closed  bool        // guarded by it too
}

// Join returns the transport of a replica.
func (n *Network) Join(name string) Transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	joined := &node{network: n, name: name, in: make(chan []byte, inbox)}
	n.nodes = append(n.nodes, joined)
	return joined
}

func (t *node) Broadcast(message []byte) error {
	return t.send(message, func(to *node) bool { return to != t })
}

func (t *node) Send(name string, message []byte) error {
	return t.send(message, func(to *node) bool { return to.name == name && to != t })
}

func (t *node) send(message []byte, wanted func(*node) bool) error {
	n := t.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	for _, to := range n.nodes {
		if !wanted(to) {
			continue
		}
		var delay time.Duration
		if n.Route != nil {
			var lost bool
			if delay, lost = n.Route(t.name, to.name); lost {
				continue
			}
		}
		if sent := slices.Clone(message); delay > 0 {
			time.AfterFunc(delay, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				to.arriveLocked(sent)
			})
		} else {
			to.arriveLocked(sent)
		}
	}
	return nil
}

func (t *node) arriveLocked(message []byte) {
	if t.closed {
		return
	}
	select {
	case t.in <- message:
	default:
	}
}

func (t *node) Receive() <-chan []byte { return t.in }

func (t *node) Lag() time.Duration { return 0 }

func (t *node) Close() error {
	n := t.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	t.closed = true
	n.nodes = slices.DeleteFunc(n.nodes, func(other *node) bool { return other == t })
	close(t.in)
	return nil
}
