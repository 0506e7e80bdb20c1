package differ

import (
	"fmt"
	"slices"
)

// The phases of a script: what is done how often. Each is asked anew for every
// command.

func (w *writer) fill() []weighted {
	return []weighted{{80, w.schedule}, {3, w.selectRank}, {5, w.lifecycle}, {8, w.advance}, {2, w.leave}, {1, w.topology}}
}

func (w *writer) drain() []weighted {
	return []weighted{{65, w.finish}, {12, w.advance}, {8, w.lifecycle}, {8, w.schedule}, {4, w.leave}, {3, w.topology}}
}

func (w *writer) mix() []weighted {
	return []weighted{
		{35, w.schedule}, {25, w.finish}, {10, w.lifecycle}, {10, w.advance}, {6, w.leave}, {5, w.selectRank},
		{6, w.topology}, {2, w.profile}, {2, func() { w.run("recheck") }},
	}
}

func (w *writer) change() []weighted {
	return []weighted{{45, w.topology}, {25, w.schedule}, {10, w.profile}, {10, w.finish}, {5, w.advance}, {5, w.lifecycle}}
}

func (w *writer) schedule() {
	w.next++
	id := fmt.Sprintf("r%d", w.next)
	if len(w.order) > 0 && w.chance(5) {
		id = pick(w.dice, w.order...)
	}
	line := "schedule id=" + id + w.request()
	if w.chance(6) {
		// What a query gets is no booking; its id stays unknown to the rest.
		w.run(line + " query")
		return
	}
	if _, again := w.states[id]; !again {
		w.order = append(w.order, id)
		w.states[id] = over
	}
	w.run(line)
}

func (w *writer) selectRank() { w.run("select id=s" + w.request()) }

// someID returns an id, mostly one in the given state.
func (w *writer) someID(in state) string {
	ids := w.ids(in)
	if len(ids) == 0 || w.chance(5) {
		ids = append(slices.Clone(w.order), "r0")
	}
	return pick(w.dice, ids...)
}

// finish frees capacity.
func (w *writer) finish() {
	w.run(pick(w.dice, "prefill-done", "release") + " id=" + w.someID(booked) + w.anAttempt())
}

func (w *writer) anAttempt() string {
	if w.chance(10) {
		return fmt.Sprintf(" attempt=%d", w.between(1, 3))
	}
	return ""
}

func (w *writer) lifecycle() {
	id := w.someID(booked)
	w.choose([]weighted{
		{5, func() { w.run("transfer id=" + id + " to=" + w.aRank()) }},
		{4, func() { w.toBest(id) }},
		{2, func() { w.run("output-block id=" + id) }},
		{4, func() { w.run("output-block id=" + id + " decay=" + pick(w.dice, "0", "0.25", "0.5", "0.3", "1", "2")) }},
		{2, func() { w.run("touch id=" + id + w.anAttempt()) }},
	})
}

func (w *writer) advance() {
	w.run("advance by=" + pick(w.dice, "0.1s", "0.5s", "1s", "1.5s", "3s", "7ns", "0s", "10s"))
}

func (w *writer) leave() { w.run("cancel id=" + w.someID(waiting)) }

func (w *writer) topology() {
	id := pick(w.dice, workerPool...)
	w.choose([]weighted{
		{6, func() { w.worker(id) }},
		{3, func() {
			delete(w.workers, id)
			w.run(fmt.Sprintf("remove-worker id=%d", id) + w.anIncarnation())
		}},
		{3, func() {
			w.run(fmt.Sprintf("set-aside id=%d for=%s", id, pick(w.dice, "0s", "0.5s", "1s", "2s", "10s")) + w.anIncarnation())
		}},
		{2, func() {
			clear(w.workers)
			var lines []string
			for _, id := range some(w.dice, 70, workerPool...) {
				lines = append(lines, w.shapeOf(id))
			}
			w.run("workers", lines...)
		}},
		{3, func() { w.run("overloaded" + list("ids", some(w.dice, 40, workerPool...))) }},
		{3, func() { w.run("overloaded ids=()") }},
		{2, func() { w.run("available" + list("ids", some(w.dice, 75, workerPool...))) }},
		{1, func() { w.run("available ids=()") }},
		{4, func() { w.run("available") }},
		{2, func() { w.run(fmt.Sprintf("drain-worker id=%d", id)) }},
		{2, func() { w.run(fmt.Sprintf("drain-worker id=%d off", id)) }},
		{1, func() {
			w.run(fmt.Sprintf("worker id=%d", id) + pick(w.dice, " ranks=0", " ranks=1025", " max-batched=0", " kv-blocks=-1", " start=4294967295 ranks=2"))
		}},
	})
}

func (w *writer) anIncarnation() string {
	if w.chance(30) {
		return " inc=" + pick(w.dice, incarnations...)
	}
	return ""
}

func (w *writer) toBest(id string) {
	line := "transfer id=" + id + " to=best"
	if w.chance(50) {
		line += list("allow", some(w.dice, 60, workerPool...))
	}
	w.run(line)
}

func (w *writer) profile() {
	if w.chance(10) {
		w.run("profile", pick(w.dice, badPolicies...))
		return
	}
	w.run("profile", w.policy()...)
}
