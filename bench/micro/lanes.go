package micro

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

const (
	lanesRanks   = 1024
	lanesPinned  = 1000
	lanesPerLane = 10
	oneLane      = "one lane"
)

// lanes releases one rank again and again. In each lane ten wait for the rank
// they are pinned to; who gets the rank hands its booking over, for the next
// release, and goes back to the end of its lane.
func lanes(engines []Engine) Spec {
	spec := Spec{
		Scenario: "lanes", Weight: 4, About: "release of one rank, with the grant to the head of its lane, while 10,000 wait on 1,000 pinned lanes",
		Callers: 1, Ranks: lanesRanks,
		demands: []demand{
			ratio(report.P50, "p50 of the release", key{engine: Turnstile}, key{Turnstile, oneLane}, report.AtMost(1.25)),
		},
	}
	for _, e := range engines {
		for _, variant := range variantsOf(e, oneLane) {
			spec.contenders = append(spec.contenders, contender{engine: e.Name, variant: variant, run: func(ctx context.Context, s Settings) (*outcome, error) {
				n := s.scaled(lanesPinned)
				if variant != "" {
					n = 1
				}
				t, err := lanesTrial(e, n)
				if err != nil {
					return nil, err
				}
				return drive(ctx, t, s.Duration)
			}})
		}
	}
	return spec
}

// variantsOf are the row as it stands, and for the engine of which it is demanded
// the variant to hold that against.
func variantsOf(e Engine, against string) []string {
	if e.Name == Turnstile {
		return []string{"", against}
	}
	return []string{""}
}

func lanesTrial(e Engine, pinned int) (*trial, error) {
	g, err := newGate(e, onePrompt, lanesRanks)
	if err != nil {
		return nil, err
	}
	crowd := newCrowd(g.eng)
	handed := make(chan engine.Booking, lanesPerLane)
	for i := range pinned * lanesPerLane {
		lane := i % pinned
		to := rank(lane)
		r := &sched.Request{ID: "c" + strconv.Itoa(i), ISL: promptTokens, Pin: &to}
		crowd.join(r, lane == 0, func(b engine.Booking) { handed <- b })
	}
	t := &trial{abort: crowd.leave, end: func() error {
		crowd.leave()
		crowd.wait()
		close(handed)
		for b := range handed {
			g.blockers = append(g.blockers, b)
		}
		return errors.Join(crowd.fault(), g.finish())
	}}
	if err := g.await(pinned * lanesPerLane); err != nil {
		return nil, errors.Join(err, t.end())
	}
	held := g.blockers[0]
	t.callers = []caller{{
		timed: func() error { return held.Release() },
		rest: func() error {
			select {
			case held = <-handed:
				g.blockers[0] = held
				return nil
			case <-time.After(patience):
				return errors.New("no waiter went when the rank was freed")
			}
		},
	}}
	return t, nil
}

// crowd are many waiters, each on a goroutine of its own.
type crowd struct {
	eng engine.Engine
	ctx context.Context
	// leave has all waiters leave.
	leave context.CancelFunc
	wg    sync.WaitGroup

	mu  sync.Mutex
	err error // guarded by mu
}

func newCrowd(eng engine.Engine) *crowd {
	c := &crowd{eng: eng}
	c.ctx, c.leave = context.WithCancel(context.Background())
	return c
}

// join has one more wait, and again and again if it is to, until all are to
// leave.
func (c *crowd) join(r *sched.Request, again bool, granted func(engine.Booking)) {
	ctx, end := context.WithCancel(c.ctx)
	// Its id is in use as long as what it handed over is booked, so the next
	// turn has another.
	other := *r
	other.ID += "-again"
	c.wg.Go(func() {
		defer end()
		for turn := [2]*sched.Request{r, &other}; ; turn[0], turn[1] = turn[1], turn[0] {
			b, err := c.eng.Schedule(ctx, turn[0])
			if err == nil {
				granted(b)
			} else if !errors.Is(err, sched.ErrCanceled) {
				c.mu.Lock()
				c.err = fmt.Errorf("a waiter: %w", err)
				c.mu.Unlock()
			}
			if err != nil || !again {
				return
			}
		}
	})
}

// joinWith has one more wait that is to be refused in the end.
func (c *crowd) joinWith(r *sched.Request, end error) {
	c.wg.Go(func() {
		b, err := c.eng.Schedule(c.ctx, r)
		if err == nil {
			err = errors.Join(errors.New("it was admitted"), b.Release())
		} else if errors.Is(err, end) || errors.Is(err, sched.ErrCanceled) {
			return
		}
		c.mu.Lock()
		c.err = fmt.Errorf("a waiter that should end with %w: %w", end, err)
		c.mu.Unlock()
	})
}

func (c *crowd) wait() { c.wg.Wait() }

func (c *crowd) fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

const (
	cancelledWaiters = 10_000
	without          = "without them"
)

// cancelled has a live request wait behind many that have left, and releases
// the one rank there is.
func cancelled(engines []Engine) Spec {
	spec := Spec{
		Scenario: "cancelled", Weight: 3, About: "from the release to the grant of the only live waiter, behind 10,000 that have left", Callers: 1, Ranks: 1,
		demands: []demand{
			ratio(report.P50, "p50", key{engine: Turnstile}, key{Turnstile, without}, report.AtMost(1.5)),
		},
	}
	for _, e := range engines {
		for _, variant := range variantsOf(e, without) {
			spec.contenders = append(spec.contenders, contender{engine: e.Name, variant: variant, run: func(ctx context.Context, s Settings) (*outcome, error) {
				n := s.scaled(cancelledWaiters)
				if variant != "" {
					n = 0
				}
				return cancelledRound(ctx, e, n, s.scaled(cancelledWaiters), s.Duration)
			}})
		}
	}
	return spec
}

// cancelledRound tries as often as the time allows, at least once. Goroutines
// that come and go leave caches cold, so there are as many of them in either
// variant: n that wait in the engine, the others for nothing.
func cancelledRound(ctx context.Context, e Engine, n, goroutines int, duration time.Duration) (*outcome, error) {
	g, err := newGate(e, onePrompt, 1)
	if err != nil {
		return nil, err
	}
	h := hdrhistogram.New(1, longest, digits)
	var spent time.Duration
	for began := time.Now(); err == nil && ctx.Err() == nil && (h.TotalCount() < 1 || time.Since(began) < duration); {
		var took time.Duration
		if took, err = g.behind(n, goroutines-n); err == nil {
			spent += took
			err = h.RecordValue(int64(took))
		}
	}
	if err = errors.Join(err, ctx.Err(), g.finish()); err != nil {
		return nil, err
	}
	out := &outcome{total: report.NewRound(), waits: h}
	out.wall = spent
	out.fill(&out.total, h.TotalCount(), h)
	return out, nil
}

// behind lets n come and leave, one more come in between, and frees the rank. It
// returns how long the grant took.
func (g *gate) behind(n, idle int) (time.Duration, error) {
	before := newCrowd(g.eng)
	for range idle {
		before.wg.Go(func() { <-before.ctx.Done() })
	}
	for i := range n {
		before.join(&sched.Request{ID: "left-" + strconv.Itoa(i), ISL: promptTokens}, false, func(b engine.Booking) { _ = b.Release() })
	}
	defer before.wait()
	defer before.leave()
	if err := g.await(n); err != nil {
		return 0, err
	}
	live := newCrowd(g.eng)
	defer live.leave()
	var granted time.Time
	done := make(chan engine.Booking, 1)
	live.join(&sched.Request{ID: "live-" + strconv.FormatInt(time.Now().UnixNano(), 36), ISL: promptTokens}, false, func(b engine.Booking) {
		granted = time.Now()
		done <- b
	})
	if err := g.await(n + 1); err != nil {
		return 0, err
	}
	before.leave()
	before.wait()
	if err := before.fault(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := g.blockers[0].Release(); err != nil {
		return 0, err
	}
	select {
	case g.blockers[0] = <-done:
		return granted.Sub(began), nil
	case <-time.After(patience):
		return 0, errors.New("the live one was not granted")
	}
}
