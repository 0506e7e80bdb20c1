// Package engine is the one interface behind which the engines compared here
// stand: the sharded scheduler and both forms of the actor reference.
package engine

import (
	"context"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// Engine is a scheduler. All methods are safe for concurrent use and mean what
// the methods of the same name of sched.Scheduler mean.
type Engine interface {
	UpsertWorker(sched.Worker) error
	SetWorkers([]sched.Worker) error
	RemoveWorker(id uint64) error
	RemoveIncarnation(id uint64, incarnation string) error
	DrainWorker(id uint64) error
	UndrainWorker(id uint64) error
	// SetAsideIncarnation with an empty incarnation means any.
	SetAsideIncarnation(id uint64, incarnation string, d time.Duration) error
	SetOverloaded(ids []uint64) error
	// SetAvailable with nil makes all workers available.
	SetAvailable(ids []uint64) error
	// SetProfileYAML replaces the policy profile by one read from YAML.
	SetProfileYAML(text []byte) error

	Schedule(context.Context, *sched.Request) (Booking, error)
	Query(context.Context, *sched.Request) (sched.Placement, error)
	Select(context.Context, *sched.Request) (sched.Placement, error)

	// The lifecycle by request id; attempt 0 means the live one.
	PrefillDone(id string, attempt uint64) error
	Touch(id string, attempt uint64) error
	AddOutputBlock(id string, attempt uint64) error
	AddOutputBlockWithDecay(id string, attempt uint64, decay float64) error
	Transfer(id string, attempt uint64, to sched.RankID) (sched.Placement, error)
	TransferToBest(id string, attempt uint64, allowed []uint64) (sched.Placement, error)
	Release(id string, attempt uint64) error

	Loads() []sched.RankLoad
	Stats() sched.Stats
	Recheck(context.Context) error
	// Settle waits until nothing moves: no decision is being made and every
	// decision made has been told to the hook.
	Settle(context.Context) error
	Close() error
}

// Booking is a live claim on a rank, as sched.Booking.
type Booking interface {
	ID() string
	Placement() sched.Placement
	Done() <-chan struct{}
	PrefillDone() error
	Touch() error
	AddOutputBlock() error
	AddOutputBlockWithDecay(decay float64) error
	Transfer(to sched.RankID) (sched.Placement, error)
	TransferToBest(allowed []uint64) (sched.Placement, error)
	Release() error
}
