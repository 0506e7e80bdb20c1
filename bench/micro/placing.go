package micro

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// The scenarios in which no request waits: advisory, tracked, system-prompt, output.

// open builds an engine without queueing that has a standing load.
func open(e Engine, ranks, shared int) (engine.Engine, []engine.Booking, error) {
	eng, err := e.build("", ranks)
	if err != nil {
		return nil, nil, err
	}
	held, err := standing(eng, ranks, shared)
	if err != nil {
		return nil, nil, errors.Join(err, finish(eng, held))
	}
	return eng, held, nil
}

// compared makes a contender of each engine from what prepares its trial.
func compared(engines []Engine, groups []string, prepare func(Engine, Settings) (*trial, error)) []contender {
	out := make([]contender, len(engines))
	for i, e := range engines {
		out[i] = contender{engine: e.Name, groups: groups, run: func(ctx context.Context, s Settings) (*outcome, error) {
			t, err := prepare(e, s)
			if err != nil {
				return nil, err
			}
			t.groups = groups
			return drive(ctx, t, s.Duration)
		}}
	}
	return out
}

// trialOf returns a trial that ends with an engine and what is held there, and contexts
// for its callers.
func trialOf(eng engine.Engine, held []engine.Booking, callers int) (*trial, []context.Context) {
	ctxs, cancel := contexts(callers)
	return &trial{abort: cancel, end: func() error { return finish(eng, held) }}, ctxs
}

func advisory(engines []Engine, callers, ranks int, demands ...demand) Spec {
	requests := promptsOnce(callers, ranks, 0)
	spec := Spec{
		Scenario: "advisory", About: "one advisory selection, 24-block prompt with overlap on 3 ranks", Callers: callers, Ranks: ranks, demands: demands,
		contenders: compared(engines, nil, func(e Engine, _ Settings) (*trial, error) {
			eng, held, err := open(e, ranks, 0)
			if err != nil {
				return nil, err
			}
			t, contexts := trialOf(eng, held, callers)
			for c, own := range requests() {
				i := 0
				t.callers = append(t.callers, caller{timed: func() error {
					i = (i + 1) % len(own)
					_, err := eng.Select(contexts[c], &own[i])
					return err
				}})
			}
			return t, nil
		}),
	}
	spec.contenders = append(spec.contenders, contender{engine: "mutex", run: func(ctx context.Context, s Settings) (*outcome, error) {
		m := newModel(ranks, 0)
		t := &trial{end: m.empty}
		for range callers {
			t.callers = append(t.callers, caller{timed: func() error {
				m.pick()
				return nil
			}})
		}
		return drive(ctx, t, s.Duration)
	}})
	return spec
}

func advisoryRows(engines []Engine) []Spec {
	free := none(report.AllocsPerOp, "allocations per call", key{engine: Turnstile})
	var rows []Spec
	for _, callers := range []int{16, 256} {
		for _, ranks := range []int{4, 16} {
			demands := []demand{faster(Actor, 8)}
			if callers == 256 {
				demands = append(demands,
					ratio(report.P50, "p50", key{engine: Turnstile}, key{engine: Actor}, report.AtMost(0.01)),
					ratio(report.P99, "p99", key{engine: Turnstile}, key{engine: Actor}, report.AtMost(0.02)))
			}
			rows = append(rows, advisory(engines, callers, ranks, append(demands, free)...))
		}
	}
	return append(rows, advisory(engines, 256, 2048, faster(Actor, 30), faster(ActorIndex, 6), free))
}

// tracked is schedule, prefill done and release, in one breath.
func tracked(engines []Engine, name string, callers, ranks, shared int, demands ...demand) Spec {
	requests := promptsOnce(callers, ranks, shared)
	about := "schedule, prefill done, release; 24-block prompt with overlap on 3 ranks"
	if shared > 0 {
		about += ", its first 4 blocks live on every rank"
	}
	return Spec{
		Scenario: name, About: about, Callers: callers, Ranks: ranks, demands: demands,
		contenders: compared(engines, nil, func(e Engine, _ Settings) (*trial, error) {
			eng, held, err := open(e, ranks, shared)
			if err != nil {
				return nil, err
			}
			t, contexts := trialOf(eng, held, callers)
			for c, own := range requests() {
				t.callers = append(t.callers, caller{timed: lifecycle(eng, contexts[c], own)})
			}
			return t, nil
		}),
	}
}

// lifecycle schedules one of the requests and takes it to its end.
func lifecycle(eng engine.Engine, ctx context.Context, requests []sched.Request) func() error { //nolint:revive // the engine is the receiver, in all but syntax
	i := 0
	return func() error {
		i = (i + 1) % len(requests)
		b, err := eng.Schedule(ctx, &requests[i])
		if err != nil {
			return err
		}
		if err := b.PrefillDone(); err != nil {
			return err
		}
		return b.Release()
	}
}

// fresh is tracked with requests of which id, hashes and overlaps are new each
// time, as those of a gateway are: nothing of a request is in any cache. What it
// takes to make one is in every figure; the floor does that alone.
func fresh(engines []Engine, callers, ranks int, demands ...demand) Spec {
	spec := Spec{
		Scenario: "tracked/fresh", About: "schedule, prefill done, release; 24-block prompt with overlap on 3 ranks, made anew each time with its id", Callers: callers, Ranks: ranks, demands: demands,
		contenders: compared(engines, nil, func(e Engine, _ Settings) (*trial, error) {
			eng, held, err := open(e, ranks, 0)
			if err != nil {
				return nil, err
			}
			t, contexts := trialOf(eng, held, callers)
			for c := range callers {
				next := freshPrompts(c, ranks)
				t.callers = append(t.callers, caller{timed: func() error {
					b, err := eng.Schedule(contexts[c], next())
					if err != nil {
						return err
					}
					if err := b.PrefillDone(); err != nil {
						return err
					}
					return b.Release()
				}})
			}
			return t, nil
		}),
	}
	spec.contenders = append(spec.contenders, contender{engine: "floor", run: func(ctx context.Context, s Settings) (*outcome, error) {
		t := &trial{end: func() error { return nil }}
		for c := range callers {
			next := freshPrompts(c, ranks)
			t.callers = append(t.callers, caller{timed: func() error {
				kept.Store(next())
				return nil
			}})
		}
		return drive(ctx, t, s.Duration)
	}})
	return spec
}

// kept has the compiler make what is made for nothing.
var kept atomic.Pointer[sched.Request]

// freshPrompts makes the requests of one caller.
func freshPrompts(caller, ranks int) func() *sched.Request {
	r := rand.New(rand.NewPCG(6, uint64(caller)))
	n := 0
	return func() *sched.Request {
		n++
		req := &sched.Request{
			ID: "c" + strconv.Itoa(caller) + "-" + strconv.Itoa(n), ISL: promptTokens,
			Blocks: hashes(r, 0, promptBlocks), Overlaps: make([]sched.Overlap, min(overlapRanks, ranks)),
		}
		first := r.IntN(ranks)
		for i := range req.Overlaps {
			req.Overlaps[i] = sched.Overlap{Rank: rank((first + i) % ranks), Device: float64(sharedBlocks + r.IntN(promptBlocks-sharedBlocks))}
		}
		return req
	}
}

func trackedRows(engines []Engine) []Spec {
	few := func(r *report.Row) report.Verdict {
		v := report.AtMost(3).Judge("allocations per operation", math.Round(median(r, key{engine: Turnstile}, report.AllocsPerOp)), report.Short)
		return told(v, r, report.AllocsPerOp, key{engine: Turnstile})
	}
	return []Spec{
		tracked(engines, "tracked", 16, 16, 0, faster(Actor, 3), cheaper(Actor, 0.6)),
		tracked(engines, "tracked", 256, 16, 0, faster(Actor, 4), faster(ActorDirect, 2), few),
		fresh(engines, 256, 16, faster(Actor, 4), faster(ActorDirect, 2)),
		tracked(engines, "tracked", 256, 2048, 0, faster(Actor, 8), faster(ActorIndex, 3)),
	}
}

// output has each caller add blocks to a booking of its own.
func output(engines []Engine, callers, ranks int) Spec {
	requests := promptsOnce(callers, ranks, 0)
	return Spec{
		Scenario: "output", About: "one output block on a live booking", Callers: callers, Ranks: ranks,
		demands: []demand{faster(Actor, 5)},
		contenders: compared(engines, nil, func(e Engine, _ Settings) (*trial, error) {
			eng, held, err := open(e, ranks, 0)
			if err != nil {
				return nil, err
			}
			t := &trial{}
			for _, own := range requests() {
				b, err := eng.Schedule(context.Background(), &own[0])
				if err == nil {
					held = append(held, b)
					err = b.PrefillDone()
				}
				if err != nil {
					return nil, errors.Join(err, finish(eng, held))
				}
				t.callers = append(t.callers, caller{timed: b.AddOutputBlock})
			}
			t.end = func() error { return finish(eng, held) }
			return t, nil
		}),
	}
}

// sweepRows are those between the rows of the table, for the pictures: against
// callers at 16 ranks, and against ranks at 256 callers.
func sweepRows(engines []Engine) []Spec {
	var rows []Spec
	add := func(callers, ranks int) {
		rows = append(rows, advisory(engines, callers, ranks), tracked(engines, "tracked", callers, ranks, 0))
	}
	for _, callers := range []int{1, 4, 64} {
		add(callers, 16)
	}
	for _, ranks := range []int{4, 64, 512} {
		add(256, ranks)
	}
	kept := rows[:0]
	for _, r := range rows {
		if r.Scenario == "advisory" && r.Callers == 256 && r.Ranks == 4 {
			continue // a row of the table
		}
		r.Sweep = true
		kept = append(kept, r)
	}
	return kept
}
