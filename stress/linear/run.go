package linear

import (
	"context"
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/seed-3c5df8a4/turnstile/bench/actor"
	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// Target makes an engine that histories are taken from.
type Target struct {
	Name string
	New  func(sched.Config, clock.Clock, func(sched.Decision)) (engine.Engine, error)
}

// Targets returns the engines, the one under test first.
func Targets() []Target {
	return []Target{
		{"sharded", func(config sched.Config, c clock.Clock, hook func(sched.Decision)) (engine.Engine, error) {
			return engine.NewSharded(config, sched.WithClock(c), sched.WithDecisionHook(hook))
		}},
		{"actor-direct", newActor(true)},
		{"actor", newActor(false)},
	}
}

func newActor(direct bool) func(sched.Config, clock.Clock, func(sched.Decision)) (engine.Engine, error) {
	return func(config sched.Config, c clock.Clock, hook func(sched.Decision)) (engine.Engine, error) {
		return actor.New(actor.Config{Config: config, Direct: direct, Clock: c, OnDecision: hook})
	}
}

// IllegalError tells of a history that no sequential order explains.
type IllegalError struct {
	Seed    uint64
	Picture string // the path of porcupine's page
	History string // its steps, and how far they can be explained
}

func (i *IllegalError) Error() string {
	return fmt.Sprintf("no sequential order explains the history of seed %d; picture: %s\n%s", i.Seed, i.Picture, i.History)
}

// effort is how many steps of the specification one search may take, which is
// about a second.
const effort = 300_000

// Run takes n histories of the target and has each one checked, until one is
// illegal, the engine fails or ctx ends. A seed decides what the clients of a
// history do, but not how they meet. After each history it tells how the run
// stands. The error is an *IllegalError if a history is.
func Run(ctx context.Context, target Target, seed uint64, n int, each func(*Tally)) (*Tally, error) {
	return run(ctx, target, seed, n, effort, each)
}

func run(ctx context.Context, target Target, seed uint64, n, effort int, each func(*Tally)) (*Tally, error) {
	sum := &Tally{}
	for end := seed + uint64(n); seed != end && ctx.Err() == nil; seed++ {
		h, err := record(target, seed)
		if err != nil {
			return sum, fmt.Errorf("seed %d: %w", seed, err)
		}
		v := h.check(effort)
		if v.CheckResult == porcupine.Illegal {
			picture, err := v.refuted.draw()
			if err != nil {
				return sum, err
			}
			return sum, &IllegalError{Seed: seed, Picture: picture, History: v.refuted.String()}
		}
		sum.add(h, v)
		each(sum)
	}
	return sum, nil
}

// Tally sums up what histories held and what it took to explain them.
type Tally struct {
	Histories, Steps, Most, Queued int
	// Explained counts the histories by the search that explained them.
	Explained [len(attempts)]int
	// Undecided are those for which the last search would have taken too long.
	Undecided int
}

func (t *Tally) add(h *history, v verdict) {
	steps, queued := h.size()
	t.Histories++
	t.Steps, t.Most, t.Queued = t.Steps+steps, max(t.Most, steps), t.Queued+queued
	if v.CheckResult == porcupine.Unknown {
		t.Undecided++
	} else {
		t.Explained[v.looser]++
	}
}

func (t *Tally) String() string {
	return fmt.Sprintf("%d histories of %d steps, at most %d in one; %d calls were told to wait. "+
		"Explained by the first search, the second, …: %v; undecided: %d",
		t.Histories, t.Steps, t.Most, t.Queued, t.Explained, t.Undecided)
}
