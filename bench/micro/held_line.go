package micro

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The rows of held in which a request waits: how long one call works for others.

// queues leaves the engines that show something of their own where requests
// wait: actor-index differs from actor in the choice alone.
func queues(engines []Engine) []Engine {
	var out []Engine
	for _, e := range engines {
		if e.Name != ActorIndex {
			out = append(out, e)
		}
	}
	return out
}

// each makes a contender of each engine.
func (h heldRow) each(engines []Engine, run func(context.Context, Engine, Settings, *heldRound) error) Spec {
	var all []contender
	for _, e := range engines {
		all = append(all, h.contender(e.Name, "", func(ctx context.Context, s Settings, r *heldRound) error {
			return run(ctx, e, s, r)
		}))
	}
	return h.spec(all...)
}

// waitingCrowd is a gate with a crowd before it. What the crowd is granted it keeps
// until the end.
type waitingCrowd struct {
	*gate
	name    string // of the engine
	crowd   *crowd
	mu      sync.Mutex
	granted []engine.Booking // guarded by mu
}

func (w *waitingCrowd) join(r *sched.Request) {
	w.crowd.join(r, false, func(b engine.Booking) {
		w.mu.Lock()
		w.granted = append(w.granted, b)
		w.mu.Unlock()
	})
}

// gather has n requests of one token wait.
func (w *waitingCrowd) gather(n int) error {
	for i := range n {
		w.join(&sched.Request{ID: "c" + strconv.Itoa(i), ISL: 1})
	}
	return w.await(n)
}

// served counts those of the crowd that were served. The actors answer no question
// while they serve, but tell the hook at once; the sharded scheduler tells it later,
// but answers.
func (w *waitingCrowd) served(of int, told *atomic.Int64) int64 {
	if w.name == Turnstile {
		return int64(of) - w.inLine()
	}
	return told.Load() - int64(len(w.blockers))
}

func newWaitingCrowd(e Engine, c Config, ranks int, tokens int64) (*waitingCrowd, error) {
	g, err := newGateFrom(e, c, ranks, tokens)
	if err != nil {
		return nil, err
	}
	return &waitingCrowd{gate: g, name: e.Name, crowd: newCrowd(g.eng)}, nil
}

// finish has all waiters leave, and ends.
func (w *waitingCrowd) finish() error {
	w.crowd.leave()
	w.crowd.wait()
	w.blockers = append(w.blockers, w.granted...)
	return errors.Join(w.crowd.fault(), w.gate.finish())
}

// apart has n wait in n lanes: each excludes two workers, and no two the same, as the
// retries of Do make them.
func (w *waitingCrowd) apart(n, ranks int) error {
	for i := range n {
		first, step := i%ranks, 1+i/ranks
		w.join(&sched.Request{
			ID: "c" + strconv.Itoa(i), ISL: promptTokens,
			Excluded: []uint64{rank(first).Worker, rank((first + step) % ranks).Worker},
		})
	}
	return w.await(n)
}

func releaseLanes(engines []Engine) Spec {
	h := heldRow{
		name: "release-lanes", about: "one release of one rank, while 4,000 wait, each in a lane of its own (two workers excluded)",
		callers: 4000, ranks: 2048, weight: 20, rounds: 3,
		demands: []demand{atMostCPU("CPU of one release", 100*time.Microsecond)},
	}
	return h.each(queues(engines), func(ctx context.Context, e Engine, s Settings, r *heldRound) (err error) {
		waiters, ranks := max(4, s.scaled(h.callers)), max(8, s.scaled(h.ranks))
		w, err := newWaitingCrowd(e, Config{PolicyYAML: onePrompt}, ranks, promptTokens)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.finish()) }()
		if err := w.apart(waiters, ranks); err != nil {
			return err
		}
		for i := range 3 {
			err := r.whole(1, func() error {
				if err := r.calls.call(w.blockers[ranks-1-i].Release); err != nil {
					return err
				}
				return w.await(waiters - 1 - i)
			})
			if err = errors.Join(err, w.eng.Settle(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
}

func releaseRow(engines []Engine) Spec {
	const releases = 100
	h := heldRow{
		name: "release-100", about: "100 releases in a row by one caller, while 800 wait, each in a lane of its own; the call is all 100",
		callers: 800, ranks: 1024, weight: 20, rounds: 3,
		demands: []demand{atMostCPU("CPU of the 100", 5*time.Millisecond)},
	}
	return h.each(queues(engines), func(_ context.Context, e Engine, s Settings, r *heldRound) (err error) {
		ranks := max(16, s.scaled(h.ranks))
		waiters, n := max(8, s.scaled(h.callers)), min(releases, ranks/2)
		w, err := newWaitingCrowd(e, Config{PolicyYAML: onePrompt}, ranks, promptTokens)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.finish()) }()
		if err := w.apart(waiters, ranks); err != nil {
			return err
		}
		return r.whole(1, func() error {
			return r.calls.call(func() error {
				began := time.Now()
				for i := range n {
					if err := w.blockers[ranks-1-i].Release(); err != nil {
						return err
					}
					if time.Since(began) > s.limit() {
						r.after(s.limit(), i+1, n)
						break
					}
				}
				return nil
			})
		})
	})
}

// count counts admissions.
func count(n *atomic.Int64) func(sched.Decision) {
	return func(d sched.Decision) {
		if d.Kind == sched.DecisionAdmitted {
			n.Add(1)
		}
	}
}

const manyTokens = 1_000_000

// oneToken has a rank take a whole crowd of requests of one token.
var oneToken = strings.Replace(onePrompt, "threshold: 0", "threshold: "+strconv.Itoa(manyTokens), 1)

func releaseIdle(engines []Engine) Spec {
	h := heldRow{
		name: "release-idle", about: "one release while 100,000 wait that can all run: 64 ranks become idle one after the other; others: waiters that are served during one call",
		callers: 100_000, ranks: 64, weight: 20, rounds: 3,
		demands: []demand{
			atMostCPU("CPU of one release", 100*time.Microsecond),
			bound(report.Others, "served by one release", key{engine: Turnstile}, report.AtMost(64), report.Short),
		},
	}
	return h.each(queues(engines), func(_ context.Context, e Engine, s Settings, r *heldRound) (err error) {
		waiters := max(400, s.scaled(h.callers))
		var admitted atomic.Int64
		w, err := newWaitingCrowd(e, Config{PolicyYAML: oneToken, OnDecision: count(&admitted)}, h.ranks, manyTokens+1)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.finish()) }()
		if err := w.gather(waiters); err != nil {
			return err
		}
		// On one processor no other goroutine serves while the call lasts.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		for _, b := range w.blockers {
			before := w.served(waiters, &admitted)
			if before == int64(waiters) {
				break
			}
			if err := r.calls.call(b.Release); err != nil {
				return err
			}
			r.calls.other(float64(w.served(waiters, &admitted) - before))
		}
		return nil
	})
}

func refused(engines []Engine) Spec {
	const polling = 64
	h := heldRow{
		name: "refused", about: "a do_not_queue request that is refused on a full pool, while 64 others ask likewise, over and over",
		callers: polling, ranks: 16, weight: 3,
		demands: []demand{atMostCPU("CPU of one refusal", 100*time.Microsecond)},
	}
	return h.each(queues(engines), func(ctx context.Context, e Engine, s Settings, r *heldRound) (err error) {
		g, err := newGate(e, onePrompt, h.ranks)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, g.finish()) }()
		ask := func(id string) error {
			b, err := g.eng.Schedule(ctx, &sched.Request{ID: id, ISL: promptTokens, DoNotQueue: true})
			switch {
			case err == nil:
				return errors.Join(errors.New("a request found room on a full pool"), b.Release())
			case errors.Is(err, sched.ErrWouldQueue):
				return nil
			}
			return err
		}
		var stop atomic.Bool
		var wg sync.WaitGroup
		faults := make(chan error, polling)
		for i := range polling {
			wg.Go(func() {
				for id := "p" + strconv.Itoa(i); !stop.Load(); {
					if err := ask(id); err != nil {
						faults <- err
						return
					}
				}
			})
		}
		for began, n := time.Now(), 0; err == nil && (n < 100 || time.Since(began) < s.Duration) && time.Since(began) < s.limit(); n++ {
			err = r.calls.call(func() error { return ask("me") })
		}
		stop.Store(true)
		wg.Wait()
		close(faults)
		for f := range faults {
			err = errors.Join(err, f)
		}
		return err
	})
}

func priority(engines []Engine) Spec {
	h := heldRow{
		name: "priority", about: "an arrival of priority 9 while 100,000 of priority 0 are being served; others: how many of those go first, the median of several arrivals",
		callers: 100_000, ranks: 64, weight: 20, rounds: 5,
		demands: []demand{bound(report.Others, "of priority 0 go first", key{engine: Turnstile}, report.AtMost(64), report.Short)},
	}
	return h.each(queues(engines), func(_ context.Context, e Engine, s Settings, r *heldRound) (err error) {
		waiters := max(400, s.scaled(h.callers))
		// The hook is told of decisions in their order, one at a time.
		const urgent = "urgent-"
		var admitted atomic.Int64
		var places [9]atomic.Int64 // of the urgent ones in the order of admissions
		c := Config{PolicyYAML: oneToken, OnDecision: func(d sched.Decision) {
			if d.Kind == sched.DecisionAdmitted {
				n := admitted.Add(1)
				if which, ok := strings.CutPrefix(d.Request, urgent); ok {
					i, _ := strconv.Atoi(which)
					places[i].Store(n)
				}
			}
		}}
		w, err := newWaitingCrowd(e, c, h.ranks, manyTokens+1)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.finish()) }()
		if err := w.gather(waiters); err != nil {
			return err
		}
		began := make(chan error, 1)
		go func() { began <- w.blockers[0].Release() }()
		for w.served(waiters, &admitted) <= int64(waiters/100) { // it is under way
			runtime.Gosched()
		}
		// One after the other, as long as the crowd is being served: who asks may be put
		// aside between looking and asking, so the median counts.
		var first []float64
		for i := 0; i < len(places) && err == nil; i++ {
			before := w.served(waiters, &admitted)
			if i > 0 && before > int64(waiters-waiters/10) {
				break
			}
			var b engine.Booking
			err = r.calls.call(func() (err error) {
				b, err = w.eng.Schedule(context.Background(), &sched.Request{ID: urgent + strconv.Itoa(i), ISL: 1, Priority: 9})
				return err
			})
			if err == nil {
				w.blockers = append(w.blockers, b)
				first = append(first, -float64(before))
			}
		}
		if err = errors.Join(err, <-began, w.eng.Settle(context.Background())); err != nil {
			return err
		}
		for i := range first {
			first[i] += float64(places[i].Load() - 1 - int64(h.ranks) - int64(i))
		}
		r.calls.other(report.Median(first))
		return nil
	})
}

// leaving is the context of a caller that leaves: from the moment at which the
// engine finds that it has ended, the caller is measured.
type leaving struct {
	context.Context
	done  chan struct{}
	most  *atomic.Int64 // how many more may hold a thread at once
	began time.Time
	mark  mark
	holds bool
}

// Done implements context.Context.
func (l *leaving) Done() <-chan struct{} { return l.done }

// Err implements context.Context. It is called by the caller alone.
func (l *leaving) Err() error {
	select {
	case <-l.done:
	default:
		return nil
	}
	if l.began.IsZero() {
		l.began = time.Now()
		if l.holds = l.most.Add(-1) >= 0; l.holds {
			l.mark = begin()
		}
	}
	return context.Canceled
}

// left notes how long the leaving took.
func (l *leaving) left(h *hold) {
	if l.holds {
		h.end(l.mark)
	}
	l.most.Add(1)
}

const fewLeave = "10,000"

func leavers(engines []Engine) Spec {
	const mostThreads = 64
	h := heldRow{
		name: "leavers", about: "a caller leaves while it waits, as do 40,000 at once, each with a set of allowed workers of its own; CPU/op: of the process, for each that leaves",
		callers: 40_000, ranks: 64, weight: 20, rounds: 3,
		demands: []demand{
			atMostCPU("CPU of the longest leave", time.Millisecond),
			ratio(report.CPUPerOp, "CPU of each", key{engine: Turnstile}, key{Turnstile, fewLeave}, report.AtMost(2)),
		},
	}
	var all []contender
	for _, e := range queues(engines) {
		for _, variant := range variantsOf(e, fewLeave) {
			all = append(all, h.contender(e.Name, variant, func(_ context.Context, s Settings, r *heldRound) (err error) {
				n, ranks := s.scaled(h.callers), h.ranks
				random := rand.New(rand.NewPCG(3, uint64(n)))
				if variant != "" {
					n /= 4
				}
				g, err := newGate(e, onePrompt, ranks)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, g.finish()) }()
				var threads atomic.Int64
				threads.Store(mostThreads)
				var wg sync.WaitGroup
				wrong := make(chan error, n)
				all := make([]*leaving, n)
				for i := range all {
					l := &leaving{Context: context.Background(), done: make(chan struct{}), most: &threads}
					all[i] = l
					req := &sched.Request{ID: "c" + strconv.Itoa(i), ISL: promptTokens, Allowed: []uint64{}}
					for at, set := 0, random.Uint64(); at < ranks; at++ {
						if set>>at&1 == 1 {
							req.Allowed = append(req.Allowed, rank(at).Worker)
						}
					}
					wg.Go(func() {
						b, err := g.eng.Schedule(l, req)
						if !l.began.IsZero() {
							l.left(&r.calls)
						}
						if err == nil {
							_ = b.Release()
						}
						if !errors.Is(err, sched.ErrCanceled) {
							wrong <- fmt.Errorf("a caller that left: %w", err)
						}
					})
				}
				err = g.await(n)
				from := time.Now()
				err = errors.Join(err, r.whole(int64(n), func() error {
					for _, l := range all {
						close(l.done)
					}
					wg.Wait()
					return nil
				}))
				if variant == "" {
					r.notes = append(r.notes, "all have left after "+report.Nanos(float64(time.Since(from))))
				}
				select {
				case fault := <-wrong:
					err = errors.Join(err, fault)
				default:
				}
				return err
			}))
		}
	}
	return h.spec(all...)
}
