package model

import (
	"cmp"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// booking is a live or ended claim on a rank.
type booking struct {
	model       *Model
	seq         int // booking order
	request     *sched.Request
	rank        *rank
	placement   sched.Placement
	entry       *prefillEntry // nil if it has no prefill left
	prefillDone bool
	touched     int64
	ended       bool
	done        chan struct{} // closed when it ends without its owner
}

var _ engine.Booking = (*booking)(nil)

// book makes a booking on a rank.
func (m *Model) book(q *sched.Request, r *rank) *booking {
	m.seq++
	b := &booking{model: m, seq: m.seq, request: q, touched: m.now(), done: make(chan struct{})}
	m.live[q.ID] = b
	b.place(r, nil)
	// A pin or a preference that was followed is no choice and moves nothing.
	if q.Pin == nil && (q.Prefer == nil || *q.Prefer != r.id) {
		m.last = &r.id
	}
	return b
}

// place puts a booking on a rank, with the output blocks it has: a new attempt.
func (b *booking) place(r *rank, output []int64) {
	m := b.model
	m.attempts[b.request.ID]++
	b.rank = r
	b.placement = sched.Placement{
		Rank: r.id, Attempt: m.attempts[b.request.ID], CachedTokens: m.cached(b.request, r.id),
	}
	r.blocks.add(b, output)
	tokens := b.request.ISL - b.placement.CachedTokens
	if tokens > 0 && !b.request.NoPrefillTracking && !b.prefillDone {
		b.entry = &prefillEntry{tokens: tokens}
		if d := b.request.ExpectedPrefill; d != nil {
			ns := int64(*d)
			b.entry.expected = &ns
		}
		r.prefill.insert(b.entry, m.now())
	}
}

// unplace takes a booking off its rank and returns its output blocks.
func (b *booking) unplace() []int64 {
	b.finishPrefill()
	return b.rank.blocks.drop(b)
}

func (b *booking) finishPrefill() {
	if b.entry != nil {
		b.rank.prefill.remove(b.entry, b.model.now())
		b.entry = nil
	}
}

// end ends a booking that is off its rank or whose rank is gone.
func (b *booking) end() {
	b.ended = true
	delete(b.model.live, b.request.ID)
}

// change makes a lifecycle call on a live booking; whatever it frees is given
// out.
func (b *booking) change(f func() error) error {
	b.model.mu.Lock()
	defer b.model.mu.Unlock()
	if b.ended {
		return sched.ErrUnchanged
	}
	b.touched = b.model.now()
	err := f()
	b.model.dispatch()
	return err
}

func (b *booking) ID() string            { return b.request.ID }
func (b *booking) Done() <-chan struct{} { return b.done }
func (b *booking) Touch() error          { return b.change(func() error { return nil }) }

func (b *booking) Placement() sched.Placement {
	b.model.mu.Lock()
	defer b.model.mu.Unlock()
	return b.placement
}

func (b *booking) PrefillDone() error {
	return b.change(func() error {
		if b.prefillDone {
			return sched.ErrUnchanged
		}
		b.prefillDone = true
		b.finishPrefill()
		return nil
	})
}

func (b *booking) AddOutputBlock() error {
	return b.change(func() error {
		b.rank.blocks.output[b] = append(b.rank.blocks.output[b], whole)
		return nil
	})
}

func (b *booking) AddOutputBlockWithDecay(fraction float64) error {
	if !(fraction >= 0 && fraction <= 1) {
		return sched.ErrInvalid
	}
	return b.change(func() error {
		b.rank.blocks.decay(b, fraction)
		return nil
	})
}

func (b *booking) Release() error {
	return b.change(func() error {
		b.unplace()
		b.end()
		return nil
	})
}

func (b *booking) Transfer(to sched.RankID) (sched.Placement, error) {
	err := b.change(func() error {
		if to == b.rank.id {
			return sched.ErrUnchanged
		}
		for _, r := range b.model.ranks() {
			if r.id == to {
				b.place(r, b.unplace())
				return nil
			}
		}
		return sched.ErrNoEndpoints
	})
	return b.Placement(), err
}

// TransferToBest implements engine.Booking.
func (b *booking) TransferToBest(allowed []uint64) (sched.Placement, error) {
	err := b.change(func() error {
		q := *b.request
		q.Pin, q.Prefer = nil, nil
		if allowed != nil {
			q.Allowed = allowed
		}
		to, err := b.best(&q)
		switch {
		case err != nil:
			return err
		case to == b.rank:
			b.model.saw("transfer to best: stays")
			return sched.ErrUnchanged
		}
		b.model.saw("transfer to best: moves")
		b.place(to, b.unplace())
		return nil
	})
	return b.Placement(), err
}

// best chooses the rank for a request as if the booking were released.
func (b *booking) best(q *sched.Request) (*rank, error) {
	entry, prefill, blocks := b.entry, b.rank.prefill.clone(), b.rank.blocks.clone()
	b.unplace()
	to, err := b.model.choose(q, b.model.usable(q))
	b.entry, b.rank.prefill, b.rank.blocks = entry, prefill, blocks
	return to, err
}

// expire ends every booking that was not touched for the ttl, in booking order.
func (m *Model) expire() {
	if m.setup.TTL == 0 {
		return
	}
	var due []*booking
	for _, b := range m.live {
		if b.touched+int64(m.setup.TTL) <= m.now() {
			due = append(due, b)
		}
	}
	slices.SortFunc(due, func(a, b *booking) int { return cmp.Compare(a.seq, b.seq) })
	for _, b := range due {
		b.unplace()
		b.end()
		close(b.done)
		m.saw("expiry")
		m.tell(sched.Decision{Kind: sched.DecisionExpired, Request: b.request.ID})
	}
}
