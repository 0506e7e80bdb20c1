package micro

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// A rank works on one prompt at a time.
const onePrompt = `default_policy_family: all
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: all, policy_family: all, cache_bucket: any, quantum: 4096, prefill_busy_threshold: 0}
`

// The queueing class waits while a rank has more than 256 prefill tokens: one
// prompt of its own, or 16 of the small ones of the class that never waits.
const queueAndNever = `default_policy_family: queueing
uncached_isl_buckets: [{min_tokens: 0, bucket: any}]
policy_classes:
  - {name: queueing, policy_family: queueing, cache_bucket: any, quantum: 4096, prefill_busy_threshold: 256}
  - {name: never, quantum: 4096, request_queue_limit_per_worker: 0}
`

const neverTokens = 16

// gate keeps all ranks busy until everybody waits, so that the backlog is there
// from the first grant on.
type gate struct {
	eng      engine.Engine
	blockers []engine.Booking
	// inside counts the callers of backed within Schedule. Those of the sharded
	// scheduler have put themselves in line.
	inside atomic.Int64
}

func newGate(e Engine, policy string, ranks int) (*gate, error) {
	return newGateFrom(e, Config{PolicyYAML: policy}, ranks, promptTokens)
}

// newGateFrom has each blocker bring so many tokens.
func newGateFrom(e Engine, c Config, ranks int, tokens int64) (*gate, error) {
	eng, err := e.buildFrom(c, workers(ranks))
	if err != nil {
		return nil, err
	}
	g := &gate{eng: eng}
	for i := range ranks {
		to := rank(i)
		b, err := eng.Schedule(context.Background(), &sched.Request{ID: "blocker-" + strconv.Itoa(i), ISL: tokens, Pin: &to})
		if err != nil {
			return nil, errors.Join(err, finish(eng, g.blockers))
		}
		g.blockers = append(g.blockers, b)
	}
	return g, nil
}

// await waits until so many have their place in line.
func (g *gate) await(n int) error {
	for deadline := time.Now().Add(patience); g.inLine() != int64(n); {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d stand in line instead of %d", g.inLine(), n)
		}
		if n > 1000 {
			time.Sleep(time.Millisecond)
		} else {
			runtime.Gosched()
		}
	}
	return nil
}

// inLine counts the callers that have their place in line.
func (g *gate) inLine() (n int64) {
	for _, class := range g.eng.Stats().Classes {
		n += class.Pending
	}
	return n
}

// open lets go of what keeps the ranks busy.
func (g *gate) open() error {
	for _, b := range g.blockers {
		if err := b.Release(); err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) finish() error { return finish(g.eng, g.blockers) }

// steady is how many stand in line at least whenever a rank is given back, where
// all callers are to be kept waiting.
func steady(callers, ranks int) int64 { return int64(callers - 2*ranks) }

// mostYields bounds how long a holder keeps its rank so that others come to stand
// in line.
const mostYields = 1000

// backed is a waiter that gives its rank back when so many stand in line. An actor
// takes arrivals in when it comes to them, so its line would be short otherwise,
// and its callers in its channel; what is compared would then be the service of
// short lines with that of long ones.
func (g *gate) backed(ctx context.Context, r *sched.Request, least int64) caller {
	w := waiter(ctx, g.eng, r)
	timed, rest := w.timed, w.rest
	actor, _ := g.eng.(interface{ InLine() int64 })
	w.timed = func() error {
		g.inside.Add(1)
		err := timed()
		g.inside.Add(-1)
		return err
	}
	w.rest = func() error {
		for range mostYields {
			n := g.inside.Load()
			if actor != nil {
				n = actor.InLine()
			}
			if n >= least {
				break
			}
			runtime.Gosched()
		}
		return rest()
	}
	return w
}

// waiter is a caller whose latency is its wait. It yields once while it holds a
// rank, as one does who sends a request off. Without that a rank is given back
// before anybody else runs: on two cores 16 ranks are then never full, and the
// backlog is an accident of goroutine scheduling that sooner or later ends.
func waiter(ctx context.Context, eng engine.Engine, r *sched.Request) caller {
	var b engine.Booking
	return caller{
		timed: func() (err error) {
			b, err = eng.Schedule(ctx, r)
			return err
		},
		rest: func() error {
			runtime.Gosched()
			if err := b.PrefillDone(); err != nil {
				return err
			}
			return b.Release()
		},
	}
}

func saturated(engines []Engine, callers, ranks int) Spec {
	spec := Spec{
		Scenario: "saturated", Weight: 9, About: "one grant under a backlog: wait for one's turn, prefill done, release", Callers: callers, Ranks: ranks,
		least: 200 * time.Millisecond, show: true, fair: true,
		demands: []demand{
			ratio(report.OpsPerSecond, "grants/s", key{engine: Turnstile}, key{engine: ActorDirect}, report.AtLeast(1.5)),
			ratio(report.CPUPerOp, "CPU per grant", key{engine: Turnstile}, key{engine: ActorDirect}, report.AtMost(0.6)),
			ratio(report.P99, "p99 wait", key{engine: Turnstile}, key{engine: Actor}, report.AtMost(0.5)),
			bound(report.Fairness, "slowest to fastest caller", key{engine: Turnstile}, report.AtLeast(0.95), report.Short),
		},
		contenders: compared(engines, nil, func(e Engine, _ Settings) (*trial, error) {
			g, err := newGate(e, onePrompt, ranks)
			if err != nil {
				return nil, err
			}
			t := &trial{end: g.finish, backlog: g.inLine, shares: true, least: int64(callers-ranks) / 2}
			contexts, cancel := contexts(callers)
			t.abort = cancel
			for c := range callers {
				t.callers = append(t.callers, g.backed(contexts[c], &sched.Request{ID: "c" + strconv.Itoa(c), ISL: promptTokens}, steady(callers, ranks)))
			}
			t.begin = func() error {
				if err := g.await(callers); err != nil {
					return err
				}
				return g.open()
			}
			return t, nil
		}),
	}
	inOrder(&spec, engines, ranks)
	spec.contenders = append(spec.contenders, plainTokens(callers, ranks)...)
	return spec
}

// inOrder demands that the waiters are served as they came. It is tried apart, once,
// with one arrival and one release at a time, so that there is one right answer.
func inOrder(spec *Spec, engines []Engine, ranks int) {
	for _, e := range engines {
		if e.Name != Turnstile {
			continue
		}
		spec.demands = append(spec.demands, func(*report.Row) report.Verdict {
			v := report.Verdict{What: "order", Need: "first come, first served", Known: true, Reached: "as required", Met: true}
			if err := tryOrder(e, ranks, 64); err != nil {
				v.Met, v.Reached = false, err.Error()
			}
			return v
		})
	}
}

func tryOrder(e Engine, ranks, n int) error {
	g, err := newGate(e, onePrompt, ranks)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	type grant struct {
		caller int
		b      engine.Booking
	}
	grants := make(chan grant, n)
	for c := 0; c < n && err == nil; c++ {
		wg.Go(func() {
			if b, err := g.eng.Schedule(ctx, &sched.Request{ID: "c" + strconv.Itoa(c), ISL: promptTokens}); err == nil {
				grants <- grant{c, b}
			}
		})
		err = g.await(c + 1)
	}
	for c := 0; c < n && err == nil; c++ {
		b := g.blockers[c%ranks]
		if err = b.Release(); err != nil {
			break
		}
		select {
		case got := <-grants:
			g.blockers[c%ranks] = got.b
			if got.caller != c {
				err = fmt.Errorf("caller %d went before %d", got.caller, c)
			}
		case <-time.After(patience):
			err = errors.New("no waiter went when a rank was freed")
		}
	}
	cancel()
	wg.Wait()
	close(grants)
	for got := range grants {
		g.blockers = append(g.blockers, got.b)
	}
	return errors.Join(err, g.finish())
}

// plainTokens do a part of the job: they bound how many run at once.
func plainTokens(callers, ranks int) []contender {
	ctx := context.Background()
	return []contender{
		{engine: "mutex", run: func(ctx context.Context, s Settings) (*outcome, error) {
			m := newModel(ranks, 1)
			t := &trial{end: m.empty, shares: true, backlog: m.waiting}
			var held []int
			for range ranks {
				held = append(held, m.acquire(nil))
			}
			for range callers {
				own, at := make(chan int, 1), 0
				t.callers = append(t.callers, caller{
					timed: func() error { at = m.acquire(own); return nil },
					rest:  func() error { runtime.Gosched(); m.release(at); return nil },
				})
			}
			t.begin = func() error {
				for m.waiting() != int64(callers) {
					runtime.Gosched()
				}
				for _, at := range held {
					m.release(at)
				}
				return nil
			}
			return drive(ctx, t, s.Duration)
		}},
		tokens("semaphore", callers, func() pair {
			sem := semaphore.NewWeighted(int64(ranks))
			return pair{func() error { return sem.Acquire(ctx, 1) }, func() error { sem.Release(1); return nil }, ranks}
		}),
		tokens("channel", callers, func() pair {
			free := make(chan int, ranks)
			for i := range ranks {
				free <- i
			}
			return pair{func() error { <-free; return nil }, func() error { free <- 0; return nil }, ranks}
		}),
	}
}

// pair is a way to bound how many run at once.
type pair struct {
	acquire, release func() error
	room             int
}

func tokens(name string, callers int, fresh func() pair) contender {
	return contender{engine: name, run: func(ctx context.Context, s Settings) (*outcome, error) {
		p := fresh()
		for range p.room {
			if err := p.acquire(); err != nil {
				return nil, err
			}
		}
		var arrived atomic.Int64
		t := &trial{shares: true, end: func() error { return nil }}
		for range callers {
			first := true
			t.callers = append(t.callers, caller{
				timed: func() error {
					if first {
						first = false
						arrived.Add(1)
					}
					return p.acquire()
				},
				rest: func() error { runtime.Gosched(); return p.release() },
			})
		}
		t.begin = func() error {
			for arrived.Load() < int64(callers) {
				runtime.Gosched()
			}
			time.Sleep(2 * time.Millisecond) // these do not tell how many wait
			for range p.room {
				if err := p.release(); err != nil {
					return err
				}
			}
			return nil
		}
		return drive(ctx, t, s.Duration)
	}}
}

// mixed has half of the callers in a class that queues and half in one that
// never does.
func mixed(engines []Engine, callers, ranks int) Spec {
	groups := []string{"queueing", "never"}
	return Spec{
		Scenario: "mixed", Weight: 2, About: "one grant; half of the callers in a class that queues, half in one that never does", Callers: callers, Ranks: ranks,
		least: 60 * time.Millisecond, fair: true,
		demands: []demand{
			ratio(report.OpsPerSecond, "operations/s in all", key{engine: Turnstile}, key{engine: ActorDirect}, report.AtLeast(1.3)),
			ratio(report.OpsPerSecond, "operations/s of the queueing class", key{Turnstile, groups[0]}, key{ActorDirect, groups[0]}, report.AtLeast(1)),
		},
		contenders: compared(engines, groups, func(e Engine, _ Settings) (*trial, error) {
			g, err := newGate(e, queueAndNever, ranks)
			if err != nil {
				return nil, err
			}
			t := &trial{end: g.finish}
			contexts, cancel := contexts(callers)
			t.abort = cancel
			for c := range callers {
				r := &sched.Request{ID: "c" + strconv.Itoa(c), ISL: promptTokens}
				if c%2 == 1 {
					r.ISL, r.Class = neverTokens, groups[1]
				}
				w := waiter(contexts[c], g.eng, r)
				w.group = c % 2
				t.callers = append(t.callers, w)
			}
			t.begin = func() error {
				if err := g.await(callers / 2); err != nil {
					return err
				}
				return g.open()
			}
			return t, nil
		}),
	}
}
