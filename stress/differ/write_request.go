package differ

import (
	"fmt"
	"strings"
)

// list writes a list argument.
func list[T any](key string, values []T) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return fmt.Sprintf(" %s=(%s)", key, strings.Join(texts, ","))
}

// aRank names a rank, mostly one that exists.
func (w *writer) aRank() string {
	ids := w.workerIDs()
	if len(ids) == 0 || w.chance(4) {
		return pick(w.dice, "1/0", "9/0", "2/7")
	}
	id := pick(w.dice, ids...)
	shape := w.workers[id]
	return fmt.Sprintf("%d/%d", id, shape.start+w.n(shape.ranks))
}

// constraints writes what restricts a request to some ranks. A script draws its
// constraints from a few sets, so that lanes hold more than one request.
func (w *writer) constraints() string {
	if len(w.sets) > 0 && w.chance(70) {
		return pick(w.dice, w.sets...)
	}
	s := ""
	w.choose([]weighted{
		{4, func() { s += " pin=" + w.aRank() }},
		{3, func() { s += list("allow", some(w.dice, 50, workerPool...)) }},
		{3, func() { s += list("exclude", some(w.dice, 30, workerPool...)) }},
		{2, func() { s += " taints=(a)" }},
		{1, func() {
			s += list("allow", some(w.dice, 60, workerPool...)) + list("exclude", some(w.dice, 30, workerPool...))
		}},
		{1, func() { s += " pin=" + w.aRank() + list("allow", some(w.dice, 60, workerPool...)) }},
	})
	w.sets = append(w.sets, s)
	return s
}

// prompt writes block hashes: the beginning of one of two stems, and then blocks
// of its own.
func (w *writer) prompt() string {
	var blocks []int
	stem := pick(w.dice, 10, 20)
	for i := range w.between(0, 4) {
		blocks = append(blocks, stem+i)
	}
	for range w.n(3) {
		blocks = append(blocks, w.between(100, 105))
	}
	return list("blocks", blocks)
}

func (w *writer) overlaps(tier string) string {
	seen := map[string]bool{}
	var pairs []string
	for range w.between(1, 3) {
		if rank := w.aRank(); !seen[rank] {
			seen[rank] = true
			pairs = append(pairs, fmt.Sprintf("%s:%v", rank, pick[any](w.dice, 1, 2, 3, 6, 0.5)))
		}
	}
	return list(tier, pairs)
}

// invalid are arguments that no request may have.
var invalid = []string{
	" isl=-1", " isl=16 jump=Inf", " isl=16 overlap=(1/0:-1)", " isl=16 host=(1/0:Inf)",
	" isl=16 prefer-taints=(a:NaN)", " isl=16 expect=-1s", " isl=16 disk=(1/0:1,1/0:1)",
}

// request writes the arguments of schedule and select, but for the id.
func (w *writer) request() string {
	if w.chance(1) {
		return pick(w.dice, invalid...)
	}
	var s strings.Builder
	fmt.Fprintf(&s, " isl=%d", pick(w.dice, 0, 10, 16, 16, 32, 40, 64, 100, 160, w.n(300)))
	maybe := func(percent int, text func() string) {
		if w.chance(percent) {
			s.WriteString(text())
		}
	}
	one := func(key string, values ...string) func() string {
		return func() string { return " " + key + "=" + pick(w.dice, values...) }
	}
	flag := func(name string) func() string { return func() string { return " " + name } }
	maybe(75, func() string {
		if class := pick(w.dice, w.asks...); class != "" {
			return " class=" + class
		}
		return ""
	})
	maybe(30, w.constraints)
	maybe(8, func() string { return " prefer=" + w.aRank() })
	maybe(8, one("prefer-taints", "(a:0.5)", "(b:1,a:-0.5)", "(c:2)"))
	maybe(35, w.prompt)
	maybe(25, func() string { return w.overlaps("overlap") })
	maybe(8, func() string { return w.overlaps("host") })
	maybe(8, func() string { return w.overlaps("disk") })
	maybe(20, one("prio", "1", "2"))
	maybe(15, one("jump", "0.5", "1", "4", "-1"))
	maybe(16, one("due", "0.5s", "1s", "1.5s", "3s", "3s", "10s", pick(w.dice, "10s", "0s", "-1s")))
	maybe(35, one("expect", "0s", "0.5s", "1s", "2s", "3s", "16s", "7ns"))
	maybe(3, one("osl", "10"))
	maybe(4, flag("no-queue"))
	maybe(6, flag("no-prefill"))
	return s.String()
}
