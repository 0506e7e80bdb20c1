// Package fleet keeps a scheduler's workers in step with a list of backends that
// may change, and with which of them answer.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Config says how backends are watched. Zero values mean the defaults.
type Config struct {
	// HealthPath is asked for by GET; an answer of 2xx is health. Default /health.
	HealthPath string
	// Interval is the time between checks, default 5 s.
	Interval time.Duration
	// Timeout is how long a check may take, default 2 s.
	Timeout time.Duration
	// Failures is how many checks in a row must fail before a backend gets nothing
	// new, default 3. The first that succeeds brings it back.
	Failures int
	// Down is told when a worker went down or has been removed: what its cache
	// held is lost. Nil tells nobody. It must not call the fleet.
	Down func(worker uint64)
	// ID numbers a backend by its address, where others must know it by the same
	// number. Nil numbers them as they come.
	ID func(address string) uint64
	// Log is told of every change; nil means slog.Default().
	Log *slog.Logger
	// Transport makes the checks; nil means http.DefaultTransport.
	Transport http.RoundTripper
}

func (c *Config) setDefaults() {
	c.HealthPath = cmp.Or(c.HealthPath, "/health")
	c.Interval = cmp.Or(c.Interval, 5*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	c.Failures = cmp.Or(c.Failures, 3)
	if c.Down == nil {
		c.Down = func(uint64) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// Fleet is a list of backends and what is known of their health. It is safe for
// concurrent use.
//
// A new backend counts as healthy until it proves otherwise. One that is taken off
// the list is drained: it gets nothing new, and is removed once it has nothing to
// do, so that no answer is cut short.
type Fleet struct {
	s      *sched.Scheduler
	config Config
	client *http.Client

	// models are those of the listed backends, sorted. Written by Set under the
	// lock, read by all.
	models atomic.Pointer[[]string]

	mu struct {
		sync.Mutex // held while the scheduler is told, so that it hears the latest last
		members    map[string]*member
		lastID     uint64
	}
}

// member is a backend that is listed or draining. Its fields are guarded by the
// fleet's lock.
type member struct {
	Backend
	id       uint64
	failures int // in a row
	down     bool
	draining bool
}

// New returns a fleet without backends.
func New(s *sched.Scheduler, config Config) *Fleet {
	config.setDefaults()
	f := &Fleet{s: s, config: config, client: &http.Client{Transport: config.Transport}}
	f.mu.members = make(map[string]*member)
	f.models.Store(new([]string))
	return f
}

// Set makes these the backends. A fault changes nothing.
func (f *Fleet) Set(backends []Backend) error {
	if err := Check(backends); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next := make(map[string]*member, len(backends))
	lastID := f.mu.lastID
	var models []string
	for _, b := range backends {
		m := &member{}
		// A copy: a list that the scheduler refuses must not leave a trace.
		if old := f.mu.members[key(b.URL)]; old != nil {
			*m = *old
		} else {
			lastID++
			m.id = lastID
			if f.config.ID != nil {
				m.id = f.config.ID(key(b.URL))
			}
		}
		m.Backend, m.draining = b, false
		m.URL = key(b.URL)
		next[m.URL] = m
		models = append(models, b.Models...)
	}
	for address, old := range f.mu.members {
		if next[address] == nil {
			leaving := *old
			leaving.draining = true
			next[address] = &leaving
		}
	}
	workers := make([]sched.Worker, 0, len(next))
	for _, m := range next {
		workers = append(workers, m.worker(m.id))
	}
	if err := f.s.SetWorkers(workers); err != nil {
		return err
	}
	for _, address := range slices.Sorted(maps.Keys(next)) {
		m, old := next[address], f.mu.members[address]
		switch {
		case old == nil:
			f.config.Log.Info("backend added", "backend", address, "worker", m.id)
		case m.draining && !old.draining:
			f.config.Log.Info("backend draining", "backend", address, "worker", m.id)
		}
		if m.draining {
			_ = f.s.DrainWorker(m.id)
		} else {
			_ = f.s.UndrainWorker(m.id)
		}
	}
	f.mu.members, f.mu.lastID = next, lastID
	slices.Sort(models)
	models = slices.Compact(models)
	f.models.Store(&models)
	f.announceLocked()
	f.removeIdleLocked()
	return nil
}

// Run checks the backends again and again until ctx ends.
func (f *Fleet) Run(ctx context.Context) {
	tick := time.NewTicker(f.config.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		f.CheckHealth(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// CheckHealth checks each backend once, all at a time, and removes those that have
// been drained.
func (f *Fleet) CheckHealth(ctx context.Context) {
	var wg sync.WaitGroup
	for _, m := range f.listed() {
		wg.Go(func() {
			if err := f.check(ctx, m.URL); err == nil {
				f.recovered(m.id)
			} else if ctx.Err() == nil {
				f.Failed(m.id, err)
			}
		})
	}
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeIdleLocked()
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

// Failed counts as a failed check of the worker's backend. A gateway calls it when
// it could not reach the backend, to be quicker than the checks.
func (f *Fleet) Failed(worker uint64, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.memberLocked(worker)
	if m == nil {
		return
	}
	m.failures++
	if m.down || m.failures < f.config.Failures {
		return
	}
	m.down = true
	f.announceLocked()
	f.config.Log.Warn("backend down", "backend", m.URL, "worker", m.id, "failures", m.failures, "reason", why)
	f.config.Down(m.id)
}

func (f *Fleet) recovered(worker uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.memberLocked(worker)
	if m == nil {
		return
	}
	m.failures = 0
	if m.down {
		m.down = false
		f.announceLocked()
		f.config.Log.Info("backend up", "backend", m.URL, "worker", m.id)
	}
}

// Up returns the backends that are listed and not down, by URL.
func (f *Fleet) Up() []Backend {
	var up []Backend
	for _, m := range f.listed() {
		if !m.down {
			up = append(up, m.Backend)
		}
	}
	return up
}

// Models returns the models that the backends list, sorted. It is empty if they
// list none, and must not be changed.
func (f *Fleet) Models() []string { return *f.models.Load() }

// listed returns copies of the members that are not draining, by URL.
func (f *Fleet) listed() []member {
	f.mu.Lock()
	defer f.mu.Unlock()
	var listed []member
	for _, address := range slices.Sorted(maps.Keys(f.mu.members)) {
		if m := f.mu.members[address]; !m.draining {
			listed = append(listed, *m)
		}
	}
	return listed
}

func (f *Fleet) memberLocked(worker uint64) *member {
	for _, m := range f.mu.members {
		if m.id == worker {
			return m
		}
	}
	return nil
}

// announceLocked tells the scheduler who is up.
func (f *Fleet) announceLocked() {
	up := make([]uint64, 0, len(f.mu.members))
	for _, m := range f.mu.members {
		if !m.down {
			up = append(up, m.id)
		}
	}
	_ = f.s.SetAvailable(up)
}

// removeIdleLocked removes the drained workers that have nothing left to do.
func (f *Fleet) removeIdleLocked() {
	live := make(map[uint64]int64)
	for _, load := range f.s.Loads() {
		live[load.Rank.Worker] += load.Requests
	}
	for address, m := range f.mu.members {
		if m.draining && live[m.id] == 0 {
			_ = f.s.RemoveWorker(m.id)
			delete(f.mu.members, address)
			f.config.Log.Info("backend removed", "backend", address, "worker", m.id)
			f.config.Down(m.id)
		}
	}
}
