package sched_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// oneAtATime is the simplest policy that makes requests wait: a rank works on
// one prompt at a time.
const oneAtATime = `
default_policy_family: chat
uncached_isl_buckets: [{min_tokens: 0, bucket: all}]
policy_classes:
  - {name: chat, policy_family: chat, cache_bucket: all, quantum: 8192, prefill_busy_threshold: 0, choose_from: idle}
`

// mustParse reads a policy that is part of the program.
func mustParse(text string) *policy.File {
	file, err := policy.Parse([]byte(text))
	if err != nil {
		panic(err)
	}
	return file
}

// inLine counts the requests that have their place in line. Stats.Waiting may be
// ahead of it.
func inLine(s *sched.Scheduler) (n int64) {
	for _, class := range s.Stats().Classes {
		n += class.Pending
	}
	return n
}

// untilWaiting returns when n requests stand in line.
func untilWaiting(s *sched.Scheduler, n int64) {
	for inLine(s) != n {
		time.Sleep(time.Millisecond)
	}
	if err := s.Settle(context.Background()); err != nil {
		panic(err)
	}
}

// booked schedules a request that can run at once.
func booked(s *sched.Scheduler, r *sched.Request) *sched.Booking {
	b, err := s.Schedule(context.Background(), r)
	if err != nil {
		panic(fmt.Sprint("not booked: ", err))
	}
	return b
}
