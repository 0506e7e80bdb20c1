// Package fleet keeps a scheduler's workers in step with a list of backends that
// may change, with which of them pass their health checks, and with what became of
// the requests that were sent to them.
//
//	fleet.go    the list: backends come and go, and the scheduler is told
//	health.go   the checks: which backends are up, and when the checks are not to be believed
//	breaker.go  the requests: which backends are set aside, and for how long
package fleet

import (
	"cmp"
	"context"
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
	// MaxBatchedTokens is that of backends that do not say; 0 means the scheduler's
	// default.
	MaxBatchedTokens int64
	// HealthPath is asked for by GET; an answer of 2xx is health. Default /health.
	HealthPath string
	// Timeout is how long a check may take, default 2 s.
	Timeout time.Duration
	// Failures is how many checks in a row must fail before a backend gets nothing
	// new, default 3; Successes how many bring it back, default 1.
	Failures, Successes int
	// Aside is for how long a backend is set aside when a request fails there, default
	// 1 s; it doubles with each further failure, up to AsideMax, default 30 s.
	Aside, AsideMax time.Duration
	// Lost is told when what a worker's cache held is lost: it went down, refused a
	// connection, or has been removed. Nil: it is not called. It must not call the fleet.
	Lost func(worker uint64)
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
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	c.Failures, c.Successes = cmp.Or(c.Failures, 3), cmp.Or(c.Successes, 1)
	c.Aside, c.AsideMax = cmp.Or(c.Aside, time.Second), cmp.Or(c.AsideMax, 30*time.Second)
	if c.Lost == nil {
		c.Lost = func(uint64) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
}

// Fleet is a list of backends and what is known of their health. It is safe for
// concurrent use.
//
// A new backend gets nothing before a check of it has succeeded. One that is taken
// off the list goes on until one that is listed is up; then it is drained: it gets
// nothing new, and is removed once it has nothing to do, so that no answer is cut
// short.
type Fleet struct {
	s      *sched.Scheduler
	config Config
	client *http.Client

	// models are those of the listed backends, sorted. Written by Set under the
	// lock, read by all.
	models atomic.Pointer[[]string]

	mu struct {
		sync.Mutex                    // held while the scheduler is told, so that it hears the latest last
		members    map[string]*member // by address
		lastID     uint64
		doubted    bool // the checks are not believed
	}
}

// member is a backend that is listed or leaving. Its fields are guarded by the
// fleet's lock.
type member struct {
	Backend
	id      uint64
	leaving bool
	*health
}

// attrs are what logs say of a member.
func (m *member) attrs(more ...any) []any {
	return append([]any{"backend", m.known(), "worker", m.id}, more...)
}

// New returns a fleet without backends.
func New(s *sched.Scheduler, config Config) *Fleet {
	config.setDefaults()
	f := &Fleet{s: s, config: config, client: &http.Client{Transport: config.Transport}}
	f.mu.members = make(map[string]*member)
	f.models.Store(new([]string))
	return f
}

// Set makes these the backends, in one step for the scheduler: no request that waits
// meets a moment without any. A fault changes nothing. With none, those that are there
// finish what they have. It returns once each new backend has been checked.
func (f *Fleet) Set(backends []Backend) error {
	if len(backends) > 0 {
		if err := Check(backends); err != nil {
			return err
		}
	}
	if err := f.set(backends); err != nil {
		return err
	}
	f.checkAll(context.Background(), func(m *member) bool { return !m.proven && m.failures == 0 })
	return nil
}

func (f *Fleet) set(backends []Backend) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := make(map[string]*member, len(backends))
	lastID := f.mu.lastID
	var models []string
	for _, b := range backends {
		m := &member{}
		// A copy: a list that the scheduler refuses must not leave a trace.
		if old := f.mu.members[b.address()]; old != nil {
			*m = *old
		} else {
			lastID++
			m.id, m.health = lastID, newHealth()
			if f.config.ID != nil {
				m.id = f.config.ID(b.address())
			}
		}
		m.Backend, m.leaving = b, false
		next[b.address()] = m
		models = append(models, b.Models...)
	}
	for address, old := range f.mu.members {
		if next[address] == nil {
			leaving := *old
			leaving.leaving = true
			next[address] = &leaving
		}
	}
	before := f.mu.members
	f.mu.members = next
	if err := f.tellLocked(); err != nil {
		f.mu.members = before
		return err
	}
	f.mu.lastID = lastID
	for _, address := range slices.Sorted(maps.Keys(next)) {
		m, old := next[address], before[address]
		switch {
		case old == nil:
			f.config.Log.Info("backend added", m.attrs()...)
		case m.leaving && !old.leaving:
			f.config.Log.Info("backend leaves", m.attrs()...)
		}
	}
	slices.Sort(models)
	models = slices.Compact(models)
	f.models.Store(&models)
	f.removeIdleLocked()
	return nil
}

// tellLocked tells the scheduler of all workers, which of them are up and which are
// drained, in one step.
func (f *Fleet) tellLocked() error {
	workers := make([]sched.Worker, 0, len(f.mu.members))
	up, draining := []uint64{}, []uint64{}
	relieved := f.relievedLocked()
	for _, m := range f.mu.members {
		w := m.worker(m.id)
		w.MaxBatchedTokens = cmp.Or(w.MaxBatchedTokens, f.config.MaxBatchedTokens)
		workers = append(workers, w)
		if m.usable() {
			up = append(up, m.id)
		}
		if m.leaving && relieved {
			draining = append(draining, m.id)
		}
	}
	return f.s.SetWorkers(workers, sched.AlsoAvailable(up), sched.AlsoDraining(draining))
}

// relievedLocked tells whether those who leave may: another is up, or none is to
// come.
func (f *Fleet) relievedLocked() bool {
	listed := false
	for _, m := range f.mu.members {
		if !m.leaving && m.usable() {
			return true
		}
		listed = listed || !m.leaving
	}
	return !listed
}

// removeIdleLocked removes the workers that leave and have nothing left to do.
func (f *Fleet) removeIdleLocked() {
	if !f.relievedLocked() {
		return
	}
	live := make(map[uint64]int64)
	for _, load := range f.s.Loads() {
		live[load.Rank.Worker] += load.Requests
	}
	for address, m := range f.mu.members {
		if m.leaving && live[m.id] == 0 {
			_ = f.s.RemoveWorker(m.id)
			delete(f.mu.members, address)
			f.config.Log.Info("backend removed", m.attrs()...)
			f.config.Lost(m.id)
		}
	}
}

// State is what a backend is fit for.
type State string

// The states of a backend.
const (
	StateUp       State = "up"
	StateAside    State = "aside"    // requests failed there lately
	StateDown     State = "down"     // its checks fail
	StateNew      State = "new"      // no check has succeeded yet
	StateDraining State = "draining" // off the list, and finishes what it has
)

// Status tells of a backend.
type Status struct {
	Backend
	Worker uint64
	State  State
	// Reason says why it is not up, and Since when that began; empty if it is up.
	Reason string
	Since  time.Time
}

// Statuses returns all backends, those that leave included, by address.
func (f *Fleet) Statuses() []Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	all := make([]Status, 0, len(f.mu.members))
	for _, address := range slices.Sorted(maps.Keys(f.mu.members)) {
		m := f.mu.members[address]
		s := Status{Backend: m.Backend, Worker: m.id, State: StateUp}
		switch {
		case m.leaving:
			s.State, s.Reason = StateDraining, "not listed any more"
		case !m.proven:
			s.State, s.Reason = StateNew, "no check has succeeded yet"
			s.addReason(m.health)
		case m.down:
			s.State, s.Reason = StateDown, "its checks fail"
			s.addReason(m.health)
		case now.Before(m.aside):
			s.State, s.Reason, s.Since = StateAside, "requests failed there", m.failed
		}
		all = append(all, s)
	}
	return all
}

// addReason says how the last check failed, and since when they do.
func (s *Status) addReason(h *health) {
	if h.reason != nil {
		s.Reason, s.Since = s.Reason+": "+h.reason.Error(), h.since
	}
}

// Up returns the backends that are listed and pass their checks, by address.
func (f *Fleet) Up() []Backend {
	var up []Backend
	for _, s := range f.Statuses() {
		if s.State == StateUp || s.State == StateAside {
			up = append(up, s.Backend)
		}
	}
	return up
}

// Models returns the models that the backends list, sorted. It is empty if they
// list none, and must not be changed.
func (f *Fleet) Models() []string { return *f.models.Load() }

func (f *Fleet) memberLocked(worker uint64) *member {
	for _, m := range f.mu.members {
		if m.id == worker {
			return m
		}
	}
	return nil
}
