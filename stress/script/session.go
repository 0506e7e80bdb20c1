package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/clock"
)

// epoch is where the script's clock stands at 0 s. It is not the zero time,
// which means "none" in a request.
var epoch = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// session is one engine and what the script knows of it.
type session struct {
	engine engine.Engine
	clock  *clock.Manual
	log    decisionLog
	// calls are the Schedule and Query calls that have not ended, in order of
	// arrival.
	calls []*call
	// arriving is the call that the current command makes, if it makes one.
	arriving *call
	// attempts are the bookings of each id, oldest first.
	attempts map[string][]*attempt
}

// call is one Schedule or Query on its own goroutine.
type call struct {
	id     string
	query  bool
	cancel context.CancelFunc
	// done is closed when the call has returned; the rest may be read then.
	done      chan struct{}
	booking   engine.Booking
	placement sched.Placement
	err       error
}

func (c *call) returned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// decisionLog is where the engine's hook leaves decisions.
type decisionLog struct {
	mu struct {
		sync.Mutex
		decisions []sched.Decision
	}
	// added holds a token if there may be decisions that were not looked at.
	added chan struct{}
}

func (l *decisionLog) add(d sched.Decision) {
	l.mu.Lock()
	l.mu.decisions = append(l.mu.decisions, d)
	l.mu.Unlock()
	select {
	case l.added <- struct{}{}:
	default:
	}
}

func (l *decisionLog) take() []sched.Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.mu.decisions
	l.mu.decisions = nil
	return d
}

func (l *decisionLog) hasQueued(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.mu.decisions, func(d sched.Decision) bool {
		return d.Kind == sched.DecisionQueued && d.Request == id
	})
}

func newSession(factory Factory, setup Setup) (*session, error) {
	s := &session{
		clock:    clock.NewManual(epoch),
		log:      decisionLog{added: make(chan struct{}, 1)},
		attempts: make(map[string][]*attempt),
	}
	setup.Clock = s.clock
	setup.OnDecision = s.log.add
	var err error
	s.engine, err = factory(setup)
	return s, err
}

// end closes the engine and waits until every call has returned.
func (s *session) end(ctx context.Context) error {
	err := s.engine.Close()
	if errors.Is(err, sched.ErrClosed) {
		err = nil
	}
	for _, c := range s.calls {
		c.cancel()
		if werr := wait(ctx, c.done, "the call of "+c.id+" to return after close"); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}

// do runs a command and returns what it printed, then what was decided, then
// whether the arrival waits.
func (s *session) do(ctx context.Context, a *args, do command) ([]string, error) {
	s.arriving = nil
	lines, err := do(s, ctx, a)
	if err != nil {
		return nil, err
	}
	decided, err := s.settle(ctx)
	if err != nil {
		return nil, err
	}
	lines = append(lines, decided...)
	// A call that returned without its decision is told last.
	for _, c := range slices.Clone(s.calls) {
		if !c.returned() {
			continue
		}
		s.forget(c)
		if c.err != nil {
			lines = append(lines, errorLine(c.id, c.err))
		} else {
			lines = append(lines, disagrees(c.id, "returned a placement that the hook was not told of"))
		}
	}
	if c := s.arriving; c != nil && slices.Contains(s.calls, c) {
		lines = append(lines, c.id+" queued")
	}
	return lines, nil
}

// settle waits until the engine rests and returns a line for each decision
// made. The call that a decision ends has returned by then.
func (s *session) settle(ctx context.Context) ([]string, error) {
	var lines []string
	for {
		if err := s.engine.Settle(ctx); err != nil {
			return nil, fmt.Errorf("the engine does not settle: %w", err)
		}
		decisions := s.log.take()
		if len(decisions) == 0 {
			return lines, nil
		}
		for _, d := range decisions {
			line, err := s.decided(ctx, d)
			if err != nil {
				return nil, err
			}
			if line != "" {
				lines = append(lines, line)
			}
		}
	}
}

func (s *session) decided(ctx context.Context, d sched.Decision) (string, error) {
	switch d.Kind {
	case sched.DecisionQueued:
		return "", nil
	case sched.DecisionExpired:
		return s.expired(ctx, d.Request)
	case sched.DecisionAdmitted, sched.DecisionRejected:
		c := s.undecided(d.Request)
		if c == nil {
			return disagrees(d.Request, "%v, but nobody asked", d.Kind), nil
		}
		if err := wait(ctx, c.done, "the call of "+c.id+" to return: it was "+d.Kind.String()); err != nil {
			return "", err
		}
		s.forget(c)
		return s.ended(c, d), nil
	default:
		return disagrees(d.Request, "decision of unknown kind %d", d.Kind), nil
	}
}

// ended returns the line for a decision that ended a call, and notes the
// booking.
func (s *session) ended(c *call, d sched.Decision) string {
	told, returned := errorLine(c.id, d.Err), errorLine(c.id, c.err)
	if d.Kind == sched.DecisionAdmitted {
		told = placementLine(c.id, d.Placement)
	}
	if c.err == nil {
		returned = placementLine(c.id, c.placement)
		if !c.query {
			if fault := s.booked(c.id, c.booking, c.placement); fault != "" {
				return fault
			}
		} else if c.placement.Attempt != 0 {
			return disagrees(c.id, "a query has attempt %d", c.placement.Attempt)
		}
	}
	switch {
	case told != returned:
		return disagrees(c.id, "told %q, returned %q", told, returned)
	case d.Query != c.query:
		return disagrees(c.id, "decided as query=%t", d.Query)
	default:
		return told
	}
}

// undecided returns the call of id that a decision is about. An arrival that
// has returned comes first: it is the one refused as a duplicate of the other.
func (s *session) undecided(id string) *call {
	if c := s.arriving; c != nil && c.id == id && c.returned() && slices.Contains(s.calls, c) {
		return c
	}
	for _, c := range s.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (s *session) forget(c *call) {
	s.calls = slices.DeleteFunc(s.calls, func(x *call) bool { return x == c })
	c.cancel()
}

// arrive starts the call for r and returns once it is decided or waits.
func (s *session) arrive(ctx context.Context, r *sched.Request, query bool) error {
	callCtx, cancel := context.WithCancel(context.Background())
	c := &call{id: r.ID, query: query, cancel: cancel, done: make(chan struct{})}
	s.calls = append(s.calls, c)
	s.arriving = c
	go func() {
		defer close(c.done)
		if query {
			c.placement, c.err = s.engine.Query(callCtx, r)
			return
		}
		c.booking, c.err = s.engine.Schedule(callCtx, r)
		if c.err == nil {
			c.placement = c.booking.Placement()
		}
	}()
	for !s.log.hasQueued(r.ID) {
		select {
		case <-c.done:
			return nil
		case <-s.log.added:
		case <-ctx.Done():
			return fmt.Errorf("%s neither returns nor is queued: %w", r.ID, ctx.Err())
		}
	}
	return nil
}

func wait(ctx context.Context, done <-chan struct{}, what string) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
	}
}
