package sched

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/seed-3c5df8a4/turnstile/sched/policy"
)

// What the logger receives. Each of these is rare, or logged at its first, second,
// fourth, eighth … occurrence only.

// hookPanicked counts a panic that was recovered. REQUIRES: no locks.
func (s *Scheduler) hookPanicked(h hook, panicked any) {
	s.notePanic(h, panicked)
	s.outbox.Flush()
}

// notePanic counts a panic that was recovered, and has it logged later.
func (s *Scheduler) notePanic(h hook, panicked any) {
	n := s.counters.panics[h].Inc()
	// A log handler that panics would only be asked to log that.
	if h != hookLogger && thinned(n) {
		s.outbox.Log(slog.LevelError, "turnstile: hook panicked", slog.String("hook", h.String()),
			slog.String("panic", fmt.Sprint(panicked)), slog.Int64("count", n))
	}
}

// panicIn returns what counts the panics of a hook.
func (s *Scheduler) panicIn(h hook) func(panicked any) {
	return func(panicked any) { s.hookPanicked(h, panicked) }
}

// thinned reports whether the nth occurrence is worth a line.
func thinned(n int64) bool { return n&(n-1) == 0 }

func (s *Scheduler) logSelectorFailed(n int64, err error) {
	if s.outbox != nil && thinned(n) {
		s.outbox.Log(slog.LevelError, "turnstile: selector failed",
			slog.String("error", err.Error()), slog.Int64("count", n))
	}
}

func (s *Scheduler) logHintsOverflowed(n int64) {
	if s.outbox != nil && thinned(n) {
		s.outbox.Log(slog.LevelWarn, "turnstile: capacity hints overflowed, all waiters are tested again",
			slog.Int64("count", n))
	}
}

// logEnded logs bookings that ended without their owner.
func (s *Scheduler) logEnded(kind EventKind, id string, p Placement) {
	s.outbox.Log(slog.LevelWarn, "turnstile: booking "+kind.String(), slog.String("request", id),
		slog.String("rank", p.Rank.String()), slog.Uint64("attempt", p.Attempt))
}

func (s *Scheduler) logDropped(rank RankID, bookings int) {
	if bookings > 0 {
		s.outbox.Log(slog.LevelWarn, "turnstile: rank removed with live bookings",
			slog.String("rank", rank.String()), slog.Int("bookings", bookings))
	}
}

// logNoProfile tells of a policy that holds nothing for the model that was named.
func (s *Scheduler) logNoProfile(c *Config) {
	if s.outbox == nil || c.Profile != nil || c.Policy == nil {
		return
	}
	if _, found := c.Policy.Find(c.Model); !found {
		s.outbox.Log(slog.LevelWarn, "turnstile: the policy has no profile for the model, nor one at its top: no request waits",
			slog.String("model", c.Model))
		s.outbox.Flush()
	}
}

func (s *Scheduler) logProfile(before, after *policy.Profile) {
	if s.outbox == nil || before == after {
		return
	}
	old, now := classNames(before), classNames(after)
	gone := slices.DeleteFunc(old, func(name string) bool { return slices.Contains(now, name) })
	s.outbox.Log(slog.LevelInfo, "turnstile: policy profile replaced", slog.Any("classes", now),
		slog.Any("gone", gone), slog.Int64("waiting", s.waiting.Load()))
}

func classNames(p *policy.Profile) []string {
	names := make([]string, p.Len())
	for i := range names {
		names[i] = p.Class(i).Name
	}
	return names
}
