package script

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The commands other than new and those on bookings. Each reads its arguments,
// calls the engine and returns what is to be printed before the decisions.

func profile(input string) command {
	return func(s *session, _ context.Context, a *args) ([]string, error) {
		if err := a.done(); err != nil {
			return nil, err
		}
		return resultLines(s.engine.SetProfileYAML([]byte(input))), nil
	}
}

func workers(input string) command {
	return func(s *session, _ context.Context, a *args) ([]string, error) {
		list, invalid, err := readWorkers(input)
		switch {
		case a.done() != nil:
			return nil, a.err
		case err != nil:
			return nil, err
		case invalid:
			return resultLines(sched.ErrInvalid), nil
		}
		return resultLines(s.engine.SetWorkers(list)), nil
	}
}

// checked calls f, if the arguments read are in order.
func checked(a *args, f func() error) ([]string, error) {
	switch {
	case a.done() != nil:
		return nil, a.err
	case a.invalid:
		return resultLines(sched.ErrInvalid), nil
	}
	return resultLines(f()), nil
}

func (s *session) worker(_ context.Context, a *args) ([]string, error) {
	w := readWorker(a)
	return checked(a, func() error { return s.engine.UpsertWorker(w) })
}

func (s *session) removeWorker(_ context.Context, a *args) ([]string, error) {
	id := a.workerID()
	incarnation, _ := a.text("inc")
	return checked(a, func() error { return s.engine.RemoveIncarnation(id, incarnation) })
}

func (s *session) setAside(_ context.Context, a *args) ([]string, error) {
	id := a.workerID()
	incarnation, _ := a.text("inc")
	d, ok := a.duration("for")
	if !ok {
		a.fail("argument for is missing")
	}
	return checked(a, func() error { return s.engine.SetAsideIncarnation(id, incarnation, d) })
}

func (s *session) drainWorker(_ context.Context, a *args) ([]string, error) {
	id, off := a.workerID(), a.flag("off")
	return checked(a, func() error {
		if off {
			return s.engine.UndrainWorker(id)
		}
		return s.engine.DrainWorker(id)
	})
}

func (s *session) overloaded(_ context.Context, a *args) ([]string, error) {
	ids := a.uints("ids")
	if ids == nil {
		a.fail("argument ids is missing")
	}
	return checked(a, func() error { return s.engine.SetOverloaded(ids) })
}

func (s *session) available(_ context.Context, a *args) ([]string, error) {
	ids := a.uints("ids")
	return checked(a, func() error { return s.engine.SetAvailable(ids) })
}

func (s *session) schedule(ctx context.Context, a *args) ([]string, error) {
	r, query := readRequest(a, s.clock.Now()), a.flag("query")
	switch {
	case a.done() != nil:
		return nil, a.err
	case a.invalid:
		return []string{errorLine(r.ID, sched.ErrInvalid)}, nil
	}
	return nil, s.arrive(ctx, r, query)
}

func (s *session) selectRank(ctx context.Context, a *args) ([]string, error) {
	r := readRequest(a, s.clock.Now())
	a.flag("query")
	switch {
	case a.done() != nil:
		return nil, a.err
	case a.invalid:
		return []string{errorLine(r.ID, sched.ErrInvalid)}, nil
	}
	p, err := s.engine.Select(ctx, r)
	switch {
	case err != nil:
		return []string{errorLine(r.ID, err)}, nil
	case p.Attempt != 0:
		return []string{disagrees(r.ID, "an advisory selection has attempt %d", p.Attempt)}, nil
	}
	return []string{placementLine(r.ID, p)}, nil
}

// cancel ends the context of a waiting call. Of an id that does not wait the
// script says "unchanged", whether or not it was ever seen.
func (s *session) cancel(ctx context.Context, a *args) ([]string, error) {
	id := a.id()
	if err := a.done(); err != nil {
		return nil, err
	}
	c := s.undecided(id)
	if c == nil {
		return []string{errorLine(id, sched.ErrUnchanged)}, nil
	}
	c.cancel()
	return nil, wait(ctx, c.done, "the cancelled call of "+id+" to return")
}

// advance moves the clock. The engine settles at each instant at which a timer
// fires, before the next one.
func (s *session) advance(ctx context.Context, a *args) ([]string, error) {
	by, ok := a.duration("by")
	if !ok {
		a.fail("argument by is missing")
	}
	if by < 0 {
		a.fail("argument by: time does not go back")
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	return forward(by)(s, ctx, a)
}

// forward moves the clock by so much.
func forward(by time.Duration) command {
	return func(s *session, ctx context.Context, _ *args) ([]string, error) { return s.forward(ctx, by) }
}

func (s *session) forward(ctx context.Context, by time.Duration) ([]string, error) {
	var lines []string
	end := s.clock.Now().Add(by)
	for {
		at, ok := s.clock.Next()
		last := !ok || at.After(end)
		if last {
			at = end
		}
		s.clock.Advance(at.Sub(s.clock.Now()))
		decided, err := s.settle(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, decided...)
		if last {
			return lines, nil
		}
	}
}

func (s *session) recheck(ctx context.Context, a *args) ([]string, error) {
	return checked(a, func() error { return s.engine.Recheck(ctx) })
}

func (s *session) close(_ context.Context, a *args) ([]string, error) {
	return checked(a, s.engine.Close)
}

func (s *session) loads(_ context.Context, a *args) ([]string, error) {
	if err := a.done(); err != nil {
		return nil, err
	}
	loads := s.engine.Loads()
	slices.SortFunc(loads, func(a, b sched.RankLoad) int { return a.Rank.Compare(b.Rank) })
	var lines []string
	for _, l := range loads {
		lines = append(lines, fmt.Sprintf("%v prefill=%d blocks=%d requests=%d", l.Rank, l.PrefillTokens, l.Blocks, l.Requests))
	}
	return lines, nil
}

func (s *session) queue(_ context.Context, a *args) ([]string, error) {
	if err := a.done(); err != nil {
		return nil, err
	}
	var lines []string
	for _, c := range s.engine.Stats().Classes {
		lines = append(lines, fmt.Sprintf("%s pending=%d tokens=%d cached=%d deficit=%d", c.Name, c.Pending, c.Tokens, c.Cached, c.Deficit))
	}
	return lines, nil
}
