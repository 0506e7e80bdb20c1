package micro

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The rows of held in which many are done with at one instant: how long whoever
// does that is held, and how long who comes meanwhile.

const (
	theOthers = "calls meanwhile"
	// between is how many calls of another must go through while many are done
	// with: it is done in pieces.
	between = 20
)

// inPieces are the demands of these rows.
func inPieces(what string) []demand {
	others := key{Turnstile, theOthers}
	return []demand{
		atMostCPU("CPU of the longest "+what, time.Millisecond),
		bound(report.CallCPU, "CPU of the longest call of another", others, report.AtMost(float64(time.Millisecond)), report.Nanos),
		bound(report.Others, "calls of another that go through meanwhile", others, report.AtLeast(between), report.Short),
	}
}

// meanwhile runs f, and makes calls beside it until over says that what f began
// has ended.
func (r *heldRound) meanwhile(ctx context.Context, f func() error, over func() bool, call func(n int64) error) error {
	b := &beside{}
	b.run(call)
	err := eventually(ctx, "the calls beside", func() bool { return b.calls.Load() > 10 || len(b.done) > 0 })
	from := b.calls.Load()
	if err == nil {
		err = r.whole(1, func() error {
			return errors.Join(f(), eventually(ctx, "the end of it", over))
		})
	}
	b.hold.other(float64(b.calls.Load() - from))
	err = errors.Join(err, b.end())
	r.groups[0] = &b.hold
	return err
}

func dueTogether(engines []Engine) Spec {
	h := heldRow{
		name: "due", about: "50,000 waiting requests with one due time: each piece of the timer's work, and calls of another meanwhile (a do_not_queue request that is refused)",
		callers: 50_000, ranks: 16, weight: 8, rounds: 3, groups: []string{theOthers}, demands: inPieces("piece of the timer"),
	}
	return h.each(queues(engines), func(ctx context.Context, e Engine, s Settings, r *heldRound) (err error) {
		n := s.scaled(h.callers)
		clock := newLeapClock(&r.calls)
		g, err := newGateFrom(e, Config{PolicyYAML: onePrompt, Clock: clock}, h.ranks, promptTokens)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.finish()) }()
		due := clock.Now().Add(time.Hour)
		crowd := newCrowd(g.eng)
		for i := range n {
			crowd.joinWith(&sched.Request{ID: "c" + strconv.Itoa(i), ISL: promptTokens, Due: due}, sched.ErrDeadline)
		}
		if err = g.await(n); err == nil {
			err = r.meanwhile(ctx, func() error { clock.leap(2 * time.Hour); return nil },
				func() bool { return g.inLine() == 0 },
				func(int64) error {
					_, err := g.eng.Schedule(ctx, &sched.Request{ID: "me", ISL: promptTokens, DoNotQueue: true})
					if errors.Is(err, sched.ErrWouldQueue) {
						return nil
					}
					return errors.Join(errors.New("a request was not refused on a full pool"), err)
				})
		}
		crowd.leave()
		crowd.wait()
		return errors.Join(err, crowd.fault())
	})
}

func expiring(engines []Engine) Spec {
	h := heldRow{
		name: "expiring", about: "200,000 bookings whose ttl ends at one time: each piece of the timer's work, and calls of another meanwhile (schedule and release)",
		callers: 1, ranks: 64, weight: 8, rounds: 3, groups: []string{theOthers}, demands: inPieces("piece of the timer"),
	}
	const live = 200_000
	return h.each(queues(engines), func(ctx context.Context, e Engine, s Settings, r *heldRound) (err error) {
		n := s.scaled(live)
		clock := newLeapClock(&r.calls)
		eng, err := e.buildFrom(Config{Clock: clock, Tune: func(c *sched.Config) { c.BookingTTL = time.Hour }}, workers(h.ranks))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, finish(eng, nil)) }()
		for i := range n {
			if _, err := eng.Schedule(ctx, &sched.Request{ID: "live-" + strconv.Itoa(i), ISL: 1}); err != nil {
				return err
			}
		}
		return r.meanwhile(ctx, func() error { clock.leap(2 * time.Hour); return nil },
			func() bool { return eng.Stats().Expired >= int64(n) },
			func(int64) error {
				b, err := eng.Schedule(ctx, &sched.Request{ID: "me", ISL: 1})
				if err != nil {
					return err
				}
				// It may have come before the leap, and so have expired with the others.
				if err := b.Release(); !errors.Is(err, sched.ErrUnchanged) {
					return err
				}
				return nil
			})
	})
}

func closing(engines []Engine) Spec {
	h := heldRow{
		name: "close", about: "Close while 50,000 wait, and calls of another meanwhile (a transfer, which frees a rank)",
		callers: 50_000, ranks: 1024, weight: 8, rounds: 3, groups: []string{theOthers},
		demands: []demand{
			bound(report.CallCPU, "CPU of the longest call of another", key{Turnstile, theOthers}, report.AtMost(float64(time.Millisecond)), report.Nanos),
			bound(report.Others, "calls of another that go through meanwhile", key{Turnstile, theOthers}, report.AtLeast(between), report.Short),
			ratio(report.CPUPerOp, "CPU of the process until all are answered", key{engine: Turnstile}, key{engine: ActorDirect}, report.AtMost(1.5)),
		},
	}
	return h.each(queues(engines), func(ctx context.Context, e Engine, s Settings, r *heldRound) (err error) {
		n := s.scaled(h.callers)
		g, err := newGate(e, onePrompt, h.ranks)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.finish()) }()
		crowd := newCrowd(g.eng)
		to := rank(0) // which no caller frees
		for i := range n {
			crowd.joinWith(&sched.Request{ID: "c" + strconv.Itoa(i), ISL: promptTokens, Pin: &to}, sched.ErrClosed)
		}
		if err = g.await(n); err == nil {
			err = r.meanwhile(ctx, func() error { return r.calls.call(g.eng.Close) },
				func() bool { return g.inLine() == 0 },
				func(i int64) error {
					// There and back: each frees a rank, and lifecycle calls work after Close too.
					_, err := g.blockers[1].Transfer(rank(1 + int(i+1)%2))
					return err
				})
		}
		crowd.leave()
		crowd.wait()
		return errors.Join(err, crowd.fault())
	})
}
