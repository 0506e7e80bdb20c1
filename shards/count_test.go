package shards

import (
	"sync/atomic"
	"testing"

	"github.com/seed-3c5df8a4/turnstile/lifecycle"
)

// A booking that moves from rank to rank keeps one rank busy at every instant: whoever
// counts never finds it on neither or on both.
func TestBookingThatMovesIsCountedOnce(t *testing.T) {
	t.Parallel()
	for _, ranks := range []int{20, 200} {
		p := newIndexedPool(t, ranks, 1)
		rules := &Rules{lifecycle.BusyAbove{Prefill: 0, Requests: lifecycle.Never, Blocks: lifecycle.Never}}
		p.index.epoch.Add(1)
		p.index.CountBusy(p.table, 1, true, func(*Slot) *Rules { return rules })
		p.index.epoch.Add(1)
		a, b := p.table.slots[3].Shard, p.table.slots[ranks-1].Shard
		moving := &lifecycle.Booking{Tokens: 5, Tracked: true, Expected: lifecycle.NoDuration}
		a.Lock()
		a.BookLocked(moving, nil)
		a.Unlock()
		var rounds atomic.Int64
		done, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for from, to := a, b; ; from, to = to, from {
				rounds.Add(1)
				select {
				case <-done:
					return
				default:
				}
				LockBoth(from, to)
				from.TransferLocked(moving, to, 5)
				UnlockBoth(from, to)
			}
		}()
		for rounds.Load() < 2000 {
			p.index.LockCount(nil)
			n, ok := p.index.BusyLocked(&p.query, 0)
			p.index.UnlockCount(nil)
			if n != 1 || !ok {
				t.Errorf("%d ranks are busy, %t", n, ok)
				break
			}
		}
		close(done)
		<-stopped
	}
}

// Ranks that are hidden, removed, or of no rule any more are not counted.
func TestOnlyRanksThatMayBeChosenAreCounted(t *testing.T) {
	t.Parallel()
	p := newIndexedPool(t, 20, 1)
	rules := &Rules{lifecycle.BusyAbove{Prefill: 0, Requests: lifecycle.Never, Blocks: lifecycle.Never}}
	recount := func(table *Table, n int) {
		p.table = table
		p.table.Reindex(p.index, p.index.Weights())
		p.index.CountBusy(p.table, n, n == 0 || p.index.count.rules == 0, func(*Slot) *Rules { return rules })
		p.table.Shown(p.index)
	}
	busy := func() int {
		p.index.LockCount(nil)
		defer p.index.UnlockCount(nil)
		n, ok := p.index.BusyLocked(&p.query, 0)
		if !ok {
			return -1
		}
		return n
	}
	for i := range 20 {
		p.book(i, 5)
	}
	if got := busy(); got != -1 {
		t.Errorf("%d are busy by no rule", got)
	}
	recount(p.table, 1)
	if got := busy(); got != 20 {
		t.Errorf("%d are busy, not 20", got)
	}
	recount(p.table.WithOverloaded([]uint64{1, 2}), 1)
	p.book(1, 5)
	if got := busy(); got != 18 {
		t.Errorf("%d are busy, not 18", got)
	}
	s := p.table.slots[5].Shard
	s.Lock()
	s.KillLocked()
	s.Unlock()
	if got := busy(); got != 17 {
		t.Errorf("%d are busy, not 17", got)
	}
	recount(p.table.WithOverloaded(nil), 0)
	p.book(1, 5)
	if got := busy(); got != -1 {
		t.Errorf("%d are busy by no rule", got)
	}
}
