package differ

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/seed-3c5df8a4/turnstile/bench/engine"
	"github.com/seed-3c5df8a4/turnstile/stress/model"
	"github.com/seed-3c5df8a4/turnstile/stress/script"
)

var workerPool = []int{1, 2, 3, 7}

var incarnations = []string{"a", "b"}

// shape is what the writer knows of a worker.
type shape struct{ start, ranks int }

// writer writes one script while the model runs it.
type writer struct {
	dice
	runner *script.Runner
	model  *model.Model
	steps  []Step
	err    error // the model could not run the script

	workers map[int]shape
	asks    []string // classes that requests ask for
	sets    []string // constraints in use
	next    int      // number of the next request
	// states of ids: waiting, booked or over, as far as the outputs tell.
	states map[string]state
	order  []string // ids in order of arrival
}

type state uint8

const (
	over state = iota
	waiting
	booked
)

// Write writes a script and returns it with what the model gives, and what was
// met on the way.
func Write(t *rapid.T) (steps []Step, met Met, err error) {
	w := &writer{dice: dice{t}, workers: map[int]shape{}, states: map[string]state{}}
	w.runner = script.New(func(s script.Setup) (engine.Engine, error) {
		m, err := model.New(s)
		if err == nil {
			w.model = m
		}
		return m, err
	})
	defer func() {
		if cerr := w.runner.Close(); err == nil {
			err = cerr
		}
	}()
	w.begin()
	closed := false
	for i := range w.between(3, 7) {
		phase := pick(w.dice, w.fill, w.fill, w.fill, w.drain, w.drain, w.mix, w.mix, w.change)
		if i == 0 && w.chance(75) {
			phase = w.fill
		}
		for range w.between(3, 12) {
			w.choose(phase())
			w.look()
		}
		if !closed && w.chance(3) {
			closed = true
			w.run("close")
		}
	}
	w.end()
	return w.steps, metBy(w.model, w.steps), w.err
}

// run adds a command to the script and has the model do it.
func (w *writer) run(line string, input ...string) {
	if w.err != nil {
		return
	}
	s := Step{Line: line, Input: input}
	s.Output, w.err = s.runOn(w.runner)
	w.steps = append(w.steps, s)
	for line := range strings.Lines(s.Output) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, known := w.states[id]; !known {
			continue
		}
		switch {
		case strings.HasPrefix(rest, "->"):
			w.states[id] = booked
		case rest == "queued":
			w.states[id] = waiting
		case rest == "expired", rest == "unchanged",
			strings.HasPrefix(rest, "error: ") && w.states[id] == waiting && !strings.HasPrefix(line, id+" error: duplicate"):
			w.states[id] = over
		}
	}
}

// begin makes a scheduler with a policy and some workers.
func (w *writer) begin() {
	w.asks = []string{"", "f"}
	if w.chance(2) {
		w.run("new", pick(w.dice, badPolicies...))
	}
	line := "new"
	maybe := func(percent int, key string, values ...any) {
		if w.chance(percent) {
			line += fmt.Sprintf(" %s=%v", key, pick(w.dice, values...))
		}
	}
	maybe(30, "block", 1, 4, 16, 64)
	maybe(25, "ttl", "2s", "5s", "20s")
	maybe(10, "overlap-credit", 0, 0.5, 2)
	maybe(10, "prefill-scale", 0, 0.5, 2)
	maybe(10, "credit-decay", 0.5, 1)
	maybe(10, "request-weight", 0.5, 1)
	maybe(40, "selector", "round-robin", "least-loaded")
	maybe(20, "role", "decode")
	if w.chance(4) {
		w.run(line)
	} else {
		w.run(line, w.policy()...)
	}
	for _, id := range workerPool[:pick(w.dice, 1, 1, 2, 2, 3)] {
		w.worker(id)
	}
}

func (w *writer) workerIDs() []int { return slices.Sorted(maps.Keys(w.workers)) }

// shapeOf writes a worker's arguments.
func (w *writer) shapeOf(id int) string {
	s := shape{start: pick(w.dice, 0, 0, 0, 1), ranks: pick(w.dice, 1, 1, 1, 2, 3)}
	w.workers[id] = s
	line := fmt.Sprintf("id=%d", id)
	if s.start > 0 {
		line += fmt.Sprintf(" start=%d", s.start)
	}
	if s.ranks > 1 {
		line += fmt.Sprintf(" ranks=%d", s.ranks)
	}
	if w.chance(50) {
		line += fmt.Sprintf(" max-batched=%d", pick(w.dice, 64, 100, 200))
	}
	if w.chance(40) {
		line += fmt.Sprintf(" kv-blocks=%d", pick(w.dice, 4, 8, 12))
	}
	if w.chance(60) {
		line += " inc=" + pick(w.dice, incarnations...)
	}
	if taints := some(w.dice, 35, "a", "b"); len(taints) > 0 {
		line += list("taints", taints)
	}
	return line
}

func (w *writer) worker(id int) { w.run("worker " + w.shapeOf(id)) }

// look shows the queue, and now and then the loads.
func (w *writer) look() {
	if w.chance(35) {
		w.run("queue")
	}
	if w.chance(15) {
		w.run("loads")
	}
}

// end lets go of everything that can be named, so that a long queue drains.
func (w *writer) end() {
	for range 2 {
		for _, id := range w.ids(booked) {
			w.run(pick(w.dice, "release", "release", "prefill-done") + " id=" + id)
		}
		w.run("queue")
	}
	w.run("advance by=5s")
	w.run("queue")
	w.run("loads")
}

// ids returns the ids in a state, in order of arrival.
func (w *writer) ids(in state) []string {
	var out []string
	for _, id := range w.order {
		if w.states[id] == in {
			out = append(out, id)
		}
	}
	return out
}
