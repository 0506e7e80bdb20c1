package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// The traced process: two callers that take turns.

const blocks = 24

// pool is a pool that is tried.
type pool struct {
	ranks int
	// queue: a class can queue, though no request waits; then releases leave hints.
	queue bool
}

var pools = []pool{{16, false}, {2048, true}}

// queueing has a class that can queue, with so much room that no request has to.
const queueing = `default_policy_family: all
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: all, policy_family: all, cache_bucket: any, quantum: 4096, prefill_busy_threshold: 1000000}
`

// operations are what is counted, in the order in which they are made.
var operations = []string{
	"advisory selection", "schedule, no blocks", "release", "schedule, 24 blocks", "prefill done", "output block", "release, 24 blocks",
}

// caller is one of the two, with a rank of its own.
type caller struct {
	s       *sched.Scheduler
	name    string
	random  *rand.Rand
	bare    sched.Request
	prompt  sched.Request
	booking *sched.Booking
	err     error
}

func newCaller(s *sched.Scheduler, name string, rank uint64) *caller {
	c := &caller{s: s, name: name, random: rand.New(rand.NewPCG(rank, 1))}
	c.bare = sched.Request{ISL: 400, Overlaps: []sched.Overlap{{Rank: sched.RankID{Worker: rank}, Device: blocks}}}
	c.prompt = c.bare
	c.prompt.Blocks = make([]uint64, blocks)
	return c
}

// begin takes a fresh id and fresh blocks for a round, as requests have.
func (c *caller) begin(round int) {
	c.bare.ID = c.name + strconv.Itoa(round)
	c.prompt.ID = c.bare.ID
	for i := range c.prompt.Blocks {
		c.prompt.Blocks[i] = c.random.Uint64()
	}
}

// operation makes one.
func (c *caller) operation(i int) {
	var err error
	switch i {
	case 0:
		_, err = c.s.Select(context.Background(), &c.prompt)
	case 1:
		c.booking, err = c.s.Schedule(context.Background(), &c.bare)
	case 2, 6:
		err = c.booking.Release()
	case 3:
		c.booking, err = c.s.Schedule(context.Background(), &c.prompt)
	case 4:
		err = c.booking.PrefillDone()
	case 5:
		err = c.booking.AddOutputBlock()
	}
	c.err = errors.Join(c.err, err)
}

// open makes a scheduler with a standing load on each rank, but no blocks.
func (p pool) open() (*sched.Scheduler, error) {
	config := sched.Config{BlockSize: 16}
	if p.queue {
		file, err := policy.Parse([]byte(queueing))
		if err != nil {
			return nil, err
		}
		config.Policy = file
	}
	s, err := sched.New(config)
	if err != nil {
		return nil, err
	}
	workers := make([]sched.Worker, p.ranks)
	for i := range workers {
		workers[i] = sched.Worker{ID: uint64(i) + 1, Ranks: 1}
	}
	if err := s.SetWorkers(workers); err != nil {
		return nil, err
	}
	for i := range p.ranks {
		to := sched.RankID{Worker: uint64(i) + 1}
		b, err := s.Schedule(context.Background(), &sched.Request{ID: "standing-" + strconv.Itoa(i), ISL: int64(16 * (1 + i%7)), Pin: &to})
		if err != nil {
			return nil, fmt.Errorf("standing load: %w", err)
		}
		b.Detach()
	}
	return s, nil
}

// pair are the two callers of a pool, far from each other.
func (p pool) pair(s *sched.Scheduler) [2]*caller {
	return [2]*caller{newCaller(s, "caller-a", 2), newCaller(s, "caller-b", uint64(p.ranks)-1)}
}
