package replay

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/simrank"
)

// never is the time of the next event of a rank that has nothing to do.
const never = math.MaxInt64

// node is one simulated rank that callers and the driver share.
// LOCK ORDER: node → holders.
type node struct {
	driver *driver
	// next is the simulated time of the rank's next event, or never; written
	// under mu, read by the driver at each tick.
	next atomic.Int64
	mu   struct {
		sync.Mutex
		rank *simrank.Rank
	}
}

func newNode(d *driver, i int) *node {
	n := &node{driver: d}
	n.mu.rank = simrank.New(d.cfg.Rank, d.holders.Of(i))
	n.next.Store(never)
	return n
}

// eventSpace is room on the stack for the events of one step; more are rare.
type eventSpace [16]simrank.Event

// submit gives the rank request i.
func (n *node) submit(i int, blocks []uint64) {
	r := &n.driver.cfg.Requests[i]
	var space eventSpace
	n.mu.Lock()
	job := simrank.Job{Tag: i, ISL: r.ISL, OSL: r.OSL, Blocks: blocks}
	events := n.mu.rank.Submit(n.driver.now(), job, space[:0])
	n.recordLocked(events)
	n.mu.Unlock()
	n.wake(events)
}

// advance lets happen what is due.
func (n *node) advance(now time.Duration) {
	if n.next.Load() > int64(now) {
		return
	}
	var space eventSpace
	n.mu.Lock()
	events := n.mu.rank.Advance(now, space[:0])
	n.recordLocked(events)
	n.mu.Unlock()
	n.wake(events)
}

// recordLocked leaves events where their callers find them.
func (n *node) recordLocked(events []simrank.Event) {
	next, ok := n.mu.rank.Next()
	if !ok {
		next = never
	}
	n.next.Store(int64(next))
	for _, e := range events {
		f := &n.driver.flights[e.Tag]
		switch e.Kind {
		case simrank.FirstToken:
			f.news.firstToken = true
			f.news.firstTokenAt = e.At - n.driver.cfg.Requests[e.Tag].At
		case simrank.OutputBlock:
			f.news.outputBlocks++
		case simrank.Finished:
			f.news.finished = true
		}
	}
}

// wake tells callers that there is news; one token means only to look.
func (n *node) wake(events []simrank.Event) {
	for _, e := range events {
		select {
		case n.driver.flights[e.Tag].notify <- struct{}{}:
		default:
		}
	}
}

// take returns the news of a request and clears it.
func (n *node) take(f *flight) news {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := f.news
	f.news = news{}
	return got
}

func (n *node) idle() bool { return n.next.Load() == never }

func (n *node) totals() simrank.Totals {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.rank.Totals()
}
