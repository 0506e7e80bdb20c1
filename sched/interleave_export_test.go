package sched

import (
	"github.com/seed-3c5df8a4/turnstile/sched/sequencer"
	"github.com/seed-3c5df8a4/turnstile/shards"
)

// LockRank takes the lock of a rank, so that a test can hold up whoever needs it.
func LockRank(s *Scheduler, id RankID) (unlock func()) {
	table := s.world.Load().Table
	shard := table.Slots()[table.Slot(id)].Shard
	shard.Lock()
	return shard.Unlock
}

// ReleaseUnheard releases a booking and loses the hint about it.
func ReleaseUnheard(s *Scheduler, b *Booking) {
	shard := b.rec.lock()
	shard.ReleaseLocked(&b.rec.Booking)
	shard.Unlock()
	s.ended(b.rec, EventReleased)
	s.env.Hints().Drain(func(*shards.Shard) {})
}

// RemoveAtOnce removes a worker without the locks of the ranks that stay.
func RemoveAtOnce(s *Scheduler, id uint64) {
	s.edit.Lock()
	defer s.edit.Unlock()
	next := *s.world.Load()
	table, gone, _ := next.Table.Without(id)
	next.Table = table
	s.world.Store(next.Made())
	for _, shard := range gone {
		s.dropRank(shard)
	}
}

// WithTurn calls f as the holder of the turn, who found work in his epochs.
func WithTurn(s *Scheduler, f func()) { s.turn.Enter(&heldTurn{line: &s.line, f: f}, arrivalAllowance) }

// heldTurn is one epoch of the scheduler's, with something done before it.
type heldTurn struct {
	*line
	f func()
}

func (h *heldTurn) Run(allowance int) (left int, more bool) {
	if f := h.f; f != nil {
		h.f = nil
		f()
	}
	return h.line.Run(allowance)
}

var _ sequencer.Epochs = (*heldTurn)(nil)

// EpochByEpoch takes the turn and calls f, which runs epochs one at a time.
func EpochByEpoch(s *Scheduler, f func(run func(allowance int) (left int, more bool))) {
	WithTurn(s, func() { f(s.line.Run) })
}

// What a call may do for others, and a look at a lane costs, in units of a budget.
const (
	LifecycleAllowance = lifecycleAllowance
	ArrivalAllowance   = arrivalAllowance
	CostReject         = costReject
	CostExpiry         = costExpiry
	OverdueFirst       = overdueAhead / costReject
	GrantsAtMost       = grantsBetweenArrivals
)

// QueueLen returns how many are in the queue, those who have left included. The
// caller has the turn.
func QueueLen(s *Scheduler) int {
	if s.line.queue == nil {
		return 0
	}
	return s.line.queue.Len()
}

// GuardingLanes returns how many lanes guard their ranks. The caller has the turn.
func GuardingLanes(s *Scheduler) int { return s.line.guards.Lanes() }
