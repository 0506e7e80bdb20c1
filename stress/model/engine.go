package model

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

// Model is the sequential model as an engine. Ties go to the lowest rank.
type Model struct {
	setup  script.Setup
	origin time.Time

	mu         sync.Mutex // guards everything below
	profile    *Profile
	tiers      Tiers
	round      *Round
	workers    []*worker
	overloaded []uint64
	available  []uint64  // nil for all
	waiting    []*waiter // in arrival order
	live       map[string]*booking
	attempts   map[string]uint64
	last       *sched.RankID // the last that a round robin chose and that was booked
	seq        int
	closed     bool
	timer      clock.Timer

	seen map[string]int
	most int
}

var _ engine.Engine = (*Model)(nil)

// New returns a model as a script asks for it.
func New(s script.Setup) (*Model, error) {
	profile, err := ParseProfile(s.PolicyYAML)
	tiers, _ := ParseTiers(s.PolicyYAML)
	known := slices.Contains([]string{"kv", "round-robin", "least-loaded"}, s.Selector) &&
		slices.Contains([]string{"both", "decode"}, s.Role)
	if err != nil || !known || s.BlockSize < 1 || s.TTL < 0 {
		return nil, &sched.Error{Code: sched.ErrInvalid, Cause: err}
	}
	return &Model{
		setup: s, origin: s.Clock.Now(), profile: profile, tiers: tiers, round: NewRound(len(profile.Classes)),
		live: map[string]*booking{}, attempts: map[string]uint64{}, seen: map[string]int{},
	}, nil
}

// Seen counts how often rules were met that a test may want to know about, and
// tells the most requests that ever waited.
func (m *Model) Seen() (rules map[string]int, mostWaiting int) { return m.seen, m.most }

func (m *Model) saw(rule string) { m.seen[rule]++ }

func (m *Model) now() int64 { return int64(m.setup.Clock.Now().Sub(m.origin)) }

func (m *Model) tell(d sched.Decision) { m.setup.OnDecision(d) }

// change makes a change and gives out what it freed.
func (m *Model) change(f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := f(); err != nil {
		return err
	}
	m.noteLacks()
	m.failLacks()
	m.dispatch()
	return nil
}

// SetProfileYAML implements engine.Engine.
func (m *Model) SetProfileYAML(text []byte) error {
	return m.change(func() error {
		profile, err := ParseProfile(text)
		if err != nil {
			return &sched.Error{Code: sched.ErrInvalid, Cause: err}
		}
		m.profile, m.round = profile, NewRound(len(profile.Classes))
		for _, w := range m.waiting {
			w.class = profile.Classify(w.request.Class, w.request.ISL-w.cached)
			m.saw("reclassed")
		}
		return nil
	})
}

// Schedule implements engine.Engine.
func (m *Model) Schedule(ctx context.Context, q *sched.Request) (engine.Booking, error) {
	a := m.arrive(ctx, q, false)
	if a.err != nil {
		return nil, a.err
	}
	return a.booking, nil
}

// Query implements engine.Engine.
func (m *Model) Query(ctx context.Context, q *sched.Request) (sched.Placement, error) {
	a := m.arrive(ctx, q, true)
	return a.placement, a.err
}

// Select implements engine.Engine.
func (m *Model) Select(_ context.Context, q *sched.Request) (sched.Placement, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return sched.Placement{}, refusal(q, sched.ErrClosed)
	case !valid(q):
		return sched.Placement{}, refusal(q, sched.ErrInvalid)
	case q.Pin != nil && q.Allowed != nil && !slices.Contains(q.Allowed, q.Pin.Worker):
		return sched.Placement{}, refusal(q, sched.ErrPinNotAllowed)
	}
	r, err := m.choose(q, m.usable(q))
	if err != nil {
		return sched.Placement{}, err
	}
	return sched.Placement{Rank: r.id, CachedTokens: m.cached(q, r.id)}, nil
}

// byID calls f with the live booking of an id.
func (m *Model) byID(id string, attempt uint64, f func(*booking) error) error {
	m.mu.Lock()
	b := m.live[id]
	m.mu.Unlock()
	switch {
	case b == nil || attempt > b.Placement().Attempt:
		return &sched.Error{Code: sched.ErrNotFound, Request: id}
	case attempt != 0 && attempt < b.Placement().Attempt:
		return &sched.Error{Code: sched.ErrStaleAttempt, Request: id}
	default:
		return f(b)
	}
}

// PrefillDone implements engine.Engine.
func (m *Model) PrefillDone(id string, attempt uint64) error {
	return m.byID(id, attempt, (*booking).PrefillDone)
}

// Touch implements engine.Engine.
func (m *Model) Touch(id string, attempt uint64) error {
	return m.byID(id, attempt, (*booking).Touch)
}

// AddOutputBlock implements engine.Engine.
func (m *Model) AddOutputBlock(id string, attempt uint64) error {
	return m.byID(id, attempt, (*booking).AddOutputBlock)
}

// AddOutputBlockWithDecay implements engine.Engine.
func (m *Model) AddOutputBlockWithDecay(id string, attempt uint64, fraction float64) error {
	return m.byID(id, attempt, func(b *booking) error { return b.AddOutputBlockWithDecay(fraction) })
}

// Release implements engine.Engine.
func (m *Model) Release(id string, attempt uint64) error {
	return m.byID(id, attempt, (*booking).Release)
}

// Transfer implements engine.Engine.
func (m *Model) Transfer(id string, attempt uint64, to sched.RankID) (p sched.Placement, err error) {
	err = m.byID(id, attempt, func(b *booking) (err error) {
		p, err = b.Transfer(to)
		return err
	})
	return p, err
}

// TransferToBest implements engine.Engine.
func (m *Model) TransferToBest(id string, attempt uint64, allowed []uint64) (p sched.Placement, err error) {
	err = m.byID(id, attempt, func(b *booking) (err error) {
		p, err = b.TransferToBest(allowed)
		return err
	})
	return p, err
}

// Loads implements engine.Engine.
func (m *Model) Loads() []sched.RankLoad {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []sched.RankLoad
	for _, r := range m.ranks() {
		out = append(out, sched.RankLoad{
			Rank: r.id, PrefillTokens: r.prefill.active(m.now()), Blocks: r.blocks.active(),
			Requests: r.blocks.requests(), TotalKVBlocks: r.worker.TotalKVBlocks,
		})
	}
	return out
}

// Stats implements engine.Engine. It tells of the classes and what waits and
// lives; it keeps no counters.
func (m *Model) Stats() sched.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := sched.Stats{Waiting: int64(len(m.waiting)), Live: int64(len(m.live))}
	for i, c := range m.profile.Classes {
		u := m.usage(i)
		s.Classes = append(s.Classes, sched.ClassStats{
			Name: c.Name, Pending: u[0], Tokens: u[1], Cached: u[2], Deficit: m.round.Deficit[i],
		})
	}
	return s
}

// Recheck implements engine.Engine: all lanes are tested at every decision.
func (m *Model) Recheck(context.Context) error { return nil }

// Settle implements engine.Engine. Nothing moves but while a call has the mutex.
func (m *Model) Settle(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil
}

// Close implements engine.Engine.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, w := range slices.Clone(m.waiting) {
		m.reject(w, sched.ErrClosed)
	}
	m.setTimer()
	return nil
}
