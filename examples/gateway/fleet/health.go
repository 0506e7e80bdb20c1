package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// health is what is known of a backend. But for answered it is guarded by the
// fleet's lock.
type health struct {
	// What its checks say.
	proven    bool // one has succeeded, ever
	failures  int  // in a row
	successes int  // in a row
	since     time.Time
	reason    error // of the last failure
	sick      bool  // too many have failed
	down      bool  // and they are believed: it gets nothing

	// What its requests say; see breaker.go.
	streak   int       // failures, less what was served since
	aside    time.Time // until then
	failed   time.Time // the last failure
	answered atomic.Int64
	sound    bool // served since it failed last

	// givenUp ends when the backend goes down.
	givenUp context.Context
	giveUp  context.CancelCauseFunc
}

// ErrGivenUp is the cause by which Visit.GivenUp ends.
var ErrGivenUp = errors.New("the backend fails its health checks")

func newHealth() *health {
	h := &health{}
	h.givenUp, h.giveUp = context.WithCancelCause(context.Background())
	return h
}

func (h *health) usable() bool { return h.proven && !h.down }

// CheckHealth checks each backend once, all at a time, and removes those that have
// been drained. Those that leave are checked too: requests that hang there must be
// given up as well.
func (f *Fleet) CheckHealth(ctx context.Context) {
	f.checkAll(ctx, func(*member) bool { return true })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeIdleLocked()
}

// checkAll checks some of the backends, and judges when the results of all are
// there: what most of them say at once is judged together.
func (f *Fleet) checkAll(ctx context.Context, some func(*member) bool) {
	f.mu.Lock()
	var asked []*member
	for _, m := range f.mu.members {
		if some(m) {
			asked = append(asked, m)
		}
	}
	f.mu.Unlock()
	results := make([]error, len(asked))
	var wg sync.WaitGroup
	for i, m := range asked {
		wg.Go(func() { results[i] = f.check(ctx, m.address()) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return // cut short: that says nothing
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, m := range asked {
		f.noteLocked(m, results[i])
	}
	f.judgeLocked()
}

func (f *Fleet) check(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, f.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+f.config.HealthPath, http.NoBody)
	if err != nil {
		return err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", f.config.HealthPath, response.Status)
	}
	return nil
}

// noteLocked notes the result of one check.
func (f *Fleet) noteLocked(m *member, result error) {
	h := m.health
	if result == nil {
		h.failures = 0
		if h.successes++; !h.proven {
			h.proven = true
			level := slog.LevelInfo
			if h.reason != nil {
				level = slog.LevelWarn // as what was said of its failure
			}
			f.config.Log.Log(context.Background(), level, "backend up", m.attrs()...)
		}
		if h.sick && h.successes >= f.config.Successes {
			h.sick = false
		}
		return
	}
	h.successes, h.reason = 0, result
	if h.failures++; h.failures == 1 && !h.sick {
		h.since = time.Now()
	}
	switch {
	case !h.proven && h.failures == 1:
		f.config.Log.Warn("backend not used yet: its health check fails", m.attrs("reason", result)...)
	case h.proven && h.failures >= f.config.Failures:
		h.sick = true
	}
}

// judgeLocked decides by the checks which backends are up. If they fail for more than
// half of the backends while requests are served by them, then it is the checks
// that are wrong, as when engines are too busy to answer them in time: all go on.
// Once doubted, the checks stay so until they succeed or requests fail too.
func (f *Fleet) judgeLocked() {
	proven, sick, serve := 0, 0, false
	for _, m := range f.mu.members {
		if m.leaving || !m.proven {
			continue
		}
		proven++
		if m.sick {
			sick++
			answered := time.Unix(0, m.answered.Load())
			serve = serve || answered.After(m.since) && answered.After(m.failed)
		}
	}
	doubted := 2*sick > proven && serve
	if doubted != f.mu.doubted {
		f.mu.doubted = doubted
		if doubted {
			f.config.Log.Warn("health checks fail for most backends while requests succeed: the checks are not believed, all backends go on",
				"failing", sick, "backends", proven)
		} else {
			f.config.Log.Warn("health checks are believed again", "failing", sick, "backends", proven)
		}
	}
	for _, m := range f.mu.members {
		down := m.sick && !doubted
		switch {
		case down && !m.down:
			f.config.Log.Warn("backend down", m.attrs("failures", m.failures, "reason", m.reason)...)
			m.giveUp(ErrGivenUp)
			f.config.Lost(m.id)
		case !down && m.down:
			f.config.Log.Warn("backend up", m.attrs()...)
			m.givenUp, m.giveUp = context.WithCancelCause(context.Background())
		}
		m.down = down
	}
	_ = f.tellLocked() // the workers were taken by Set
}

// Doubted tells whether the checks are not believed at present.
func (f *Fleet) Doubted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.doubted
}
