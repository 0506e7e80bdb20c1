package endpointpicker

import (
	"net"
	"net/url"
	"strings"
	"sync"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// book finds the rank of an address. It keeps what it found; each entry is held
// against the worker as it is before it is used, and what is not found is looked for
// among all workers again.
type book struct {
	scheduler *sched.Scheduler
	address   func(sched.Placement) string

	mu struct {
		sync.RWMutex
		ranks map[string]sched.RankID
	}
}

// find returns the rank of each address that is one of ours.
func (b *book) find(addresses ...string) (found []sched.RankID) {
	b.mu.RLock()
	ranks := b.mu.ranks
	b.mu.RUnlock()
	for _, address := range addresses {
		rank, known := ranks[address]
		if known && b.of(rank) == address {
			found = append(found, rank)
			continue
		}
		ranks = b.read()
		found = found[:0]
		for _, address := range addresses {
			if rank, known := ranks[address]; known {
				found = append(found, rank)
			}
		}
		break
	}
	return found
}

// of returns the address of a rank, empty if its worker is gone.
func (b *book) of(rank sched.RankID) string {
	w, err := b.scheduler.Worker(rank.Worker)
	if err != nil {
		return ""
	}
	return b.address(sched.Placement{Rank: rank, Endpoint: w.Endpoint})
}

// read asks all workers for their addresses. Of ranks with one address the first
// stands for it.
func (b *book) read() map[string]sched.RankID {
	ranks := make(map[string]sched.RankID)
	for _, load := range b.scheduler.Loads() {
		address := b.of(load.Rank)
		if _, known := ranks[address]; !known && address != "" {
			ranks[address] = load.Rank
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.ranks = ranks
	return ranks
}

// hostPort returns host and port of an endpoint, which may be a URL.
func hostPort(endpoint string) string {
	if !strings.Contains(endpoint, "://") {
		return endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	switch port := u.Port(); {
	case port != "" || u.Host == "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	default:
		return net.JoinHostPort(u.Hostname(), "80")
	}
}
