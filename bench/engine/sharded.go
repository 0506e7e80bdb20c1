package engine

import (
	"context"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// Sharded is the scheduler of package sched as an Engine.
type Sharded struct {
	*sched.Scheduler
	model string
}

var _ Engine = (*Sharded)(nil)

// NewSharded returns a sharded scheduler.
func NewSharded(config sched.Config, opts ...sched.Option) (*Sharded, error) {
	s, err := sched.New(config, opts...)
	if err != nil {
		return nil, err
	}
	return &Sharded{Scheduler: s, model: config.Model}, nil
}

// Schedule implements Engine.
func (s *Sharded) Schedule(ctx context.Context, r *sched.Request) (Booking, error) {
	b, err := s.Scheduler.Schedule(ctx, r)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// SetProfileYAML implements Engine.
func (s *Sharded) SetProfileYAML(text []byte) error {
	file, err := policy.Parse(text)
	if err != nil {
		return &sched.Error{Code: sched.ErrInvalid, Cause: err}
	}
	return s.SetProfile(file.For(s.model))
}

// SetWorkers implements Engine.
func (s *Sharded) SetWorkers(workers []sched.Worker) error { return s.Scheduler.SetWorkers(workers) }
