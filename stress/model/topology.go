package model

import (
	"math"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// worker is one process and its ranks.
type worker struct {
	sched.Worker
	draining bool
	aside    int64 // until when it is set aside
	ranks    []*rank
}

const (
	mostRanks         = 1024
	defaultMaxBatched = 10_000_000
)

// taintSet returns each taint once, in order, so that sums over them are the same
// on every engine.
func (w *worker) taintSet() []string {
	return slices.Compact(slices.Sorted(slices.Values(w.Taints)))
}

// ranks returns all ranks in worker/rank order.
func (m *Model) ranks() []*rank {
	var out []*rank
	for _, w := range m.workers {
		out = append(out, w.ranks...)
	}
	slices.SortFunc(out, func(a, b *rank) int {
		if after(a.id, b.id) {
			return 1
		}
		return -1
	})
	return out
}

func (m *Model) worker(id uint64) *worker {
	for _, w := range m.workers {
		if w.ID == id {
			return w
		}
	}
	return nil
}

// another reports whether the worker is another process than the one named. Only
// names that are known are compared.
func (w *worker) another(incarnation string) bool {
	return w.Incarnation != "" && incarnation != "" && w.Incarnation != incarnation
}

func checkWorker(w sched.Worker) error {
	if w.Ranks == 0 || w.Ranks > mostRanks || uint64(w.StartRank)+uint64(w.Ranks) > math.MaxUint32 || w.MaxBatchedTokens < 0 || w.TotalKVBlocks < 0 {
		return &sched.Error{Code: sched.ErrInvalid, Worker: w.ID, HasWorker: true}
	}
	return nil
}

// upsert adds a worker or updates it. Ranks that stay keep their load.
func (m *Model) upsert(next sched.Worker) {
	if next.MaxBatchedTokens == 0 {
		next.MaxBatchedTokens = defaultMaxBatched
	}
	w := m.worker(next.ID)
	if w != nil && w.another(next.Incarnation) {
		m.saw("another incarnation")
		m.removeWorker(w)
		w = nil
	}
	if w == nil {
		w = &worker{}
		m.workers = append(m.workers, w)
	}
	if next.Incarnation == "" {
		next.Incarnation = w.Incarnation
	}
	w.Worker = next
	var ranks []*rank
	for _, r := range w.ranks {
		if r.id.Rank < next.StartRank || r.id.Rank >= next.StartRank+next.Ranks {
			r.drop()
		} else {
			ranks = append(ranks, r)
		}
	}
	for i := range next.Ranks {
		id := sched.RankID{Worker: next.ID, Rank: next.StartRank + i}
		if !slices.ContainsFunc(ranks, func(r *rank) bool { return r.id == id }) {
			ranks = append(ranks, &rank{id: id, worker: w, blocks: newBlocks()})
		}
	}
	w.ranks = ranks
}

// removeWorker removes a worker with its bookings.
func (m *Model) removeWorker(w *worker) {
	for _, r := range w.ranks {
		r.drop()
	}
	m.workers = slices.DeleteFunc(m.workers, func(x *worker) bool { return x == w })
}

// drop ends all bookings of a rank that goes.
func (r *rank) drop() {
	for b := range r.blocks.output {
		b.end()
		close(b.done)
	}
}

// UpsertWorker implements engine.Engine.
func (m *Model) UpsertWorker(w sched.Worker) error {
	return m.change(func() error {
		if err := checkWorker(w); err != nil {
			return err
		}
		m.upsert(w)
		return nil
	})
}

// SetWorkers implements engine.Engine.
func (m *Model) SetWorkers(workers []sched.Worker) error {
	return m.change(func() error {
		listed := map[uint64]bool{}
		for _, w := range workers {
			if err := checkWorker(w); err != nil {
				return err
			}
			if listed[w.ID] {
				return &sched.Error{Code: sched.ErrInvalid, Worker: w.ID, HasWorker: true}
			}
			listed[w.ID] = true
		}
		for _, w := range slices.Clone(m.workers) {
			if !listed[w.ID] {
				m.removeWorker(w)
			}
		}
		for _, w := range workers {
			m.upsert(w)
		}
		return nil
	})
}

// RemoveWorker implements engine.Engine.
func (m *Model) RemoveWorker(id uint64) error { return m.RemoveIncarnation(id, "") }

// RemoveIncarnation implements engine.Engine.
func (m *Model) RemoveIncarnation(id uint64, incarnation string) error {
	return m.changeWorker(id, incarnation, m.removeWorker)
}

// SetAsideIncarnation implements engine.Engine.
func (m *Model) SetAsideIncarnation(id uint64, incarnation string, d time.Duration) error {
	if d < 0 {
		return &sched.Error{Code: sched.ErrInvalid, Worker: id, HasWorker: true}
	}
	return m.changeWorker(id, incarnation, func(w *worker) {
		w.aside = max(w.aside, later(m.now(), int64(d)))
		if d == 0 {
			w.aside = 0
		}
	})
}

// DrainWorker implements engine.Engine.
func (m *Model) DrainWorker(id uint64) error { return m.setDraining(id, true) }

// UndrainWorker implements engine.Engine.
func (m *Model) UndrainWorker(id uint64) error { return m.setDraining(id, false) }

func (m *Model) setDraining(id uint64, draining bool) error {
	return m.changeWorker(id, "", func(w *worker) { w.draining = draining })
}

func (m *Model) changeWorker(id uint64, incarnation string, f func(*worker)) error {
	return m.change(func() error {
		w := m.worker(id)
		switch {
		case w == nil:
			return &sched.Error{Code: sched.ErrNotFound, Worker: id, HasWorker: true}
		case w.another(incarnation):
			return &sched.Error{Code: sched.ErrStaleIncarnation, Worker: id, HasWorker: true}
		}
		f(w)
		return nil
	})
}

// SetOverloaded implements engine.Engine.
func (m *Model) SetOverloaded(ids []uint64) error {
	return m.change(func() error { m.overloaded = slices.Clone(ids); return nil })
}

// SetAvailable implements engine.Engine.
func (m *Model) SetAvailable(ids []uint64) error {
	return m.change(func() error { m.available = slices.Clone(ids); return nil })
}
