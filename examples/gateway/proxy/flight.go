package proxy

import (
	"context"
	"sync"
)

// flight counts the requests that are being served. Unlike a sync.WaitGroup it can
// be waited for while others begin, and not for longer than one cares to.
type flight struct {
	mu struct {
		sync.Mutex
		n    int
		none chan struct{} // closed when n comes to 0; nil if nobody waits for that
	}
}

func (f *flight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.n++
}

func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.n--; f.mu.n == 0 && f.mu.none != nil {
		close(f.mu.none)
		f.mu.none = nil
	}
}

// landed waits for a moment when none is served.
func (f *flight) landed(ctx context.Context) error {
	f.mu.Lock()
	if f.mu.n == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.mu.none == nil {
		f.mu.none = make(chan struct{})
	}
	none := f.mu.none
	f.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
