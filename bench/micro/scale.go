package micro

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

const (
	idlePools = 20
	manyPools = 10_000
	manyWait  = 1_000_000
	quickWait = 50_000
	modest    = 100_000
)

// pools builds engines and returns what each takes of heap and goroutines.
func pools(e Engine, policy string, n int, use bool) (bytes, goroutines float64, took time.Duration, err error) {
	all := make([]engine.Engine, 0, n)
	defer func() {
		for _, eng := range all {
			err = errors.Join(err, eng.Close())
		}
	}()
	running := runtime.NumGoroutine()
	before, _ := heap()
	began := time.Now()
	for range n {
		eng, err := e.build(policy, 16)
		if err != nil {
			return 0, 0, 0, err
		}
		all = append(all, eng)
	}
	took = time.Since(began)
	after, _ := heap()
	goroutines = float64(runtime.NumGoroutine()-running) / float64(n)
	for i := 0; use && i < n; i++ {
		b, err := all[i].Schedule(context.Background(), &sched.Request{ID: "r", ISL: promptTokens})
		if err == nil {
			err = b.Release()
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
	return float64(after-before) / float64(n), goroutines, took, nil
}

// ownIdle weighs idle schedulers with 16 ranks.
func ownIdle(engines []Engine, name, policy string, most float64) Spec {
	threads := math.NaN()
	about := "an idle scheduler with 16 ranks, no class can queue"
	if policy != "" {
		about = "an idle scheduler with 16 ranks, a class can queue"
	}
	spec := Spec{Scenario: name, About: about, Callers: 0, Ranks: 16,
		demands: []demand{
			bound(report.BytesPerOp, "memory of one", key{engine: Turnstile}, report.AtMost(most), kib),
			func(*report.Row) report.Verdict {
				return report.AtMost(0).Judge("goroutines of one", threads, report.Short)
			},
		}}
	for _, e := range engines {
		spec.contenders = append(spec.contenders, contender{engine: e.Name, run: func(_ context.Context, s Settings) (*outcome, error) {
			bytes, goroutines, _, err := pools(e, policy, s.scaled(idlePools), false)
			if err != nil {
				return nil, err
			}
			if e.Name == Turnstile {
				threads = goroutines
			}
			out := &outcome{total: report.NewRound()}
			out.total[report.BytesPerOp] = bytes
			return out, nil
		}})
	}
	return spec
}

// ownMany has 10,000 schedulers in the process, each of which schedules once.
func ownMany(e Engine) Spec {
	threads := math.NaN()
	return Spec{Scenario: "own/many", About: "10,000 schedulers with 16 ranks each, made and used", Ranks: 16, once: true,
		demands: []demand{
			bound(report.BytesPerOp, "memory of one", key{engine: Turnstile}, report.AtMost(16<<10), kib),
			func(*report.Row) report.Verdict {
				return report.AtMost(0).Judge("goroutines of one", threads, report.Short)
			},
		},
		contenders: []contender{{engine: Turnstile, run: func(_ context.Context, s Settings) (*outcome, error) {
			n := s.scaled(manyPools)
			bytes, goroutines, took, err := pools(e, "", n, true)
			if err != nil {
				return nil, err
			}
			threads = goroutines
			out := &outcome{total: report.NewRound()}
			out.total[report.OpsPerSecond] = float64(n) / took.Seconds()
			out.total[report.BytesPerOp] = bytes
			return out, nil
		}}},
	}
}

// ownWaiting has a million requests wait, and lets them go.
func ownWaiting(e Engine) Spec {
	drained, few := math.NaN(), 0
	return Spec{Scenario: "own/waiting", Weight: 2, About: "grants while 1,000,000 waiting requests drain (fewer with -quick or -scenario all), and what each takes with its goroutine", Callers: manyWait, Ranks: 16, once: true,
		demands: []demand{func(*report.Row) report.Verdict {
			v := report.AtLeast(manyWait).Judge("waited at once, and were granted", drained, report.Short)
			if few > 0 {
				v.Untold = report.Short(float64(few)) + " here, all with -scenario own"
			}
			return v
		}},
		contenders: []contender{{engine: Turnstile, run: func(ctx context.Context, s Settings) (*outcome, error) {
			n := s.scaled(manyWait)
			switch {
			case s.Quick:
				n = min(n, quickWait)
			case s.Modest:
				n = min(n, modest)
			}
			g, err := newGate(e, onePrompt, 16)
			if err != nil {
				return nil, err
			}
			heapBefore, stackBefore := heap()
			crowd := newCrowd(g.eng)
			var granted atomic.Int64
			for i := range n {
				crowd.join(&sched.Request{ID: "c" + strconv.Itoa(i), ISL: promptTokens}, false, func(b engine.Booking) {
					granted.Add(1)
					_ = b.Release()
				})
			}
			err = g.await(n)
			heapAfter, stackAfter := heap()
			began := time.Now()
			err = errors.Join(err, g.open())
			for err == nil && granted.Load() < int64(n) && ctx.Err() == nil && time.Since(began) < patience {
				time.Sleep(time.Millisecond)
			}
			took := time.Since(began)
			crowd.leave()
			crowd.wait()
			if drained = float64(granted.Load()); s.Quick || s.Modest {
				drained, few = math.NaN(), n
			}
			if err = errors.Join(err, ctx.Err(), crowd.fault(), g.finish()); err != nil {
				return nil, err
			}
			out := &outcome{total: report.NewRound(), notes: []string{
				fmt.Sprintf("of the bytes %.0f are stacks", float64(stackAfter-stackBefore)/float64(n)),
			}}
			out.total[report.OpsPerSecond] = float64(n) / took.Seconds()
			out.total[report.BytesPerOp] = float64(heapAfter-heapBefore+stackAfter-stackBefore) / float64(n)
			return out, nil
		}}},
	}
}

const (
	removeRanks = 2048
	removing    = "removing"
	quietTimes  = "nothing removed"
)

// ownRemove looks for the longest call of a concurrent caller while a worker is
// removed, and in windows of the same length in which nothing is.
func ownRemove(e Engine) Spec {
	spec := Spec{Scenario: "own/remove", About: "the longest advisory selection of a concurrent caller while a worker is removed; each removal is one sample", Callers: 1, Ranks: removeRanks,
		demands: []demand{
			ratio(report.P50, "the longest call, median", key{Turnstile, removing}, key{Turnstile, quietTimes}, report.AtMost(2)),
		}}
	spec.contenders = []contender{{engine: Turnstile, groups: []string{removing, quietTimes}, run: func(ctx context.Context, s Settings) (*outcome, error) {
		return removeRound(ctx, e, max(16, s.scaled(removeRanks)), s.Duration)
	}}}
	return spec
}

// stallWindow bounds the windows of one round.
const stallWindow = 1 << 14

func removeRound(ctx context.Context, e Engine, ranks int, duration time.Duration) (*outcome, error) {
	eng, err := e.build("", ranks)
	if err != nil {
		return nil, err
	}
	held, err := standing(eng, ranks, 0)
	if err != nil {
		return nil, errors.Join(err, finish(eng, held))
	}
	// Odd while a window is open; its number is half of that. Windows take turns:
	// something is removed, nothing is.
	var clock, stop atomic.Int64
	longestIn := make([]time.Duration, stallWindow)
	var calls []time.Duration
	ended := make(chan error, 1)
	base := time.Now()
	go func() {
		own := prompts(1, ranks, 0)[0]
		for i := 0; stop.Load() == 0; i++ {
			open, began := clock.Load(), time.Since(base)
			_, err := eng.Select(context.Background(), &own[i%len(own)])
			took := time.Since(base) - began
			if err != nil {
				ended <- err
				return
			}
			if open%2 == 0 {
				open = clock.Load()
			}
			if open%2 == 1 {
				longestIn[open/2] = max(longestIn[open/2], took)
			}
			if i%64 == 0 && len(calls) < cap(longestIn) {
				calls = append(calls, took)
			}
		}
		ended <- nil
	}()
	var removal time.Duration
	all, n := workers(ranks), 0
	for began := time.Now(); err == nil && ctx.Err() == nil && (n < 10 || time.Since(began) < duration) && n < stallWindow/2; n++ {
		w := all[n%ranks]
		clock.Add(1)
		from := time.Now()
		err = eng.RemoveWorker(w.ID)
		last := time.Since(from)
		clock.Add(1)
		removal += last
		err = errors.Join(err, eng.UpsertWorker(w))
		clock.Add(1)
		for from := time.Now(); time.Since(from) < last; {
			continue
		}
		clock.Add(1)
	}
	stop.Store(1)
	if err = errors.Join(err, <-ended, ctx.Err(), finish(eng, held)); err != nil {
		return nil, err
	}
	out := &outcome{total: report.NewRound()}
	slices.Sort(calls)
	out.total[report.P50] = float64(calls[len(calls)/2])
	out.total[report.P99] = float64(calls[len(calls)*99/100])
	for group := range 2 {
		var of []float64
		for i := group; i < 2*n; i += 2 {
			if longestIn[i] > 0 { // else no call fell into it
				of = append(of, float64(longestIn[i]))
			}
		}
		r := report.NewRound()
		if len(of) > 0 {
			r[report.P50], r[report.Max] = report.Median(of), slices.Max(of)
		}
		out.groups = append(out.groups, r)
	}
	out.notes = []string{fmt.Sprintf("a removal takes %s", report.Nanos(float64(removal)/float64(n)))}
	return out, nil
}
