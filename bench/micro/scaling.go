package micro

import (
	"github.com/seed-3c5df8a4/turnstile/bench/report"
)

// The scenario scaling: what an operation of one caller costs in pools of 64 to
// 16,384 ranks. There is a row for each size; its series are the operations.

var scalingSizes = []int{64, 512, 2048, 16_384}

// The names of the series.
const (
	ratioBooking  = "booking, ratio"
	plainBooking  = "booking"
	sharedBooking = "booking, shared prompt"
)

func scalingRows(engines []Engine) []Spec {
	var rows []Spec
	for _, ranks := range scalingSizes {
		rows = append(rows, scaling(engines, ranks))
	}
	return rows
}

// scaledChoices are the choices of scaling.
func scaledChoices() []choice {
	out := []choice{plain}
	for _, c := range choices {
		switch c.name {
		case "one exclusion", "half allowed", "required taint", "modelled prefill":
			out = append(out, c)
		}
	}
	return out
}

func scaling(engines []Engine, ranks int) Spec {
	spec := Spec{
		Scenario: "scaling", About: "one operation of one caller: an advisory selection, or schedule and release where the name says booking", Callers: 1, Ranks: ranks,
		Weight: 4 + float64(ranks)/2048, longest: heldTime, setup: float64(ranks) / 4096,
	}
	for _, e := range engines {
		if e.Name != Turnstile && e.Name != ActorDirect {
			continue
		}
		add := func(variant string, prepare func(ranks int) (*trial, error)) {
			spec.contenders = append(spec.contenders, looped(e.Name, variant, ranks, func(s Settings) (*trial, error) {
				return prepare(max(16, s.scaled(ranks)))
			}))
		}
		for _, c := range scaledChoices() {
			add(c.name, func(ranks int) (*trial, error) { return c.selects(e, 1, ranks) })
		}
		add(plainBooking, func(ranks int) (*trial, error) { return booksPrompts(e, ranks, 0) })
		add(sharedBooking, func(ranks int) (*trial, error) { return booksPrompts(e, ranks, sharedBlocks) })
		add(ratioBooking, func(ranks int) (*trial, error) {
			eng, err := e.build(withRatio, ranks)
			if err != nil {
				return nil, err
			}
			return bookers(eng, 1)
		})
	}
	if ranks < 2048 {
		return spec // a scan of few ranks is as good as anything
	}
	demand := func(variant, against string, times float64) {
		spec.demands = append(spec.demands,
			ratio(report.CPUPerOp, "CPU: "+variant, key{Turnstile, variant}, key{Turnstile, against}, report.AtMost(times)))
	}
	for _, c := range scaledChoices()[1:] {
		spec.demands = append(spec.demands, c.demand("CPU: "+c.name, ranks, c.name))
	}
	demand(sharedBooking, plainBooking, 2)
	demand(ratioBooking, plainBooking, 2)
	return spec
}
