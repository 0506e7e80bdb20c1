package micro

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/sched"
)

// choice is a kind of request, or a pool, with which a rank is harder to find than
// by the plain advisory selection.
type choice struct {
	name string
	// request changes the i-th request of a caller.
	request func(r *sched.Request, i, ranks int)
	// worker changes the i-th worker, from 0.
	worker func(w *sched.Worker, i int)
	// load books what there is in the pool beside the standing load.
	load   func(eng engine.Engine, ranks int) ([]engine.Booking, error)
	config func(*sched.Config)
}

const needed = "needed"

func everyOther(ranks, from int) []uint64 {
	var out []uint64
	for i := from; i < ranks; i += 2 {
		out = append(out, rank(i).Worker)
	}
	return out
}

// booked books one request on a rank.
func booked(eng engine.Engine, at int, r sched.Request) ([]engine.Booking, error) {
	to := rank(at)
	r.Pin = &to
	b, err := eng.Schedule(context.Background(), &r)
	if err != nil {
		return nil, err
	}
	return []engine.Booking{b}, nil
}

var plain = choice{name: "plain"}

var choices = []choice{
	{name: "one exclusion", request: func(r *sched.Request, i, ranks int) { r.Excluded = []uint64{rank(i * 7 % ranks).Worker} }},
	{name: "half allowed", request: func(r *sched.Request, _, ranks int) { r.Allowed = everyOther(ranks, 0) }},
	{name: "half excluded", request: func(r *sched.Request, _, ranks int) { r.Excluded = everyOther(ranks, 1) }},
	{
		name: "required taint", request: func(r *sched.Request, _, _ int) { r.RequiredTaints = []string{needed} },
		worker: func(w *sched.Worker, i int) {
			if i%2 == 0 {
				w.Taints = []string{needed}
			}
		},
	},
	{name: "ISL 0", request: func(r *sched.Request, _, _ int) { r.ISL = 0 }},
	{name: "tracking off", request: func(r *sched.Request, _, _ int) { r.NoPrefillTracking = true }},
	{name: "modelled prefill", load: func(eng engine.Engine, ranks int) (held []engine.Booking, err error) {
		hour := time.Hour
		for i := 0; i < ranks && err == nil; i += 16 {
			var more []engine.Booking
			more, err = booked(eng, i, sched.Request{ID: "modelled-" + strconv.Itoa(i), ISL: promptTokens, ExpectedPrefill: &hour})
			held = append(held, more...)
		}
		return held, err
	}},
	{name: "2^60 tokens", load: func(eng engine.Engine, _ int) ([]engine.Booking, error) {
		return booked(eng, 0, sched.Request{ID: "huge", ISL: 1 << 60})
	}},
}

// open builds an engine in which one of the choices has to be made, under a
// standing load.
func (c *choice) open(e Engine, ranks int) (engine.Engine, []engine.Booking, error) {
	all := workers(ranks)
	for i := range all {
		if c.worker != nil {
			c.worker(&all[i], i)
		}
	}
	eng, err := e.buildFrom(Config{Tune: c.config}, all)
	if err != nil {
		return nil, nil, err
	}
	held, err := standing(eng, ranks, 0)
	if err == nil && c.load != nil {
		var more []engine.Booking
		more, err = c.load(eng, ranks)
		held = append(held, more...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, finish(eng, held))
	}
	return eng, held, nil
}

// prompts are the requests of one caller.
func (c *choice) prompts(caller, callers, ranks int) []sched.Request {
	own := prompts(callers, ranks, 0)[caller]
	for i := range own {
		if c.request != nil {
			c.request(&own[i], i, ranks)
		}
	}
	return own
}

// selects is the trial of so many callers that select again and again.
func (c *choice) selects(e Engine, callers, ranks int) (*trial, error) {
	eng, held, err := c.open(e, ranks)
	if err != nil {
		return nil, err
	}
	t, ctxs := trialOf(eng, held, callers)
	for n := range callers {
		own, i := c.prompts(n, callers, ranks), 0
		t.callers = append(t.callers, caller{timed: func() error {
			i = (i + 1) % len(own)
			_, err := eng.Select(ctxs[n], &own[i])
			return err
		}})
	}
	return t, nil
}
