package differ

import (
	"strings"

	"github.com/seed-3c5df8a4/turnstile/stress/engines"
)

// Reduce returns a smaller script on which some engine still differs from the
// model, and the difference: it takes out commands, then lines of input, then
// arguments, as long as that can be done.
func Reduce(steps []Step, all []engines.Engine) ([]Step, *Difference) {
	d := Compare(steps, all)
	if d == nil {
		return steps, nil
	}
	r := &reducer{steps: steps, difference: d, all: all}
	for r.progress = true; r.progress; {
		r.progress = false
		r.cutTail()
		r.commands()
		r.inputs()
		r.arguments()
	}
	return r.steps, r.difference
}

type reducer struct {
	steps      []Step
	difference *Difference
	all        []engines.Engine
	progress   bool
}

// try takes steps if the engines still differ on them.
func (r *reducer) try(steps []Step) bool {
	answered, err := answer(steps)
	if err != nil {
		return false
	}
	d := Compare(answered, r.all)
	if d == nil {
		return false
	}
	r.steps, r.difference, r.progress = answered, d, true
	return true
}

func (r *reducer) cutTail() {
	if last := r.difference.Step + 1; last < len(r.steps) {
		r.try(r.steps[:last])
	}
}

func (r *reducer) commands() {
	for size := len(r.steps) / 2; size > 0; size /= 2 {
		for at := len(r.steps) - size; at >= 0; {
			if r.try(without(r.steps, at, size)) {
				at = min(at, len(r.steps)-size)
			} else {
				at -= size
			}
		}
	}
}

func (r *reducer) inputs() {
	for i := range r.steps {
		for k := len(r.steps[i].Input) - 1; k >= 0; k-- {
			s := r.steps[i]
			s.Input = without(s.Input, k, 1)
			r.replace(i, s)
		}
		for k := range r.steps[i].Input {
			r.words(i, func(s *Step) *string {
				s.Input = append([]string(nil), s.Input...)
				return &s.Input[k]
			}, ", ")
		}
	}
}

func (r *reducer) arguments() {
	for i := range r.steps {
		r.words(i, func(s *Step) *string { return &s.Line }, " ")
	}
}

// words takes single words out of a text of a step.
func (r *reducer) words(i int, text func(*Step) *string, separator string) {
	for k := len(strings.Split(*text(&r.steps[i]), separator)) - 1; k > 0; k-- {
		s := r.steps[i]
		t := text(&s)
		words := strings.Split(*t, separator)
		if k >= len(words) {
			continue
		}
		tail := ""
		if k == len(words)-1 && strings.HasSuffix(words[k], "}") {
			tail = "}"
		}
		*t = strings.Join(without(words, k, 1), separator) + tail
		r.replace(i, s)
	}
}

func (r *reducer) replace(i int, s Step) {
	steps := append([]Step(nil), r.steps...)
	steps[i] = s
	r.try(steps)
}

func without[T any](list []T, at, n int) []T {
	return append(append([]T(nil), list[:at]...), list[at+n:]...)
}
