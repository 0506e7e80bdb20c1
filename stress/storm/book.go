package storm

import (
	"sync"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
)

// book holds what owners know for sure to be booked on one rank: never more than
// there is.
type book struct {
	mu struct {
		sync.Mutex
		count  int64 // bookings
		tokens int64 // of prefills that do not decay
		leaves uint64
		// above is since when tokens have been above each threshold, 0 if they
		// are not.
		above [len(thresholds)]uint64
	}
}

// enter adds a booking. REQUIRES: Schedule has returned it, and no caller has begun
// to end or move it.
func (b *book) enter(count, tokens int64, now func() uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.count += count
	b.mu.tokens += tokens
	for i, t := range thresholds {
		if b.mu.tokens > t && b.mu.above[i] == 0 {
			b.mu.above[i] = now()
		}
	}
}

// leave takes it out again, before whatever may end or move it.
func (b *book) leave(count, tokens int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.count -= count
	b.mu.tokens -= tokens
	b.mu.leaves++
	for i, t := range thresholds {
		if b.mu.tokens <= t {
			b.mu.above[i] = 0
		}
	}
}

// busySince reports whether the rank has been busy for sure from before an
// instant until now.
func (b *book) busySince(instant uint64, above int64) bool {
	for i, t := range thresholds {
		if t == above {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.mu.above[i] != 0 && b.mu.above[i] < instant
		}
	}
	return false
}

func (b *book) read() (count, tokens int64, leaves uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.count, b.mu.tokens, b.mu.leaves
}

// claim is one booking as its owner knows it.
type claim struct {
	b       engine.Booking
	id      string
	isl     int64
	tracked bool // its prefill counts
	decays  bool // and is taken to become less with time
	blocks  []uint64
	// shared: others may end it by its id.
	shared bool
	// own: it is released by its handle, which must not become stale.
	own bool

	mu struct {
		sync.Mutex
		book   *book // nil when it is not, or not for sure, on a rank known
		tokens int64
		// attempt is the latest. Transfers by id are made under mu, so that who
		// finds his handle stale can learn the new one.
		attempt uint64
	}
	ends    atomic.Int64 // calls that said they ended it
	done    atomic.Int64 // calls that said they ended its prefill
	outputs atomic.Int64
}

// withdraw takes the claim out of its book for good.
func (c *claim) withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.book != nil {
		c.mu.book.leave(1, c.mu.tokens)
		c.mu.book = nil
	}
}

// withdrawPrefill takes its prefill out of the book.
func (c *claim) withdrawPrefill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.book != nil {
		c.mu.book.leave(0, c.mu.tokens)
		c.mu.tokens = 0
	}
}

func (c *claim) attempt() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.attempt
}

// gone reports whether the engine has said that it ended the booking itself.
func (c *claim) gone() bool {
	select {
	case <-c.b.Done():
		return true
	default:
		return false
	}
}
