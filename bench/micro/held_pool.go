package micro

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/bench/report"
	"github.com/seed-3c5df8a4/turnstile/sched"
	"github.com/seed-3c5df8a4/turnstile/sched/selector"
)

// The rows of held in which no request waits: what one choice, booking or change costs
// in a large pool.

const (
	heldRanks = 2048
	// heldTime is the longest round of a row whose operations are short.
	heldTime = 200 * time.Millisecond
)

// looped makes a contender of closed loops.
func looped(engine, variant string, ranks int, prepare func(Settings) (*trial, error)) contender {
	return contender{engine: engine, variant: variant, ranks: ranks, run: func(ctx context.Context, s Settings) (*outcome, error) {
		t, err := prepare(s)
		if err != nil {
			return nil, err
		}
		return drive(ctx, t, s.Duration)
	}}
}

// demand is what a choice may cost beside the plain one: reading a list of workers
// costs by its length.
func (c *choice) demand(what string, ranks int, variant string) demand {
	of := key{Turnstile, variant}
	if strings.HasPrefix(c.name, "half ") {
		return bound(report.CPUPerOp, what, of, report.AtMost(20_000*float64(ranks)/heldRanks), report.Nanos)
	}
	return ratio(report.CPUPerOp, what, of, key{Turnstile, plain.name}, report.AtMost(5))
}

// choiceRows are one row for each choice at 2,048 ranks, held against the plain
// selection.
func choiceRows(engines []Engine) []Spec {
	var rows []Spec
	for i := range choices {
		c := &choices[i]
		spec := Spec{
			Scenario: "held/" + strings.ReplaceAll(c.name, " ", "-"), About: "one advisory selection: " + c.name, Callers: 1, Ranks: heldRanks, Weight: 2, longest: heldTime,
		}
		spec.demands = []demand{c.demand("CPU per call", heldRanks, "")}
		for _, e := range engines {
			spec.contenders = append(spec.contenders, looped(e.Name, "", 0, func(s Settings) (*trial, error) {
				return c.selects(e, 1, max(16, s.scaled(heldRanks)))
			}))
			if e.Name == Turnstile {
				spec.contenders = append(spec.contenders, looped(e.Name, plain.name, 0, func(s Settings) (*trial, error) {
					return plain.selects(e, 1, max(16, s.scaled(heldRanks)))
				}))
			}
		}
		rows = append(rows, spec)
	}
	return rows
}

// selectorRows are the selectors that look at few ranks.
func selectorRows(engines []Engine) []Spec {
	const few = "16 ranks"
	var rows []Spec
	for _, sel := range []struct {
		name string
		make func() selector.Selector
	}{{"random", selector.Random}, {"round-robin", selector.RoundRobin}, {"power-of-two", selector.PowerOfTwo}} {
		spec := Spec{
			Scenario: "held/" + sel.name, About: "one advisory selection by the selector " + sel.name, Callers: 1, Ranks: heldRanks, Weight: 2, longest: heldTime,
			demands: []demand{ratio(report.CPUPerOp, "CPU per call", key{engine: Turnstile}, key{Turnstile, few}, report.AtMost(3))},
		}
		c := choice{config: func(c *sched.Config) { c.Selector = sel.make() }}
		for _, e := range queues(engines) {
			for _, variant := range variantsOf(e, few) {
				spec.contenders = append(spec.contenders, looped(e.Name, variant, 0, func(s Settings) (*trial, error) {
					if variant != "" {
						return c.selects(e, 1, 16)
					}
					return c.selects(e, 1, max(16, s.scaled(heldRanks)))
				}))
			}
		}
		rows = append(rows, spec)
	}
	return rows
}

const (
	ratioRanks = 512
	noRatio    = "no ratio"
)

var (
	withRatio    = strings.Replace(onePrompt, "threshold: 0", "threshold: 1000000, busy_worker_ratio: 0.9", 1)
	withoutRatio = strings.Replace(onePrompt, "threshold: 0", "threshold: 1000000", 1)
)

func busyRatio(engines []Engine) Spec {
	spec := Spec{
		Scenario: "held/ratio", About: "one release, by callers that schedule and release in a class with a busy_worker_ratio", Callers: 16, Ranks: ratioRanks, Weight: 2, longest: heldTime,
		demands: []demand{
			ratio(report.CPUPerOp, "CPU per operation", key{engine: Turnstile}, key{Turnstile, noRatio}, report.AtMost(2)),
			ratio(report.P50, "p50 of the release", key{engine: Turnstile}, key{Turnstile, noRatio}, report.AtMost(2)),
			ratio(report.P90, "p90 of the release", key{engine: Turnstile}, key{Turnstile, noRatio}, report.AtMost(2)),
		},
	}
	for _, e := range queues(engines) {
		for _, variant := range variantsOf(e, noRatio) {
			yaml := withRatio
			if variant != "" {
				yaml = withoutRatio
			}
			spec.contenders = append(spec.contenders, looped(e.Name, variant, 0, func(Settings) (*trial, error) {
				eng, err := e.build(yaml, ratioRanks)
				if err != nil {
					return nil, err
				}
				t, err := bookers(eng, spec.Callers)
				if err == nil {
					t.p90 = true
				}
				return t, err
			}))
		}
	}
	return spec
}

// bookers release what they have booked, which is timed, and book anew.
func bookers(eng engine.Engine, callers int) (*trial, error) {
	held := make([]engine.Booking, callers)
	t, ctxs := trialOf(eng, held, callers)
	for c := range callers {
		r := &sched.Request{ID: "c" + strconv.Itoa(c), ISL: promptTokens}
		book := func() (err error) {
			held[c], err = eng.Schedule(ctxs[c], r)
			return err
		}
		if err := book(); err != nil {
			return nil, errors.Join(err, finish(eng, held[:c]))
		}
		t.callers = append(t.callers, caller{timed: func() error { return held[c].Release() }, rest: book})
	}
	return t, nil
}

const (
	unshared = "unshared"
	booking  = "schedule and release"
)

func sharedPrompt(engines []Engine) Spec {
	spec := Spec{
		Scenario: "held/shared-prompt", About: "schedule, prefill done, release, on a rank that is idle otherwise; the first 4 of the 24 blocks live on all others", Callers: 1, Ranks: heldRanks, Weight: 2, longest: heldTime,
		demands: []demand{
			ratio(report.CPUPerOp, "CPU per operation", key{engine: Turnstile}, key{Turnstile, unshared}, report.AtMost(2)),
			ratio(report.BytesPerOp, "bytes per operation", key{engine: Turnstile}, key{Turnstile, unshared}, report.AtMost(2)),
		},
	}
	for _, e := range engines {
		for _, variant := range variantsOf(e, unshared) {
			shared := sharedBlocks
			if variant != "" {
				shared = 0
			}
			spec.contenders = append(spec.contenders, looped(e.Name, variant, 0, func(s Settings) (*trial, error) {
				return booksPrompts(e, max(16, s.scaled(heldRanks)), shared)
			}))
		}
	}
	return spec
}

// booksPrompts is one caller that takes bookings to their end, all on the last
// rank, which holds nothing else: so with each booking one more rank holds what
// is shared, and with each release one less.
func booksPrompts(e Engine, ranks, shared int) (*trial, error) {
	eng, err := e.build("", ranks)
	if err != nil {
		return nil, err
	}
	held, err := standing(eng, ranks-1, shared)
	if err != nil {
		return nil, errors.Join(err, finish(eng, held))
	}
	own, to := prompts(1, ranks, shared)[0], rank(ranks-1)
	for i := range own {
		own[i].Pin = &to
	}
	ctxs, cancel := contexts(1)
	return &trial{abort: cancel, end: func() error { return finish(eng, held) }, callers: []caller{
		{timed: lifecycle(eng, ctxs[0], own)},
	}}, nil
}

// parting has each rank hold another length of one long prompt, so that the live
// prompts part at each of its blocks.
func parting(engines []Engine) Spec {
	const points = 1024
	spec := Spec{
		Scenario: "held/parting", About: "a prompt of 1,024 blocks, of which each rank holds a beginning of another length, and other live prompts part at each block: one advisory selection, and schedule and release",
		Callers: 1, Ranks: heldRanks, Weight: 30, most: 3, longest: heldTime, setup: 10,
		demands: []demand{
			bound(report.CPUPerOp, "CPU of a selection", key{Turnstile, "select"}, report.AtMost(1e6), report.Nanos),
			bound(report.CPUPerOp, "CPU of a booking", key{Turnstile, booking}, report.AtMost(1e6), report.Nanos),
		},
	}
	for _, e := range queues(engines) {
		kept := &pool{engine: e}
		note := ""
		for _, variant := range []string{"select", booking} {
			spec.contenders = append(spec.contenders, contender{engine: e.Name, variant: variant, done: kept.finish, run: func(ctx context.Context, s Settings) (*outcome, error) {
				ranks, points := max(16, s.scaled(heldRanks)), max(16, s.scaled(points))
				prompt := hashes(rand.New(rand.NewPCG(5, 5)), 0, points)
				if kept.eng == nil {
					if err := kept.open(ranks, false); err != nil {
						return nil, err
					}
					done, err := kept.part(prompt, ranks, s.limit())
					if err != nil {
						return nil, err
					}
					if done < ranks {
						note = fmt.Sprintf("> %v to set up: only %d of %d ranks hold a part", s.limit(), done, ranks)
					}
				}
				r := &sched.Request{ID: "me", ISL: int64(points) * blockSize, Blocks: prompt}
				op := func() error { _, err := kept.eng.Select(ctx, r); return err }
				if variant == booking {
					op = func() error {
						b, err := kept.eng.Schedule(ctx, r)
						if err != nil {
							return err
						}
						return b.Release()
					}
				}
				out, err := drive(ctx, &trial{end: kept.keep, callers: []caller{{timed: op}}}, s.Duration)
				if err == nil && note != "" {
					out.notes = append(out.notes, note)
				}
				return out, err
			}})
		}
	}
	return spec
}

// part books a beginning of the prompt on each rank, each with another block
// behind it, as far as the time allows; it returns how many.
func (p *pool) part(prompt []uint64, ranks int, limit time.Duration) (done int, err error) {
	began := time.Now()
	for ; done < ranks && time.Since(began) < limit; done++ {
		// The lengths are spread: 1, 3, 5, … and then what is between.
		n := 1 + 2*done%len(prompt) + 2*done/len(prompt)%2
		blocks := append(append([]uint64(nil), prompt[:n]...), ^prompt[n-1]-uint64(done))
		more, err := booked(p.eng, done, sched.Request{ID: "part-" + strconv.Itoa(done), ISL: int64(len(blocks)) * blockSize, Blocks: blocks})
		if p.held = append(p.held, more...); err != nil {
			return 0, err
		}
	}
	return done, nil
}

// classRows have two classes with work among a thousand, or alone.
func classRows(engines []Engine) []Spec {
	const (
		alone = "2 classes"
		many  = 1000
	)
	yaml := func(classes int) string {
		var b strings.Builder
		b.WriteString("default_policy_family: all\nuncached_isl_buckets: [{min_tokens: 0, bucket: any}]\npolicy_classes:\n" +
			"  - {name: all, policy_family: all, cache_bucket: any, quantum: 4096, prefill_busy_threshold: 0}\n")
		for i := range classes - 1 {
			fmt.Fprintf(&b, "  - {name: class-%d, quantum: 4096, prefill_busy_threshold: 0}\n", i)
		}
		return b.String()
	}
	grants := Spec{
		Scenario: "held/classes", About: "one grant, release included, when 2 of 1,000 policy classes have work", Callers: 64, Ranks: 16, Weight: 4, longest: heldTime,
		demands: []demand{ratio(report.CPUPerOp, "CPU per grant", key{engine: Turnstile}, key{Turnstile, alone}, report.AtMost(1.5))},
	}
	for _, e := range queues(engines) {
		for _, variant := range variantsOf(e, alone) {
			grants.contenders = append(grants.contenders, looped(e.Name, variant, 0, func(s Settings) (*trial, error) {
				classes := max(10, s.scaled(many))
				if variant != "" {
					classes = 2
				}
				g, err := newGate(e, yaml(classes), grants.Ranks)
				if err != nil {
					return nil, err
				}
				return g.backlog(grants.Callers, func(r *sched.Request, i int) {
					if i%2 == 1 {
						r.Class = "class-0"
					}
				}), nil
			}))
		}
	}
	h := heldRow{
		name: "classes-overloaded", about: "SetOverloaded of one worker, with 1,000 policy classes of which 2 have work", callers: 2, ranks: 2048, weight: 4, rounds: 5,
		demands: []demand{atMostCPU("CPU of SetOverloaded", time.Millisecond)},
	}
	overloaded := h.each(queues(engines), func(ctx context.Context, e Engine, s Settings, r *heldRound) (err error) {
		w, err := newWaitingCrowd(e, Config{PolicyYAML: yaml(max(10, s.scaled(many)))}, max(16, s.scaled(h.ranks)), promptTokens)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.finish()) }()
		w.join(&sched.Request{ID: "a", ISL: promptTokens})
		w.join(&sched.Request{ID: "b", ISL: promptTokens, Class: "class-0"})
		if err := w.await(2); err != nil {
			return err
		}
		for i := range 3 {
			err := r.calls.call(func() error { return w.eng.SetOverloaded([]uint64{rank(i).Worker}) })
			if err = errors.Join(err, w.eng.Settle(ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	return []Spec{grants, overloaded}
}

// backlog is a trial of callers that wait, release and wait again.
func (g *gate) backlog(callers int, change func(r *sched.Request, i int)) *trial {
	t := &trial{end: g.finish}
	ctxs, cancel := contexts(callers)
	t.abort = cancel
	for c := range callers {
		r := &sched.Request{ID: "c" + strconv.Itoa(c), ISL: promptTokens}
		change(r, c)
		t.callers = append(t.callers, waiter(ctxs[c], g.eng, r))
	}
	t.begin = func() error {
		if err := g.await(callers); err != nil {
			return err
		}
		return g.open()
	}
	return t
}

func upserts(engines []Engine) Spec {
	h := heldRow{
		name: "upsert", about: "a pool of 4,096 workers announced one by one; the call is all of them", callers: 1, ranks: 4096, weight: 20, rounds: 3,
		demands: []demand{bound(report.CPUPerOp, "CPU of all", key{engine: Turnstile}, report.AtMost(float64(time.Second)), report.Nanos)},
	}
	return h.each(queues(engines), func(_ context.Context, e Engine, s Settings, r *heldRound) (err error) {
		all := workers(s.scaled(h.ranks))
		eng, err := e.build("", 1)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, finish(eng, nil)) }()
		return r.whole(1, func() error {
			return r.calls.call(func() error {
				began := time.Now()
				for i, w := range all {
					if err := eng.UpsertWorker(w); err != nil {
						return err
					}
					if time.Since(began) > s.limit() {
						r.after(s.limit(), i+1, len(all))
						break
					}
				}
				return nil
			})
		})
	})
}

// evenly demands fairness of long calls. Callers of short ones that never block run
// for 10 ms each at the Go scheduler's pleasure, whatever they call.
func evenly(d demand) demand {
	return func(r *report.Row) report.Verdict {
		v := d(r)
		if p50 := median(r, key{engine: Turnstile}, report.P50); p50 < float64(10*time.Microsecond) {
			v.Known, v.Met, v.Reached = true, true, "calls of "+report.Nanos(p50)
		}
		return v
	}
}

// softRows are long selections by many callers at once: each looks at all ranks.
func softRows(engines []Engine) []Spec {
	warm := 0.5
	var rows []Spec
	for _, c := range []choice{
		{name: "softmax", request: func(r *sched.Request, _, _ int) { r.Temperature = &warm }},
		{name: "decay", config: func(c *sched.Config) { c.CreditDecay = 1 }},
	} {
		spec := Spec{
			Scenario: "held/" + c.name, About: "one advisory selection that looks at all ranks (" + c.name + "), by many callers", Callers: 256, Ranks: heldRanks, Weight: 8,
			least: time.Second, most: 3, fair: true,
			demands: []demand{
				ratio(report.P99, "p99", key{engine: Turnstile}, key{engine: Actor}, report.AtMost(1)),
				evenly(bound(report.Fairness, "slowest to fastest caller", key{engine: Turnstile}, report.AtLeast(0.5), report.Short)),
			},
		}
		for _, e := range queues(engines) {
			spec.contenders = append(spec.contenders, contender{engine: e.Name, run: func(ctx context.Context, s Settings) (*outcome, error) {
				t, err := c.selects(e, spec.Callers, max(16, s.scaled(heldRanks)))
				if err != nil {
					return nil, err
				}
				return drive(ctx, t, s.Duration)
			}})
		}
		rows = append(rows, spec)
	}
	return rows
}
