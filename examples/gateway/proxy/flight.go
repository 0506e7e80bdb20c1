package proxy

import (
	"context"
	"crypto/rand"
	"sync"
)

// flight knows the requests that are being served. Unlike a sync.WaitGroup it can
// be waited for while others begin, and not for longer than one cares to.
type flight struct {
	mu struct {
		sync.Mutex
		ids  map[string]struct{} // of those that are served; nil at first
		none chan struct{}       // closed when there is none; nil if no goroutine waits for that
	}
}

// maxID is the length of the longest id that a client may choose.
const maxID = 128

// begin returns the one id of a request: for the scheduler, the log and the worker.
// It is the wanted one, unless a request of that id is being served: clients that
// try again repeat theirs. Then something is appended.
func (f *flight) begin(wanted string) (id string) {
	if wanted == "" || len(wanted) > maxID {
		wanted = rand.Text()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.ids == nil {
		f.mu.ids = make(map[string]struct{})
	}
	for id = wanted; ; id = wanted + "~" + rand.Text()[:8] {
		if _, served := f.mu.ids[id]; !served {
			f.mu.ids[id] = struct{}{}
			return id
		}
	}
}

func (f *flight) end(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.mu.ids, id); len(f.mu.ids) == 0 && f.mu.none != nil {
		close(f.mu.none)
		f.mu.none = nil
	}
}

func (f *flight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.ids)
}

// landed waits for a moment when none is served.
func (f *flight) landed(ctx context.Context) error {
	f.mu.Lock()
	if len(f.mu.ids) == 0 {
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
